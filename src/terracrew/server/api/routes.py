"""The routes of the API. The handlers of each package get the context of that package."""

from types import ModuleType

from litestar import Router
from litestar.handlers import BaseRouteHandler
from litestar.types import ControllerRouterHandler

from terracrew.server.api.access import (
    audit,
    connect,
    identity_providers,
    me,
    organizations,
    provisioning,
    roles,
    service_accounts,
    tokens,
    trust_policies,
    users,
)
from terracrew.server.api.context import AccessCall, OperationsCall, RunsCall, TreeCall
from terracrew.server.api.operations import health, releases, schemas, server
from terracrew.server.api.runs import (
    drift,
    fleet_jobs,
    group_runs,
    jobs,
    live,
    logs,
    overview,
    pull_requests,
    schedules,
)
from terracrew.server.api.tree import (
    cloud_identities,
    deployments,
    discovery,
    forges,
    groups,
    hooks,
    inputs,
    locks,
    modules,
    notifications,
    outputs,
    policies,
    registry,
    registry_protocol,
    rollouts,
    runners,
    state_backend,
    states,
    steps,
    uploads,
)
from terracrew.server.http.request import Call


def _handlers(*modules: ModuleType) -> list[ControllerRouterHandler]:
    """Return all handlers of these modules, in the order in which they are defined."""
    return [each for module in modules for each in vars(module).values() if isinstance(each, BaseRouteHandler)]


def _described(call: type[Call], tag: str, *modules: ModuleType) -> Router:
    """Return the operations of these modules. The description of the API has them in the section of this name."""
    return Router("/api/v1", route_handlers=_handlers(*modules), tags=[tag], request_class=call)


# No router is within another one: Litestar copies all handlers of a router for each that it is in, a tenth of a second in all.
ACCESS: list[ControllerRouterHandler] = [
    _described(
        AccessCall,
        "access",
        me,
        tokens,
        users,
        service_accounts,
        trust_policies,
        roles,
        organizations,
        identity_providers,
        provisioning,
    ),
    Router("/", route_handlers=_handlers(connect), request_class=AccessCall),
    _described(AccessCall, "audit", audit),
]
ROUTERS: list[ControllerRouterHandler] = [
    _described(TreeCall, "groups", groups),
    _described(TreeCall, "modules", modules, uploads),
    _described(TreeCall, "inputs", inputs),
    _described(TreeCall, "steps", steps),
    _described(TreeCall, "runners", runners, deployments, rollouts),
    _described(TreeCall, "cloud identities", cloud_identities),
    _described(TreeCall, "notifications", notifications),
    _described(TreeCall, "forges", forges),
    _described(TreeCall, "discovery", discovery),
    _described(TreeCall, "policies", policies),
    _described(TreeCall, "registry", registry),
    _described(TreeCall, "states", states, state_backend, outputs, locks),
    _described(RunsCall, "jobs", jobs),
    _described(RunsCall, "fleet jobs", fleet_jobs),
    _described(RunsCall, "groups", group_runs),
    _described(RunsCall, "pull requests", pull_requests),
    _described(RunsCall, "schedules", schedules),
    _described(RunsCall, "drift", drift),
    _described(RunsCall, "logs", logs),
    _described(RunsCall, "overview", overview),
    _described(RunsCall, "live", live),
    *ACCESS,
    Router("/", route_handlers=_handlers(hooks, registry_protocol), request_class=TreeCall),
    Router("/", route_handlers=_handlers(health, schemas), request_class=OperationsCall),
    _described(OperationsCall, "server", server),
    _described(OperationsCall, "releases", releases),
]
