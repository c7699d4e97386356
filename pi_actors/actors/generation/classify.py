"""What a response amounts to."""

import hashlib
from collections.abc import Iterable
from typing import Literal

from pi_actors.actors.generation.messages import FailAttempt, ReceiveResponse
from pi_actors.core.messages import Call, Text


def classify(response: ReceiveResponse) -> Literal["answer", "calls", "length"] | None:
    """What the turn does with *response*; None where it was cut or empty, a retryable fault."""
    has_content = any(
        isinstance(part, Call) or (isinstance(part, Text) and part.text != "") for part in response.parts
    )
    if response.stop is None or not has_content:
        return None
    if response.stop == "length":
        return "length"
    return "calls" if any(isinstance(part, Call) for part in response.parts) else "answer"


def cut_short(response: ReceiveResponse) -> FailAttempt:
    """The failure that a cut or empty *response* is."""
    if response.stop is None:
        error = "the stream ended without its finish marker"
    else:
        error = "the response was empty"
    return FailAttempt(
        kind="retryable",
        error=error,
        parts=response.parts,
        usage=response.usage,
        provider=response.provider,
        provider_model=response.provider_model,
    )


def digest_of(digests: Iterable[str]) -> str:
    """One short digest of the offered tools' digests, in order."""
    joined = "\n".join(digests)
    return hashlib.blake2b(joined.encode(), digest_size=8).hexdigest() if joined else ""
