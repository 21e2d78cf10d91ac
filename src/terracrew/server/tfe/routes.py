"""The addresses of this face."""

from types import ModuleType

from litestar import Router
from litestar.handlers import BaseRouteHandler
from litestar.types import ControllerRouterHandler

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


ROUTERS: list[ControllerRouterHandler] = [
    Router(
        BASE,
        route_handlers=_handlers(organizations, workspaces, configuration, runs, plan_json, logs, states, variables),
        request_class=TfeCall,
        exception_handlers=json_api.HANDLERS,
        include_in_schema=False,
    ),
    Router("/", route_handlers=[runs.page], include_in_schema=False),
]
