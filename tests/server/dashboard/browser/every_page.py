"""Every page of the dashboard in a real browser, on three widths, in light and dark, and by keyboard.

The pages are the routes of the application, so that a new page is looked at as soon as it exists. With `SCREENSHOTS=1` in the
environment, a picture of each look is written to build/screenshots.
"""

import os
import re

import msgspec
from litestar.routes import HTTPRoute
from playwright.async_api import Page, expect

from terracrew.api.group_runs import NewGroupRun
from terracrew.server.app import make_unattached_app
from terracrew.server.group_runs import service as group_runs
from terracrew.server.principals.model import SYSTEM
from tests.server.dashboard.browser import accessibility, keyboard
from tests.server.dashboard.company import releases, rollouts
from tests.server.dashboard.company.access import access
from tests.server.dashboard.company.fleet import FleetCompany
from tests.server.dashboard.company.stage import Stage
from tests.server.dashboard.conftest import SHOTS
from tests.thoroughness import IS_THOROUGH

LOOKS = [("light", 1440), ("dark", 820), ("light", 390)]
ALL_LOOKS = [("light", 1440), ("dark", 1440), ("dark", 820), ("light", 820), ("light", 390), ("dark", 390)]
"""For pictures. The colours change no width, so the test itself looks at each width once."""
FULL_LOOKS = [("dark", 390), ("light", 1440)]
"""The looks that axe checks: both schemes, and both arrangements of a page. axe takes longer than everything else, so that each page
gets one of them, by turns; with `SCREENSHOTS=1`, both. `make test-thorough` also checks the contrast in the other scheme."""
BOTH_LOOKS = re.compile(r"/dashboard(/jobs/job_\w+)?")
"""The pages that axe checks on both widths: people see the first one most, and decide about changes on the second one."""
OTHER_SCHEME = {"light": "dark", "dark": "light"}
NOT_PAGES = {
    "/": "leads to the first page",
    "/login/sso/{provider}": "leads to a provider of single sign-on",
    "/login/sso/{provider}/frontchannel-logout": "is for providers of single sign-on",
    "/login/sso/{provider}/callback": "leads from there to the first page",
    "/login/sso/{provider}/logout": "leads from there to the provider's logout",
    "/app/settings/tokens": "leads to the page that creates a token",
    "/dashboard/terminal-login": "needs what a command line sends; MORE has it",
    "/dashboard/access": "leads to the access page of the organization",
    "/dashboard/groups/{group}/access/effect": "is a part of the page with the grant",
    "/dashboard/modules/{module}/access/effect": "is a part of the page with the grant",
    "/dashboard/forges/create/github/finish": "is where GitHub sends a browser, with a code",
    "/dashboard/jobs/{job}/diff": "is the part of the job's page with the plan",
    "/dashboard/modules/{module}/contents": "is a part of the module's page",
    "/dashboard/runners/{runner}/started": "is the part of a page that waits for a runner",
    "/dashboard/runners/{runner}/places": "is the list of names that a field offers",
    "/dashboard/runners/deploy/costs": "is a part of the page that deploys a runner",
    "/openapi.json": "is not HTML",
    "/static/{digest}/{path}": "is not HTML",
}
MIDDLE = "/dashboard/jobs"
"""Where the pages are divided into two halves, which two tests look at beside each other."""
BEFORE_LOGIN = {"/login", "/login/link/{token}"}
MORE = [
    "/dashboard/terminal-login?client_id=terraform-cli&response_type=code&code_challenge_method=S256"
    "&redirect_uri=http%3A%2F%2Flocalhost%3A10000%2Flogin&state=s&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    "/dashboard/runners?group=platform",
    "/dashboard/runners?q=nothing-has-this-name",
    "/dashboard/cloud-identities/create?cloud=kubernetes",
    "/dashboard/releases/notes?since=1.4.0",
    "/dashboard/jobs?module=nothing-has-this-name&type=PLAN",
    "/dashboard/modules?q=nothing-has-this-name&status=FAILED",
    "/dashboard/modules?attention=true",
    "/dashboard/audit?text=nothing-has-this-name",
    "/dashboard/drift?only=all",
    "/dashboard/drift?only=failed&place=platform",
    "/dashboard/schedules/create?place=payments/prod",
    "/dashboard/discovery/create?group=payments",
    "/dashboard/registry/create?group=payments",
    "/dashboard/registry?q=nothing-has-this-name",
    "/dashboard/policies?place=payments/prod",
    "/dashboard/policies/create?place=payments/prod",
    "/dashboard/notifications?place=payments/prod",
    "/dashboard/notifications/create?place=payments/prod&kind=slack-bot",
    "/dashboard/pull-requests?only=closed",
    "/dashboard/account/access?verb=job.approve&on=payments/prod/ledger",
    "/dashboard/forges/create?group=payments&kind=github-app",
    "/dashboard/groups/payments%2Fprod/access?who=priya&verb=job.approve&on=payments/prod/ledger",
    "/dashboard/groups/payments%2Fprod/access?who=elena&verb=job.approve",
    "/dashboard/groups/payments%2Fprod/access/grant?principal=elena&role=approver",
]
"""Pages as they are with a question, and where nothing is found."""
LISTS = ("", "runners", "jobs", "modules", "groups", "users", "service-accounts", "audit")

