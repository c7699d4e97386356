"""Parts that people and tools hand over, checked where they enter."""

from typing import cast

import msgspec

from pi_actors.core.errors import InvalidValue
from pi_actors.core.messages import Blob, Text
from pi_actors.core.text import clean_text


def clean_part(part: Text | Blob, what: str) -> Text | Blob:
    """*part* with its text normalised.

    Raises:
        InvalidValue: it is too large, or its fields are not of their types; what reckons with its size
            relies on them.
    """
    if isinstance(part, Text):
        if not isinstance(cast(object, part.text), str):
            raise InvalidValue(f"{what} has a Text of {type(part.text).__name__}; its text must be a str")
        return msgspec.structs.replace(part, text=clean_text(part.text, what))
    if not isinstance(cast(object, part.media_type), str):
        kind = type(part.media_type).__name__
        raise InvalidValue(
            f"{what} has a Blob whose media type is of {kind}; it must be text such as image/png"
        )
    if not isinstance(cast(object, part.data), bytes):
        raise InvalidValue(f"{what} has a Blob of {type(part.data).__name__}; its data must be bytes")
    return part
