"""The page of a hold: why the server hands out no changes, what is known of its modules, and the forms that release them."""

from typing import Any

import msgspec
from litestar import Response, Router, get, post

from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.db.seam import Tx
from terracrew.server.jobs.set_back import release as service
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import holds
from terracrew.server.runs.holds import HoldView

PAGE = "/dashboard/hold"


class ReleaseForm(msgspec.Struct, frozen=True):
    module: str = ""
    """The id of a module; empty for everything."""
    is_untouched: str = ""


async def read(tx: Tx, who: Principal) -> HoldView:
    await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
    return await holds.view(tx)


@get("/")
async def show(request: DashboardCall) -> Response[bytes]:
    found = await request.context.db.read_in_background(lambda tx: read(tx, request.user))
    return await render.page(request, "hold/hold_page.html", "hold/hold.html", at="hold", page=found)


@post("/release", status_code=200)
async def release(request: DashboardCall) -> Response[Any]:
    form = await forms.read(request, ReleaseForm)
    db, is_untouched = request.context.db, bool(form.is_untouched)
    if form.module:
        await service.release_module(db, request.user, form.module, is_untouched=is_untouched)
        return render.done(request, "Released: its next plan waits for an approval.", PAGE)
    await service.release(db, request.user, is_untouched=is_untouched)
    return render.done(request, "The server hands out changes again.", PAGE)


pages = Router(PAGE, route_handlers=[show, release], exception_handlers=HANDLERS, include_in_schema=False)
