"""What those who operate a server ask of it: is it alive, can it serve, and how much is going on."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from litestar import Request, Response, get
from litestar.types import Message, Scope

from terracrew.server.db.seam import Tx

if TYPE_CHECKING:
    from terracrew.server.context import Server

_GAUGES = {
    "terracrew_jobs_queued": "Jobs that wait for a runner",
    "terracrew_jobs_active": "Jobs that a runner has",
    "terracrew_runners_connected": "Runner instances that are connected",
}


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


@get("/metrics", public="loopback", include_in_schema=False)
async def metrics(request: Request[Any, Any, Any]) -> Response[bytes]:
    """For Prometheus: from this machine, or with a token."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.exposition import CONTENT_TYPE_LATEST

    server: Server = request.app.state.server
    now = await server.db.read(_gauges)
    answers = CounterMetricFamily("terracrew_requests", "Answered HTTP requests", labels=["method", "status"])
    for (method, status), count in server.counts.answers.items():
        answers.add_metric([method, str(status)], count)
    families = [GaugeMetricFamily(name, _GAUGES[name], value=now[name]) for name in _GAUGES]

    class Collected:
        def collect(self) -> list[Any]:
            return [answers, *families]

    registry = CollectorRegistry()
    registry.register(Collected())
    kind, _, _ = CONTENT_TYPE_LATEST.partition("; charset")  # which the framework adds again
    return Response(generate_latest(registry), media_type=kind)


async def _gauges(tx: Tx) -> dict[str, int]:
    row = await tx.one(
        """SELECT (SELECT count(*) FROM jobs WHERE status = 'QUEUED') AS terracrew_jobs_queued,
                  (SELECT count(*) FROM jobs WHERE status IN ('CLAIMED', 'PROCESSING')) AS terracrew_jobs_active,
                  (SELECT count(*) FROM instances WHERE is_connected) AS terracrew_runners_connected"""
    )
    return dict(row or {})


handlers = [healthz, readyz, metrics]
