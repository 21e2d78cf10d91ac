"""Every page and static file, for the application to mount."""

from litestar import Router, get
from litestar.response import Redirect
from litestar.types import ControllerRouterHandler

from terracrew.server.dashboard import assets
from terracrew.server.dashboard.access.account import pages as account
from terracrew.server.dashboard.access.audit import pages as audit
from terracrew.server.dashboard.access.login import HOME
from terracrew.server.dashboard.access.login import pages as identity
from terracrew.server.dashboard.access.organizations import pages as organizations
from terracrew.server.dashboard.access.roles import pages as access
from terracrew.server.dashboard.access.service_accounts import pages as service_accounts
from terracrew.server.dashboard.access.users import pages as users
from terracrew.server.dashboard.cloud_identities.handlers import pages as cloud_identities
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.dashboard.groups.handlers import pages as groups
from terracrew.server.dashboard.groups.runs import pages as group_runs
from terracrew.server.dashboard.jobs.handlers import hold_pages as hold
from terracrew.server.dashboard.jobs.handlers import pages as jobs
from terracrew.server.dashboard.modules.page import pages as modules
from terracrew.server.dashboard.modules.states import pages as states
from terracrew.server.dashboard.overview import pages as overview
from terracrew.server.dashboard.releases.handlers import pages as releases
from terracrew.server.dashboard.runners.fleet_jobs import pages as fleet_jobs
from terracrew.server.dashboard.runners.handlers import pages as runners
from terracrew.server.dashboard.tree.inputs import pages as inputs
from terracrew.server.dashboard.tree.steps import pages as steps


@get("/")
async def home() -> Redirect:
    return Redirect(HOME, status_code=303)


routers: list[ControllerRouterHandler] = [
    identity,
    account,
    overview,
    runners,
    releases,
    cloud_identities,
    jobs,
    fleet_jobs,
    modules,
    inputs,
    steps,
    groups,
    group_runs,
    access,
    users,
    service_accounts,
    audit,
    organizations,
    states,
    hold,
    assets.serve,
    Router("/", route_handlers=[home], exception_handlers=HANDLERS, include_in_schema=False),
]
