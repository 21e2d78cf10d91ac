"""The routes of the API. The handlers of each package get the context of that package."""

from types import ModuleType

from litestar import Router
from litestar.handlers import BaseRouteHandler
from litestar.types import ControllerRouterHandler

from terracrew.server.api.access import (
    audit,
    connect,
    me,
    organizations,
    roles,
    service_accounts,
    tokens,
    trust_policies,
    users,
)
from terracrew.server.api.context import AccessCall, OperationsCall, RunsCall, TreeCall
from terracrew.server.api.operations import health, releases, schemas, server
from terracrew.server.api.runs import fleet_jobs, group_runs, jobs, live, logs
from terracrew.server.api.tree import (
    cloud_identities,
    deployments,
    groups,
    inputs,
    modules,
    outputs,
    rollouts,
    runners,
    states,
    steps,
    uploads,
)


def _handlers(*modules: ModuleType) -> list[ControllerRouterHandler]:
    """Return all handlers of these modules, in the order in which they are defined."""
    return [each for module in modules for each in vars(module).values() if isinstance(each, BaseRouteHandler)]


def _described(tag: str, *modules: ModuleType) -> Router:
    """Return the operations of these modules. The description of the API has them in the section of this name."""
    return Router("/api/v1", route_handlers=_handlers(*modules), tags=[tag])


ACCESS: list[ControllerRouterHandler] = [
    _described("access", me, tokens, users, service_accounts, trust_policies, roles, organizations),
    *_handlers(connect),
    _described("audit", audit),
]
_OPERATIONS: list[ControllerRouterHandler] = [
    *_handlers(health, schemas),
    _described("server", server),
    _described("releases", releases),
]
_RUNS: list[ControllerRouterHandler] = [
    _described("jobs", jobs),
    _described("fleet jobs", fleet_jobs),
    _described("groups", group_runs),
    _described("logs", logs),
    _described("live", live),
]
_TREE: list[ControllerRouterHandler] = [
    _described("groups", groups),
    _described("modules", modules, uploads),
    _described("inputs", inputs),
    _described("steps", steps),
    _described("runners", runners, deployments, rollouts),
    _described("cloud identities", cloud_identities),
    _described("states", states, outputs),
]

ROUTERS: list[ControllerRouterHandler] = [
    Router("/", route_handlers=_TREE, request_class=TreeCall),
    Router("/", route_handlers=_RUNS, request_class=RunsCall),
    Router("/", route_handlers=ACCESS, request_class=AccessCall),
    Router("/", route_handlers=_OPERATIONS, request_class=OperationsCall),
]
