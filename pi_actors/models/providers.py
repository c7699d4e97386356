"""Real models, reached through pydantic-ai by a string such as ``anthropic:claude-opus-4-6``.

pydantic-ai and the SDKs below it cost about a second and 90 MB, so they are imported when the
first provider model is made, and importing this module imports none of them.
"""

import inspect
import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

import trio

from pi_actors.core.errors import UnknownName
from pi_actors.core.messages import Usage
from pi_actors.core.text import Json
from pi_actors.models import prices
from pi_actors.models.assembly import Assembly
from pi_actors.models.failures import model_failed
from pi_actors.models.leftovers import generators_closed
from pi_actors.models.protocol import Emit, Model, ModelFailed, ModelRequest, ModelResponse

if TYPE_CHECKING:
    from pydantic_ai.models import Model as WireModel
    from pydantic_ai.models import StreamedResponse
    from pydantic_ai.providers import Provider
    from pydantic_ai.settings import ModelSettings, ThinkingLevel

    from pi_actors.models.wire import Destination

KEY_VARIABLES: Final = {
    "anthropic": "ANTHROPIC_API_KEY",
    "azure": "AZURE_OPENAI_API_KEY",
    "cohere": "CO_API_KEY",
    "google": "GOOGLE_API_KEY",
    "huggingface": "HF_TOKEN",
    "openai-chat": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
}
"""Environment variables of keys; all others are the provider's name and _API_KEY."""

THINKING_LEVELS: Final[dict[str, "ThinkingLevel"]] = {
    "off": False,
    "on": True,
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}

OPENAI_HOST: Final = "api.openai.com"

SECRET_CHARACTERS_MIN: Final = 6


def make_model(text: str) -> Model:
    """Return the model that *text*, ``provider:name``, stands for.

    Raises:
        UnknownName: the provider is unknown, its library is not installed, or its key is not set.
    """
    return ProviderModel(text)


