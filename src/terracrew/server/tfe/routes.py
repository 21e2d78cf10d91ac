"""The addresses of this face."""

from types import ModuleType
from typing import Any

from litestar import Request, Router
from litestar.handlers import BaseRouteHandler
from litestar.types import ControllerRouterHandler

from terracrew.errors import Forbidden
from terracrew.server.http.request import refuse_oversized
from terracrew.server.identity.people import sessions
from terracrew.server.principals.model import Principal
from terracrew.server.tfe import (
    configuration,
    json_api,
    logs,
    organizations,
    plan_json,
    runs,
    states,
    variables,
    workspaces,
)
from terracrew.server.tfe.context import BASE, TfeCall


def _handlers(*modules: ModuleType) -> list[ControllerRouterHandler]:
    found = [each for module in modules for each in vars(module).values() if isinstance(each, BaseRouteHandler)]
    return [each for each in found if each is not runs.page]


async def _enter(request: Request[Any, Any, Any]) -> None:
    """Act in the organization of what the address names by an id. In the others, the address names the organization itself.

    The engine of a job only reads.
    """
    assert isinstance(request, TfeCall)
    await refuse_oversized(request)
    who: Principal | None = request.scope["user"]
    if request.method not in sessions.SAFE_METHODS and who is not None and who.attempt is not None:
        raise Forbidden("the credential of a job can only read its own module: it starts no runs and changes nothing")
    params = request.path_params
    if "tenant" in params or "sealed" in params:
        return
    for reference in params.values():
        await request.enter(str(reference))


ROUTERS: list[ControllerRouterHandler] = [
    Router(
        BASE,
        route_handlers=_handlers(organizations, workspaces, configuration, runs, plan_json, logs, states, variables),
        request_class=TfeCall,
        before_request=_enter,
        exception_handlers=json_api.HANDLERS,
        include_in_schema=False,
    ),
    Router("/", route_handlers=[runs.page], include_in_schema=False),
]
