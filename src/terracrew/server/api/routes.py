"""The routes of the API. The handlers of each package get the context of that package."""

from litestar import Router
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
from terracrew.server.api.access.context import AccessCall
from terracrew.server.api.operations import health, holds, issuer, rekey, retention, schemas
from terracrew.server.api.operations.context import OperationsCall
from terracrew.server.api.operations.releases import handlers as release_handlers
from terracrew.server.api.operations.releases import token_handlers as release_token_handlers
from terracrew.server.api.runs import diffs, fleet_jobs, group_runs, jobs, live, logs
from terracrew.server.api.runs.context import RunsCall
from terracrew.server.api.tree import (
    cloud_identities,
    deployments,
    groups,
    inputs,
    modules,
    once_tokens,
    outputs,
    rollouts,
    runners,
    states,
    steps,
    uploads,
)
from terracrew.server.api.tree.context import TreeCall

ACCESS: list[ControllerRouterHandler] = [
    me.router,
    tokens.router,
    users.router,
    service_accounts.router,
    trust_policies.router,
    roles.router,
    organizations.router,
    connect.token,
    connect.jwks,
    connect.openid_configuration,
    connect.discovery,
    audit.router,
]
_OPERATIONS: list[ControllerRouterHandler] = [
    *health.handlers,
    *schemas.handlers,
    holds.router,
    issuer.router,
    rekey.router,
    release_handlers.router,
    release_token_handlers.router,
    retention.router,
]
_RUNS: list[ControllerRouterHandler] = [
    jobs.router,
    fleet_jobs.router,
    diffs.router,
    group_runs.router,
    logs.router,
    live.router,
]
_TREE: list[ControllerRouterHandler] = [
    groups.router,
    modules.router,
    inputs.router,
    steps.router,
    uploads.router,
    runners.router,
    deployments.router,
    rollouts.router,
    once_tokens.router,
    cloud_identities.router,
    states.router,
    outputs.router,
]

ROUTERS: list[ControllerRouterHandler] = [
    Router("/", route_handlers=_TREE, request_class=TreeCall),
    Router("/", route_handlers=_RUNS, request_class=RunsCall),
    Router("/", route_handlers=ACCESS, request_class=AccessCall),
    Router("/", route_handlers=_OPERATIONS, request_class=OperationsCall),
]