class ProviderModel:
    """A model of a provider, named ``provider:model``.

    ``base_url`` and ``api_key`` replace what the provider's environment variables say. ``openai:``
    speaks the Responses API to OpenAI and chat completions to every other server, where few speak
    anything else; ``openai-responses:`` and ``openai-chat:`` choose. ``settings`` are pydantic-ai's
    and are added to ours: no retries inside the SDK, prompt caching where it must be asked for.
    ``context_window``: tokens that fit, looked up where it is not given.

    No connection outlives the requests that use it, so none meets a connection that died while the
    process slept.

    Raises:
        UnknownName: the provider is unknown, its library is not installed, or its key is not set.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        settings: Mapping[str, Json] | None = None,
        context_window: int | None = None,
    ) -> None:
        self._name = name
        provider_name, model_name = _split_name(name)
        self._key_variable = _key_variable(provider_name)
        self._provider = provider = _provider(name, provider_name, base_url, api_key)
        self._at_openai = urlsplit(provider.base_url).hostname == OPENAI_HOST
        self._model = _wire_model(name, provider_name, model_name, provider, at_openai=self._at_openai)
        self._secrets = _secrets(provider, api_key, self._key_variable)
        self._settings = dict(settings or {})
        self._context_window = context_window or prices.context_window(self._model.system, model_name)

    @property
    def name(self) -> str:
        """The name under which logs know it."""
        return self._name

    @property
    def context_window(self) -> int | None:
        """Tokens that fit, None if unknown."""
        return self._context_window

    async def stream(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        """Send *request* once, hand each delta to *emit* and return how it ended.

        Cancellation closes the connection.

        Raises:
            ModelFailed: with the usage that was reported before it failed.
        """
        streams: list[StreamedResponse] = []
        try:
            async with generators_closed(), self._open(request, streams) as stream:
                return await self._receive(stream, emit)
        except Exception as error:
            usage = self._usage(streams[0]) if streams else None
            raise model_failed(
                error,
                model=self._name,
                key_variable=self._key_variable,
                secrets=self._secrets,
                usage=usage,
            ) from None

    @asynccontextmanager
    async def _open(
        self, request: ModelRequest, streams: "list[StreamedResponse]"
    ) -> "AsyncGenerator[StreamedResponse, None]":
        from pydantic_ai.direct import model_request_stream

        from pi_actors.models import wire

        messages = wire.outgoing(request, self._destination())
        await self._model.__aenter__()
        try:
            async with model_request_stream(
                self._model,
                messages,
                model_settings=self.request_settings(request),
                model_request_parameters=wire.parameters(request.tools),
                instrument=False,
            ) as stream:
                streams.append(stream)
                yield stream
        finally:
            with trio.CancelScope(shield=True):
                await self._model.__aexit__(None, None, None)

    async def _receive(self, stream: "StreamedResponse", emit: Emit) -> ModelResponse:
        from pi_actors.models import received

        reception = received.Reception(Assembly(emit))
        async for event in stream:
            reception.receive(event)
        parts = reception.finish(stream.get().parts)
        usage = self._usage(stream)
        return ModelResponse(
            parts=parts,
            stop=received.stop_of(stream, parts, model=self._name, usage=usage),
            provider=self._model.system,
            # The name that was asked for, not the dated one that replied: the next request must know
            # beforehand whose opaque data it may carry.
            model=self._model.model_name,
            usage=usage,
        )

    def _usage(self, stream: "StreamedResponse") -> Usage | None:
        from pi_actors.models import received

        usage = received.usage_of(stream)
        if usage is None:
            return None
        # What replied may be a dated version of what was asked for, which the table knows better.
        priced = prices.price(usage, self._model.system, stream.model_name)
        if priced.cost is not None:
            return priced
        return prices.price(usage, self._model.system, self._model.model_name)

    def request_settings(self, request: ModelRequest) -> "ModelSettings":
        """Return the settings that *request* is sent with.

        Raises:
            ModelFailed: the thinking level is not one of ours (fatal).
        """
        settings: dict[str, Json] = {"max_retries": 0}
        if request.purpose == "turn":
            settings["cache"] = True  # what is summarised is sent once, so a cache of it would never be read
        if request.thinking is not None:
            if request.thinking not in THINKING_LEVELS:
                known = ", ".join(THINKING_LEVELS)
                raise ModelFailed(
                    "fatal", f"{self._name}: no thinking level {request.thinking!r}; it is one of {known}"
                )
            settings["thinking"] = THINKING_LEVELS[request.thinking]
        if self._at_openai and request.session_id:
            # Other servers that speak OpenAI's protocol may refuse a field that they do not know.
            settings["openai_prompt_cache_key"] = request.session_id
        return cast("ModelSettings", settings | self._settings)

    def _destination(self) -> "Destination":
        from pi_actors.models.wire import Destination

        # Chat templates behind OpenAI-compatible servers often take a system message only in front.
        is_imitation = self._provider.name == "openai" and not self._at_openai
        inline_system = bool(self._model.profile.get("supports_inline_system_prompts"))
        return Destination(
            origin=(self._model.system, self._model.model_name),
            inline_system=inline_system and not is_imitation,
        )


def _split_name(name: str) -> tuple[str, str]:
    provider, _, model = name.partition(":")
    if not provider or not model:
        raise UnknownName(f"no model {name!r}: write provider:model, such as anthropic:claude-opus-4-6")
    return provider, model


def _key_variable(provider: str) -> str:
    return KEY_VARIABLES.get(provider, f"{provider.upper().replace('-', '_')}_API_KEY")


def _provider(name: str, provider_name: str, base_url: str | None, api_key: str | None) -> "Provider[Json]":
    kind = _provider_class(name, provider_name)
    given = {"base_url": base_url, "api_key": api_key}
    arguments = {key: value for key, value in given.items() if value is not None}
    for refused in arguments.keys() - inspect.signature(kind).parameters.keys():
        raise UnknownName(f"model {name!r}: provider {provider_name!r} takes no {refused}")
    try:
        return kind(**arguments)
    except Exception as error:
        variables = " or ".join(re.findall(r"`([A-Z][A-Z0-9_]+)`", str(error)))
        what = f"set the environment variable {variables}" if variables else _first_sentence(error)
        raise UnknownName(f"model {name!r} cannot be used: {what}") from None


def _provider_class(name: str, provider_name: str) -> "type[Provider[Json]]":
    try:
        from pydantic_ai.providers import infer_provider_class
    except ImportError:
        raise UnknownName(
            f"model {name!r} needs the provider libraries: pip install 'pi-actors[providers]'"
        ) from None
    try:
        return infer_provider_class(provider_name)
    except ValueError:
        raise UnknownName(
            f"model {name!r}: no provider {provider_name!r}; there are anthropic, google, groq, mistral, "
            "ollama, openai, openrouter and more that pydantic-ai knows"
        ) from None
    except ImportError as error:
        raise UnknownName(
            f"model {name!r}: the library of provider {provider_name!r} is not installed. {error}"
        ) from None


def _wire_model(
    name: str, provider_name: str, model_name: str, provider: "Provider[Json]", *, at_openai: bool
) -> "WireModel":
    from pydantic_ai.models import infer_model

    protocol = "openai-chat" if provider_name == "openai" and not at_openai else provider_name
    try:
        return infer_model(f"{protocol}:{model_name}", provider_factory=lambda _: provider)
    except Exception as error:
        raise UnknownName(f"model {name!r} cannot be used: {_first_sentence(error)}") from None


def _first_sentence(error: Exception) -> str:
    return re.split(r"(?<=[.!])\s", str(error) or type(error).__name__, maxsplit=1)[0]


def _secrets(provider: "Provider[Json]", api_key: str | None, key_variable: str) -> tuple[str, ...]:
    """What must not stand in a message."""
    keys = (api_key, os.environ.get(key_variable), getattr(provider.client, "api_key", None))
    return tuple(key for key in keys if isinstance(key, str) and len(key) >= SECRET_CHARACTERS_MIN)
