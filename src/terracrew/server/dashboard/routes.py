"""Every page and static file, for the application to mount: all handlers that the modules of the pages have."""

from types import ModuleType
from typing import Any

from litestar import Router, get
from litestar.handlers import HTTPRouteHandler
from litestar.response import Redirect
from litestar.types import ControllerRouterHandler

from terracrew.server.dashboard import api_reference, assets, overview
from terracrew.server.dashboard.access import (
    account,
    audit,
    device,
    login,
    organizations,
    own,
    provisioning,
    roles,
    service_accounts,
    sign_in,
    single_sign_on,
    terminal_login,
    users,
)
from terracrew.server.dashboard.cloud_identities import handlers as cloud_identities
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.discovery import handlers as discovery
from terracrew.server.dashboard.drift import handlers as drift
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.dashboard.forges import handlers as forges
from terracrew.server.dashboard.groups import handlers as groups
from terracrew.server.dashboard.groups import runs as group_runs
from terracrew.server.dashboard.jobs import handlers as jobs
from terracrew.server.dashboard.modules import creation, page, run_options, settings, source, states
from terracrew.server.dashboard.notifications import handlers as notifications
from terracrew.server.dashboard.policies import handlers as policies
from terracrew.server.dashboard.pull_requests import handlers as pull_requests
from terracrew.server.dashboard.registry import handlers as registry
from terracrew.server.dashboard.releases import handlers as releases
from terracrew.server.dashboard.releases import tokens as release_tokens
from terracrew.server.dashboard.runners import actions, deploy, deployment, edit, fleet_jobs, once_tokens, rows
from terracrew.server.dashboard.runners import page as runner
from terracrew.server.dashboard.schedules import handlers as schedules
from terracrew.server.dashboard.server import handlers as server
from terracrew.server.dashboard.tree import inputs, steps

_OF_PAGES: dict[str, Any] = {"request_class": DashboardCall, "include_in_schema": False}
MAX_CREDENTIALS_BYTES = 16_384
"""The size of a form with a password, which somebody who is not logged in may send."""


@get("/")
async def home() -> Redirect:
    return Redirect(login.HOME, status_code=303)


def _router(path: str, *modules: ModuleType, **options: Any) -> Router:
    """Return all handlers that these modules have, below a path."""
    found = [each for module in modules for each in vars(module).values() if isinstance(each, HTTPRouteHandler)]
    return Router(path, route_handlers=found, exception_handlers=HANDLERS, **_OF_PAGES, **options)


routers: list[ControllerRouterHandler] = [
    _router("/", account, device, login, sign_in, terminal_login, request_max_body_size=MAX_CREDENTIALS_BYTES),
    _router("/", roles, own, states),
    _router(overview.HERE, overview),
    _router(runner.HERE, rows, runner, edit, deploy, actions, deployment, once_tokens),
    _router(releases.HERE, releases, release_tokens),
    _router(cloud_identities.HERE, cloud_identities),
    _router(jobs.HERE, jobs),
    _router(fleet_jobs.HERE, fleet_jobs),
    _router(page.HERE, page, creation, run_options, settings, source),
    _router(inputs.HERE, inputs),
    _router(steps.HERE, steps),
    _router(groups.HERE, groups, group_runs),
    _router(schedules.HERE, schedules),
    _router(discovery.HERE, discovery),
    _router(registry.HERE, registry),
    _router(policies.HERE, policies),
    _router(drift.HERE, drift),
    _router(pull_requests.HERE, pull_requests),
    _router(notifications.HERE, notifications),
    _router(forges.HERE, forges),
    _router(users.HERE, users),
    _router(service_accounts.HERE, service_accounts),
    _router(single_sign_on.HERE, single_sign_on),
    _router(audit.HERE, audit),
    _router(organizations.HERE, organizations),
    _router(provisioning.HERE, provisioning),
    _router(server.HERE, server),
    Router("/", route_handlers=[home], exception_handlers=HANDLERS, **_OF_PAGES),
    Router("/", route_handlers=[api_reference.document, api_reference.page, assets.serve], **_OF_PAGES),
]
