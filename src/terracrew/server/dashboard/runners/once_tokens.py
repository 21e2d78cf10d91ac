"""The tokens for one job of a runner: the page that lists them, makes one, which it shows once, and revokes them."""

import shlex
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api.pages import Page
from terracrew.api.runners import (
    DEFAULT_SECONDS,
    MadeOnceToken,
    NewOnceToken,
    OnceTokenStatus,
    OnceTokenView,
    RunnerView,
)
from terracrew.errors import Conflict
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.badges import Badge
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.runners.page import address
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import once_token_service, service

PAGE_ROWS = 50
WAITS = {600: "10 minutes", 1800: "30 minutes", 3600: "an hour", 4 * 3600: "4 hours", 24 * 3600: "a day"}
"""How long a token may wait for its job, by seconds."""
BADGES: dict[OnceTokenStatus, Badge] = {
    "waiting": Badge("idle", "clock", "Waiting"),
    "running": Badge("busy", "arc", "Running"),
    "used": Badge("ok", "tick", "Used"),
    "expired": Badge("idle", "slash", "Expired"),
    "revoked": Badge("bad", "slash", "Revoked"),
}


class OnceTokensPage(msgspec.Struct, frozen=True):
    runner: RunnerView
    tokens: list[OnceTokenView]
    next: str | None
    after: str | None

    @property
    def here(self) -> str:
        return f"{address(self.runner.id)}/once-tokens"

    @staticmethod
    def badge(token: OnceTokenView) -> Badge:
        return BADGES[token.status]


async def read(tx: Tx, who: Principal, reference: str, after: str | None) -> OnceTokensPage:
    runner = await service.show(tx, who, reference, Verb.RUNNER_WRITE)
    found: Page[OnceTokenView] = await once_token_service.listing(tx, who, runner.id, after, PAGE_ROWS)
    return OnceTokensPage(runner, found.items, found.next, after)


def start(made: MadeOnceToken) -> str:
    """Return what is pasted into a shell of the machine. It contains the token."""
    return "".join(f"export {each}={shlex.quote(value)}\n" for each, value in made.environment.items()) + made.command


@get("/{runner:str}/once-tokens")
async def list_page(
    request: DashboardCall, runner: FromPath[str], after: FromQuery[str | None] = None
) -> Response[Any]:
    return await _answer(request, runner, after)


@post("/{runner:str}/once-tokens", status_code=200)
async def create(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    """Make a token. Only this answer contains it."""
    form = await forms.read(request, NewOnceToken)
    try:
        made = await request.write(once_token_service.create, runner, form, request.context.url)
    except Conflict as error:
        return await _answer(request, runner, None, error.message)
    found = await request.read(read, runner, None)
    shown: dict[str, Any] = {"page": found, "made": made, "start": start(made)}
    return await render.template(request, "runners/once_token_made_page.html", **shown)


@post("/{runner:str}/once-tokens/{once_token:str}/revoke")
async def revoke(request: DashboardCall, runner: FromPath[str], once_token: FromPath[str]) -> Response[Any]:
    await request.write(once_token_service.revoke, runner, once_token)
    return render.done(request, "The token is revoked", f"{address(runner)}/once-tokens")


async def _answer(request: DashboardCall, runner: str, after: str | None, wrong: str = "") -> Response[Any]:
    found = await request.read(read, runner, after)
    shown: dict[str, Any] = {"page": found, "waits": WAITS, "chosen": DEFAULT_SECONDS, "wrong": wrong}
    return await render.page(request, "runners/once_tokens", status=Conflict.status if wrong else 200, **shown)
