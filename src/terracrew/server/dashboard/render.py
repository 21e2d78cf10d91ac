"""Renders templates as answers, with the filters that templates use, the headers of every page, and the counts beside the main menu."""

import asyncio
import json
import re
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from litestar import Response
from litestar.response import Redirect
from markupsafe import Markup, escape

from terracrew import __version__
from terracrew.protocol.spec import MUTATING
from terracrew.server.dashboard import assets, badges, markdown, words
from terracrew.server.dashboard.access import words as access_words
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.forges import words as forge_badges
from terracrew.server.dashboard.jobs import diff
from terracrew.server.dashboard.releases import listing as release_words
from terracrew.server.dashboard.runners import cloud
from terracrew.server.dashboard.tree import words as place_words
from terracrew.server.dashboard.tree.words import cloud_names, places
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.history import store as holds
from terracrew.server.http.authentication import Authentication
from terracrew.server.identity.access import organizations
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import service as runners
from terracrew.server.runs import to_approve
from terracrew.server.tree.groups import reads
from terracrew.wording import (
    approval_words,
    cost_words,
    discovery_words,
    drift_words,
    forge_words,
    lock_words,
    module_words,
    notification_words,
    overview_words,
    plan_option_words,
    plan_words,
    policy_words,
    pull_request_words,
    registry_words,
    retention_words,
    schedule_words,
)
from terracrew.wording.durations import duration, written

HEADERS = {"Cache-Control": "no-store", "Vary": "HX-Request"}
"""The headers of every page. The content security policy is the same on every answer; the application sets it."""
COMPILE_AFTER_SECONDS = 10.0
COMPILE_PAUSE_SECONDS = 0.05
_CODE = re.compile(r"`([^`\n]{1,500})`")
"""A name or a command in a message, as the command line shows it."""


MAX_COUNTED = 999
"""A larger count is shown as `999+`."""


class Nav(msgspec.Struct, frozen=True):
    """The counts of what the reader may see; each is at most one more than MAX_COUNTED."""

    organization: str = ""
    awaiting: int = 0
    """How many jobs wait for an approval by anybody."""
    to_approve: int = 0
    """How many of them the reader may approve."""
    open_jobs: int = 0
    modules: int = 0
    runners: int = 0
    has_access_pages: bool = False
    """Whether the reader may see who has access to the organization, and with it the audit log."""
    held_since: datetime | None = None
    """Since when the server hands out no changes; None if it does."""
    has_organizations: bool = False
    """Whether the reader may act in another organization, or create one."""


def is_fragment(request: DashboardCall) -> bool:
    """Return whether htmx asks for a part of the page."""
    return request.headers.get("HX-Request") == "true" and "HX-History-Restore-Request" not in request.headers


async def page(
    request: DashboardCall, name: str, fragment: str = "", /, *, status: int = 200, **context: Any
) -> Response[bytes]:
    """Return the page `{name}_page.html` or, if htmx asks, only its fragment: `{name}.html`, unless another one is named."""
    name = f"{fragment or name}.html" if is_fragment(request) else f"{name}_page.html"
    return await template(request, name, status, **context)


async def template(request: DashboardCall, name: str, /, status: int = 200, **context: Any) -> Response[bytes]:
    """Return a template with what all pages share, whatever asks for it."""
    shared: dict[str, Any] = {
        "user": request.user,
        "csrf": csrf(request),
        "nav": await request.read(count_nav),
        "store_problem": request.context.objects.health.problem,
        "is_fragment": not name.endswith("_page.html"),
        "live": "/api/v1/events",
    }
    # To render a long list takes tens of milliseconds, which would block the event loop.
    return await asyncio.to_thread(answer, name, status, **shared | context)


async def count_nav(tx: Tx, who: Principal) -> Nav:
    """Count what the reader may see.

    Every role that shows a module shows its jobs and the runners of its group, so one check of the roles is enough.
    """
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    is_shared = runners.is_shared_seen(who)
    row = await reads.counts(tx, who.organization_id or "", seen, MAX_COUNTED + 1, is_shared=is_shared)
    if row is None:
        return Nav()
    place = authorize.organization(who.organization_id)
    has_access_pages = await authorize.may(tx, who, Verb.ACCESS_READ, place)
    return msgspec.structs.replace(
        row_to(Nav, row),
        to_approve=len(await to_approve.job_ids(tx, who, MAX_COUNTED + 1)) if row["awaiting"] else 0,
        has_access_pages=has_access_pages,
        has_organizations=await _has_organizations(tx, who),
        held_since=None if (hold := await holds.open_hold(tx)) is None else hold.started_at,
    )


async def _has_organizations(tx: Tx, who: Principal) -> bool:
    if who.is_system_admin or who.kind != "user":
        return who.is_system_admin
    return len((await organizations.listing(tx, who, None, 2)).items) > 1


def answer(template: str, status: int = 200, /, **context: Any) -> Response[bytes]:
    now = datetime.now(UTC)
    html = environment().get_template(template).render(now=now, **context)
    return Response(html.encode(), status_code=status, media_type="text/html", headers=HEADERS)


