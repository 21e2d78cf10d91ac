"""Health of a server over HTTP: whether it is alive, whether it can serve, and its metrics."""

from typing import Literal

from litestar import Response, get
from litestar.params import FromQuery

from terracrew.server.api.context import OperationsCall
from terracrew.server.api.metrics import exposition
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal


@get("/healthz", public=True, ignores_credentials=True, include_in_schema=False)
async def healthz() -> dict[str, str]:
    """Answer that the process is alive, regardless of its database."""
    return {"status": "ok"}


@get("/readyz", public=True, ignores_credentials=True, include_in_schema=False)
async def readyz(request: OperationsCall, exclude: FromQuery[Literal["object_store"] | None] = None) -> dict[str, str]:
    """The database takes writes, which it does only once its tables are up to date, the object store works, and the server is not
    being stopped. A load balancer excludes the object store: all servers have the same one, and most requests do not need it."""
    problem = await request.context.readiness.check(needs_objects=exclude is None)
    # A server at its reserve still answers people and stores statuses, so a load balancer has to keep it.
    # So does one that cannot evaluate policies: it gives no permission to apply where one is mandatory.
    problem = problem or request.context.disk.problem or await request.context.policies.problem()
    return {"status": "ok"} | ({"warning": problem} if problem else {})


@get("/metrics", takes_metrics_token=True, include_in_schema=False)
async def metrics(request: OperationsCall) -> Response[bytes]:
    """Return the metrics in the format of Prometheus. They are about all organizations, so only the token for metrics and
    administrators read them."""
    who: Principal | None = request.scope["user"]
    if who is not None:  # the token for metrics is nobody's
        await authorize.require(request.context.db, who, Verb.SERVER_ADMIN, authorize.SERVER)
    text, kind = await exposition.render(request.context.measured)
    return Response(text, media_type=kind)
