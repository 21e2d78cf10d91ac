"""The addresses of this face."""

from typing import Any

from litestar import Request, Router
from litestar.handlers import BaseRouteHandler
from litestar.types import ControllerRouterHandler

from terracrew.server.http.request import refuse_oversized
from terracrew.server.identity.provisioning import service
from terracrew.server.scim import errors, handlers
from terracrew.server.scim.context import BASE, ScimCall


async def _enter(request: Request[Any, Any, Any]) -> None:
    """Refuse everybody but a provisioner before anything of the request is read. The services check it again in their transaction."""
    assert isinstance(request, ScimCall)
    await refuse_oversized(request)
    if not request.route_handler.opt.get("public"):
        await request.read(service.require)


ROUTERS: list[ControllerRouterHandler] = [
    Router(
        BASE,
        route_handlers=[each for each in vars(handlers).values() if isinstance(each, BaseRouteHandler)],
        request_class=ScimCall,
        before_request=_enter,
        exception_handlers=errors.HANDLERS,
        include_in_schema=False,
        opt={"takes_client_secret": True},
    )
]