CUT_OFF = """width => [...document.querySelectorAll("main .btn, main .seg a, .side button, .side a")]
    .filter((each) => each.checkVisibility() && !each.closest("dialog, .log") && each.getBoundingClientRect().right > width)
    .map((each) => each.textContent.trim())"""
"""The buttons and links that reach beyond the right edge: "Destroy" was cut off at 820 px, "Log out" on a phone."""


SHORTEN = "document.querySelectorAll('.operation ~ .operation, .side.api a ~ a ~ a').forEach((each) => each.remove())"
"""Leaves one operation in each section of the API page. Its hundred operations look the same, and axe takes a minute for all."""
LIGATURES = """() => [...document.querySelectorAll("body *")]
    .map((each) => [each, getComputedStyle(each)])
    .filter(([, style]) => style.fontFamily.includes("JetBrains Mono") && style.fontVariantLigatures !== "none")
    .map(([each]) => each.outerHTML.slice(0, 80))"""
"""What a machine would print and the font would change: an address was shown as `https: //`."""


def page_paths() -> list[str]:
    """Return the path of every page that the application serves."""
    found: list[str] = []
    for route in make_unattached_app().routes:
        if isinstance(route, HTTPRoute) and "GET" in route.methods:
            handlers = [each for each in route.route_handlers if "GET" in each.http_methods]
            is_page = any(each.fn.__module__.startswith("terracrew.server.dashboard") for each in handlers)
            found += [route.path_format] if is_page and route.path_format not in NOT_PAGES else []
    return found


async def addresses(stage: Stage) -> dict[str, bool]:
    """Return the pages to visit, and whether each is similar to one before it.

    A page about one thing is visited with things in several conditions.
    """
    await releases.publish_all(stage.server.db)
    await rollouts.begin(stage.server.db, stage.server.organization_id)
    actor = msgspec.structs.replace(SYSTEM, organization_id=stage.server.organization_id)
    run = NewGroupRun("APPLY")  # the page of a group with a run has one more panel
    begun = await stage.server.db.write(lambda tx: group_runs.begin(tx, actor, "payments/prod", run))
    fleet = FleetCompany(stage.server.db, stage.server.organization_id)
    rows = await stage.server.db.read(lambda tx: tx.all("SELECT id, path FROM runners ORDER BY path"))
    runners = {row["path"]: row["id"] for row in rows}
    jobs = [stage.jobs[name] for name in ("planning", "doubt", "asking", "lost", "applying", "failed", "done")]
    found = [
        await stage.server.db.read(lambda tx, job=job: tx.one("SELECT module_id FROM jobs WHERE id = :id", id=job))
        for job in (stage.jobs["doubt"], stage.jobs["done"])
    ]
    identities = await stage.server.db.read(lambda tx: tx.all("SELECT id FROM cloud_identities ORDER BY name"))
    schedules = await stage.server.db.read(lambda tx: tx.all("SELECT id FROM schedules ORDER BY name"))
    channels = await stage.server.db.read(lambda tx: tx.all("SELECT id FROM notification_channels ORDER BY name"))
    rules = await stage.server.db.read(lambda tx: tx.all("SELECT id FROM discovery_rules ORDER BY name"))
    published = await stage.server.db.read(lambda tx: tx.all("SELECT id FROM published_modules ORDER BY name DESC"))
    policies = await stage.server.db.read(lambda tx: tx.all("SELECT id FROM policies ORDER BY name"))
    forges = await stage.server.db.read(lambda tx: tx.all("SELECT id FROM forge_connections ORDER BY name"))
    pull_requests = await stage.server.db.read(lambda tx: tx.all("SELECT id FROM pull_requests ORDER BY id LIMIT 1"))
    states = await stage.server.db.read(lambda tx: tx.all("SELECT id FROM states WHERE version = 2"))
    locked = await stage.server.db.read(lambda tx: tx.one("SELECT id FROM modules WHERE name = 'vpc-eu'"))
    assert locked is not None
    examples = {name: [each] for name, each in (await access(stage)).items()} | {
        "job": jobs,
        "runner": [
            runners[path] for path in ("payments/prod", "platform/network/runner", "data/warehouse", "built-in")
        ],
        "module": [row["module_id"] for row in found if row],
        "group": ["payments%2Fprod", "platform"],
        "run": [begun.id],
        "fleet_job": [(await fleet.running())[0].id, (await fleet.failed()).id],
        "identity": [row["id"] for row in identities],
        "place": ["payments%2Fprod"],
        "version": [row["id"] for row in states],
        "release": ["1.5.0"],
        "schedule": [row["id"] for row in schedules],
        "rule": [row["id"] for row in rules],
        "published": [row["id"] for row in published],
        "exactly": ["1.10.0"],
        "policy": [row["id"] for row in policies],
        "channel": [row["id"] for row in channels],
        "forge": [row["id"] for row in forges],
        "pull_request": [row["id"] for row in pull_requests],
    }
    paths: dict[str, bool] = {}
    for path in sorted(set(page_paths()) - BEFORE_LOGIN):
        first, *others = re.findall(r"\{(\w+)\}", path) or [""]
        values = examples[first] if first else [""]
        if path.startswith("/dashboard/runners/") and path.endswith(("/deployment", "/destroy")):
            values = [runners["frankfurt-prod"]]  # the cloud-hosted one
        is_whole_thing = path.endswith("}") and not others
        for each in others:
            path = path.replace(f"{{{each}}}", examples[each][0])
        for number, value in enumerate(values if is_whole_thing else values[:1]):
            paths[re.sub(r"\{\w+\}", value, path)] = number > 0
    held = f"/dashboard/modules/{locked['id']}"  # it has a link in a sentence, which was told by its colour alone
    return paths | dict.fromkeys(MORE, True) | {held: False}