def done(request: DashboardCall, said: str, back: str) -> Response[Any]:
    """Answer an action that has succeeded: tell htmx to show `said`, or redirect a browser without scripts to `back`."""
    if not is_fragment(request):
        return Redirect(back, status_code=303)
    return Response(b"", status_code=204, headers={"HX-Trigger": json.dumps({"said": said, "changed": True})})


def go(request: DashboardCall, to: str) -> Response[Any]:
    if not is_fragment(request):
        return Redirect(to, status_code=303)
    return Response(b"", status_code=204, headers={"HX-Redirect": to})


def csrf(request: DashboardCall) -> str:
    """Return the token that forms and htmx send, so that no other site can act for this session."""
    auth: Authentication = request.auth
    return auth.csrf_token or ""


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("terracrew.server.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(_FILTERS)
    made.globals.update(_GLOBALS)
    return made


async def compile_templates() -> None:
    """Compile all templates one by one, once the start of the server is over.

    To compile those of a page takes up to 0.2 s of processor time, for which the first reader and the event loop would wait.
    """
    await asyncio.sleep(COMPILE_AFTER_SECONDS)
    for name in environment().list_templates(extensions=["html"]):
        await asyncio.to_thread(environment().get_template, name)
        await asyncio.sleep(COMPILE_PAUSE_SECONDS)


def query(path: str, /, **params: str | int | None) -> str:
    """Return an address with its parameters, without the empty ones."""
    given = {name: value for name, value in params.items() if value not in (None, "", 0)}
    return f"{path}?{urlencode(given)}" if given else path


def group_url(path: str) -> str:
    """Return the address of the page of a group of the reader's organization; the empty path is the organization itself."""
    return f"/dashboard/groups/{quote(path, safe='')}" if path else "/dashboard/groups"


def _breakable(text: str) -> Markup:
    """Return an address or a path that a line may break after each slash, instead of anywhere in a word."""
    return Markup(re.sub(r"(/+)(?=[^/])", r"\1<wbr>", str(escape(text))))  # noqa: S704 - escaped before


def _span(since: datetime | None, until: datetime | None) -> str:
    return "" if since is None or until is None else duration((until - since).total_seconds(), exact=True)


def _time(kind: str, then: datetime, text: str) -> Markup:
    html = f'<time datetime="{escape(words.iso(then))}" data-tick="{escape(kind)}">{escape(text)}</time>'
    return Markup(html)  # noqa: S704 - each part is escaped; Markup.format() takes a fifth of the time of a long list


def _ago(then: datetime | None, now: datetime) -> Markup | str:
    return "" if then is None else _time("ago", then, words.ago(then, now))


def _since(then: datetime | None, now: datetime) -> Markup | str:
    return "" if then is None else _time("since", then, duration((now - then).total_seconds()))


def _left(until: datetime | None, now: datetime) -> Markup | str:
    return "" if until is None else _time("left", until, duration((until - now).total_seconds()))


def _sentence(text: str, is_whole: bool = True) -> Markup:
    """Return a part of a sentence as a whole sentence, or only as its end, with the names and commands in it as code."""
    found = words.sentence(text)
    if not is_whole:
        found = text.strip()[:1] + found[1:]
    html = _CODE.sub(r"<code>\1</code>", str(escape(found)))
    return Markup(html)  # noqa: S704 - the text is escaped before


def _dollars(amount: float) -> str:
    """Return an amount of US dollars, with as many places as a small one needs."""
    return f"${amount:,.3f}" if 0 < amount < 0.1 else f"${amount:,.2f}"


def _bounded(count: int) -> str:
    """Return a count, or `999+` for one beyond `MAX_COUNTED`."""
    return f"{MAX_COUNTED:,}+" if count > MAX_COUNTED else f"{count:,}"


_FILTERS: dict[str, Any] = {
    "number": "{:,}".format,
    "bounded": _bounded,
    "size": retention_words.size,
    "dollars": _dollars,
    "sentence": _sentence,
    "plain_sentence": words.sentence,
    "type_word": words.job_type,
    "job_word": words.job_word,
    "engine": words.engine,
    "ended": words.ended,
    "span": _span,
    "seconds": duration,
    "written": written,
    "breakable": _breakable,
    "limits": module_words.described_limits,
    "markdown": markdown.to_html,
    "clouds": cloud_names,
    "dispatcher": module_words.described_choice,
    "dispatcher_places": places,
}

_GLOBALS: dict[str, Any] = {
    "asset": assets.url,
    "version": __version__,
    "words": words,
    "badges": badges,
    "change_words": diff,
    "deployment_words": cloud,
    "place_words": place_words,
    "access_words": access_words,
    "release_words": release_words,
    "approval_words": approval_words,
    "cost_words": cost_words,
    "policy_words": policy_words,
    "lock_words": lock_words,
    "module_words": module_words,
    "plan_option_words": plan_option_words,
    "plan_words": plan_words,
    "overview_words": overview_words,
    "discovery_words": discovery_words,
    "registry_words": registry_words,
    "retention_words": retention_words,
    "schedule_words": schedule_words,
    "drift_words": drift_words,
    "pull_request_words": pull_request_words,
    "notification_words": notification_words,
    "forge_words": forge_words,
    "forge_badges": forge_badges,
    "mutating": MUTATING,
    "ago": _ago,
    "since": _since,
    "left": _left,
    "query": query,
    "group_url": group_url,
}
