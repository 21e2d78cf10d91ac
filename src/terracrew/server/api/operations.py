"""What those who operate a server ask of it: is it alive, can it serve, and how much is going on."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from litestar import Request, Response, get
from litestar.types import Message, Scope

if TYPE_CHECKING:
    from terracrew.server.context import Server


class Counts:
    """Answered requests by method and status; plain numbers, since each request passes here."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()

    async def count(self, message: Message, scope: Scope) -> None:
        if message["type"] == "http.response.start" and scope["type"] == "http":
            self.answers[scope["method"], message["status"]] += 1


@get("/healthz", public=True, ignores_credentials=True, include_in_schema=False)
async def healthz() -> dict[str, str]:
    """The process is alive, whatever its database does."""
    return {"status": "ok"}


@get("/readyz", public=True, ignores_credentials=True, include_in_schema=False)
async def readyz(request: Request[Any, Any, Any]) -> dict[str, str]:
    """The database takes writes, which it does only once its tables are up to date, and the server is not being stopped."""
    server: Server = request.app.state.server
    await server.readiness.check()
    return {"status": "ok"}


@get("/metrics", takes_metrics_token=True, include_in_schema=False)
async def metrics(request: Request[Any, Any, Any]) -> Response[bytes]:
    """For Prometheus, with the token for metrics or any other token."""
    from terracrew.server.api.metrics import exposition

    text, kind = await exposition.render(request.app.state.server)
    return Response(text, media_type=kind)


handlers = [healthz, readyz, metrics]