def full_looks(path: str) -> list[tuple[str, int]]:
    is_both = os.environ.get("SCREENSHOTS") or BOTH_LOOKS.fullmatch(path)
    return FULL_LOOKS if is_both else [FULL_LOOKS[len(path) % len(FULL_LOOKS)]]


async def look(page: Page, path: str, *, is_similar: bool = False) -> list[str]:
    """Open a page, look at it in all ways without loading it again, and return what is wrong with it.

    Only the widths are checked of a page that is `similar` to one before it: axe and the keyboard take most of the time.
    """
    await page.goto(path)
    if await page.locator("[data-live-mark]").count():
        await expect(page.locator("[data-live-mark]")).to_have_text(re.compile("^(Live|Finished)$"))
    return await look_at_shown(page, path, is_similar=is_similar)


async def look_at_shown(page: Page, path: str, *, is_similar: bool = False) -> list[str]:
    """Look at the page that is shown, which may be the answer to a form. `path` names it."""
    wrong: list[str] = []
    if not re.fullmatch(r"\S.* · Terracrew", await page.title()):
        wrong.append(f"its title is {await page.title()!r}")
    if (headings := await page.locator("h1:visible").count()) != 1:
        wrong.append(f"it has {headings} headings of level 1")
    for scheme, width in ALL_LOOKS if os.environ.get("SCREENSHOTS") else LOOKS:
        await show(page, scheme, width)
        if (wide := await page.evaluate("document.documentElement.scrollWidth")) > width:
            wrong.append(f"{scheme}, {width} px: it is {wide} px wide")
        wrong += [f"{scheme}, {width} px: {each!r} is cut off" for each in await page.evaluate(CUT_OFF, width)]
        if os.environ.get("SCREENSHOTS"):
            name = re.sub(r"[^a-z0-9]+", "-", re.sub(r"\w{3}_\w+", "id", path.removeprefix("/dashboard/")))
            shot = SHOTS / f"{name}-{len(path)}-{scheme}-{width}.png"
            await page.screenshot(path=shot, animations="disabled", full_page=True)
    wrong += [f"the font joins characters: {each}" for each in (await page.evaluate(LIGATURES))[:3]]
    if is_similar:
        return [f"{path}: {each}" for each in wrong]
    await page.evaluate(SHORTEN)
    for scheme, width in full_looks(path):
        await show(page, scheme, width)
        wrong += [f"{scheme}, {width} px: {each}" for each in await accessibility.faults(page)]
        if IS_THOROUGH or BOTH_LOOKS.fullmatch(path):
            await show(page, OTHER_SCHEME[scheme], width)
            faults = await accessibility.contrast_faults(page)
            wrong += [f"{OTHER_SCHEME[scheme]}, {width} px: {each}" for each in faults]
    wrong += await keyboard.faults(page)
    return [f"{path}: {each}" for each in wrong]


async def show(page: Page, scheme: str, width: int) -> None:
    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # pyright: ignore[reportArgumentType]
    await page.set_viewport_size({"width": width, "height": 900})


async def faults_of_pages(page: Page, stage: Stage, *, before: str = "~", since: str = "") -> list[str]:
    """Look at the pages whose addresses come before one address and not before another, and return what is wrong with them."""
    return [
        each
        for path, is_similar in (await addresses(stage)).items()
        if since <= path < before
        for each in await look(page, path, is_similar=is_similar)
    ]
