"""The page that asks a person whether `terracrew login`, `tofu login` or `terraform login` may act for them."""

import re
from collections.abc import Container, Iterable
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
from terracrew.server.identity.terminal_logins import model, service, tokens
from terracrew.server.identity.terminal_logins.model import LoginRequest

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
    tokens.require_session(request.user)
    asked = model.parse(request.query_params.dict())
    known = await request.read(service.token_names)
    if asked.client.is_engine:
        name = engine_token_name(request.headers.get("User-Agent", ""), datetime.now(UTC), known)
    else:
        name = token_name(asked.machine, known)
    return _question(request, asked, known, name, str(model.DEFAULT_DAYS))


@post(engine_services.AUTHORIZATION, status_code=303, in_any_organization=True)
async def answer(request: DashboardCall) -> Response[Any]:
    """Send the browser to the command line on its own machine, with a code or with the refusal."""
    tokens.require_session(request.user)
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
        known = await request.read(service.token_names)
        return _question(request, asked, known, form.name, form.days, error.message)
    return Redirect(asked.answer_url(code=code), status_code=303)


@get(engine_services.TOKEN_SETTINGS, public=True)
async def token_settings() -> Response[Any]:
    """Lead a person whom an older client sends for a token to the page that makes one."""
    return Redirect("/dashboard/account/tokens/create", status_code=303)


def token_name(machine: str, known: Iterable[ApiToken]) -> str:
    """Return the name of the token that our own command line on a machine gets: that of its earlier login, which is replaced."""
    others = {each.name for each in known if not model.TERRACREW.has_made(each)}
    return free_name(model.token_name(machine), others)


def engine_token_name(user_agent: str, now: datetime, known: Iterable[ApiToken]) -> str:
    """Return a name that no token has, from what is known of the machine: the client does not say its name."""
    system = next((f" on {name}" for name, pattern in _SYSTEMS if pattern.search(user_agent)), "")
    return free_name(f"tofu login{system}, {now.day} {now:%b %Y}", {each.name for each in known})


def free_name(first: str, taken: Container[str]) -> str:
    """Return this name, with a number if it is taken."""
    number, found = 1, first
    while found in taken:
        number += 1
        found = f"{first} ({number})"
    return found


def _question(
    request: DashboardCall, asked: LoginRequest, known: Iterable[ApiToken], name: str, days: str, wrong: str = ""
) -> Response[Any]:
    shown = render.answer(
        "access/login/terminal_page.html",
        400 if wrong else 200,
        user=request.user,
        csrf=render.csrf(request),
        asked=asked,
        names=[each.name for each in known if asked.client.has_made(each)],
        action=engine_services.AUTHORIZATION,
        name=name,
        days=days,
        wrong=wrong,
    )
    # Browsers apply the rule for forms to the redirect that answers one, too.
    shown.headers[policy.HEADER] = policy.content_policy(asked.origin)
    return shown
