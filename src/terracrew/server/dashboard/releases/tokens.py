"""The tokens with which releases are published: the page that lists and revokes them, and makes one, which it shows once."""

from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew import ids
from terracrew.errors import Conflict, Invalid
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import SERVER, Verb
from terracrew.server.releases import tokens

HERE = "/dashboard/releases/tokens"
PAGE_ROWS = 100
LIFETIMES = {"7": "In 7 days", "30": "In 30 days", "90": "In 90 days", "365": "In a year"}
"""How long a token is valid: the number of days, and its word. None lasts for ever."""


class ReleaseTokenForm(msgspec.Struct, frozen=True):
    name: str = ""
    days: str = str(tokens.DEFAULT_DAYS)


@get("/tokens")
async def tokens_page(request: DashboardCall, after: FromQuery[str | None] = None) -> Response[Any]:
    found = await request.read(tokens.listing, after, PAGE_ROWS)
    return await render.page(request, "releases/tokens", page=found, after=after, here=HERE)


@get("/tokens/create")
async def create_page(request: DashboardCall) -> Response[Any]:
    await authorize.require(request.context.db, request.user, Verb.SERVER_ADMIN, SERVER)
    return await _ask(request, ReleaseTokenForm())


@post("/tokens/create", status_code=200, in_any_organization=True)
async def create(request: DashboardCall) -> Response[Any]:
    """Make a token. Only this answer contains it."""
    await authorize.require(request.context.db, request.user, Verb.SERVER_ADMIN, SERVER)
    form = await forms.read(request, ReleaseTokenForm)
    try:
        name, days = forms.name(form.name), forms.days(form.days)
        made, secret = await tokens.create(request.context.db, request.user, name, days)
    except (Conflict, Invalid) as error:
        return await _ask(request, form, error)
    shown: dict[str, Any] = {"made": made, "secret": secret.text, "here": HERE}
    return await render.template(request, "releases/token_made_page.html", **shown)


@post("/tokens/{release_token:str}/revoke", in_any_organization=True)
async def revoke(request: DashboardCall, release_token: FromPath[str]) -> Response[Any]:
    await request.write(tokens.revoke, ids.parse("rtk", release_token))
    return render.done(request, "The token is revoked", HERE)


async def _ask(
    request: DashboardCall, form: ReleaseTokenForm, error: Conflict | Invalid | None = None
) -> Response[Any]:
    wrong, status = (error.message, error.status) if error else ("", 200)
    shown: dict[str, Any] = {"form": form, "wrong": wrong, "lifetimes": LIFETIMES, "here": HERE}
    return await render.template(request, "releases/token_create_page.html", status, **shown)
