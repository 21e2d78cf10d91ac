"""The page that asks a person whether `tofu login` or `terraform login` may act for them."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from litestar import Response, get, post
from litestar.response import Redirect

from terracrew.api.access import ApiToken
from terracrew.errors import Conflict, Invalid
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.http import engine_services, policy
from terracrew.server.identity.engine_logins import model, service
from terracrew.server.identity.engine_logins.model import LoginRequest

_SYSTEMS = (
    ("an iPhone", re.compile("iPhone|iPad")),
    ("Android", re.compile("Android")),
    ("Windows", re.compile("Windows")),
    ("macOS", re.compile("Macintosh")),
    ("ChromeOS", re.compile("CrOS")),
    ("Linux", re.compile("Linux")),
)
"""The operating system of a browser, which is on the same machine as the command line: the answer goes to its loopback address."""


class AnswerForm(msgspec.Struct, frozen=True):
    decision: Literal["allow", "deny"]
    name: str = ""
    days: str = ""
    """After how many days the token expires; empty if it does not."""


@get(engine_services.AUTHORIZATION)
async def ask_page(request: DashboardCall) -> Response[Any]:
    """Ask the person. Only the answer to this page, with its token against forgery, makes a code."""
    service.require_session(request.user)
    asked = model.parse(request.query_params.dict())
    tokens = await request.read(service.token_names)
    name = free_name(request.headers.get("User-Agent", ""), datetime.now(UTC), tokens)
    return _question(request, asked, tokens, name, str(model.DEFAULT_DAYS))


@post(engine_services.AUTHORIZATION, status_code=303, in_any_organization=True)
async def answer(request: DashboardCall) -> Response[Any]:
    """Send the browser to the command line on its own machine, with a code or with the refusal."""
    service.require_session(request.user)
    form = await forms.read(request, AnswerForm)
    texts = await forms.read_texts(request)
    asked = model.parse({name: [texts[name]] for name in model.FIELDS if name in texts})
    if form.decision == "deny":
        await service.deny(request.context.db, request.user, asked)
        return Redirect(asked.answer_url(error="access_denied"), status_code=303)
    try:
        name, days = forms.name(form.name), forms.days(form.days)
        code = await service.allow(request.context.db, request.user, asked, name, days)
    except (Invalid, Conflict) as error:
        tokens = await request.read(service.token_names)
        return _question(request, asked, tokens, form.name, form.days, error.message)
    return Redirect(asked.answer_url(code=code), status_code=303)


@get(engine_services.TOKEN_SETTINGS, public=True)
async def token_settings() -> Response[Any]:
    """Lead a person whom an older client sends for a token to the page that makes one."""
    return Redirect("/dashboard/account/tokens/create", status_code=303)


def free_name(user_agent: str, now: datetime, tokens: Iterable[ApiToken]) -> str:
    """Return a name that no token has, from what is known of the machine: the client does not say its name."""
    system = next((f" on {name}" for name, pattern in _SYSTEMS if pattern.search(user_agent)), "")
    first = f"tofu login{system}, {now.day} {now:%b %Y}"
    taken = {each.name for each in tokens}
    number, found = 1, first
    while found in taken:
        number += 1
        found = f"{first} ({number})"
    return found


def _question(
    request: DashboardCall, asked: LoginRequest, tokens: Iterable[ApiToken], name: str, days: str, wrong: str = ""
) -> Response[Any]:
    shown = render.answer(
        "access/login/engine_page.html",
        400 if wrong else 200,
        user=request.user,
        csrf=render.csrf(request),
        asked=asked,
        names=[each.name for each in tokens if each.is_engine_login],
        action=engine_services.AUTHORIZATION,
        name=name,
        days=days,
        wrong=wrong,
    )
    # Browsers apply the rule for forms to the redirect that answers one, too.
    shown.headers[policy.HEADER] = policy.content_policy(f"http://localhost:{asked.port}")
    return shown
