"""Every page and static file, for the application to mount."""

from litestar import Router, get
from litestar.response import Redirect
from litestar.types import ControllerRouterHandler

from terracrew.server.identity.account import pages as account
from terracrew.server.identity.pages import HOME
from terracrew.server.identity.pages import pages as identity
from terracrew.server.jobs.pages import pages as jobs
from terracrew.server.modules.pages import pages as modules
from terracrew.server.runners.pages import pages as runners
from terracrew.server.state.pages import pages as states
from terracrew.server.web import assets
from terracrew.server.web.errors import HANDLERS


@get(["/", "/dashboard"])
async def home() -> Redirect:
    return Redirect(HOME, status_code=303)


routers: list[ControllerRouterHandler] = [
    identity,
    account,
    runners,
    jobs,
    modules,
    states,
    assets.serve,
    Router("/", route_handlers=[home], exception_handlers=HANDLERS, include_in_schema=False),
]
