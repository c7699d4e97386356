"""A scripted model that a test looks over the shoulder of."""

from pi_actors.models import Emit, ModelRequest, ModelResponse, ScriptedModel


class Watched:
    """Answers as *scripted* does, once ``meet`` has met the request."""

    def __init__(self, scripted: ScriptedModel) -> None:
        self._scripted = scripted

    @property
    def name(self) -> str:
        return self._scripted.name

    @property
    def context_window(self) -> int | None:
        return self._scripted.context_window

    async def meet(self, request: ModelRequest) -> None:
        """Called with each request before it is answered."""

    async def stream(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        await self.meet(request)
        return await self._scripted.stream(request, emit)
