"""`paint_ms`, `live_ms`: pages of a large organization in Chromium, loaded anew, and changed by somebody in another browser.

`paint_ms` is the first contentful paint, as the browser notes it, of a page that nothing of was loaded before: each load has a new
profile, so that styles, scripts and fonts are fetched as well. `live_ms` is the time from the click that cancels a job to when the
other browser shows it. The organization has more runners than the 1,000 of the goal.
"""

import asyncio
import os
import random
import time
from typing import Any

import msgspec
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from terracrew.server.db import open_database
from terracrew.server.db.seam import Database, Tx
from terracrew.server.figures import model
from terracrew.server.figures import store as figures
from terracrew.server.identity.people import logins, service
from terracrew.server.identity.people import store as people
from terracrew.server.identity.people.sessions import COOKIE
from terracrew.server.maintenance.local_token import first_start
from tests.bench import large, lists
from tests.bench.figures import median
from tests.bench.filled_server import Env
from tests.e2e.system import running
from tests.machine.needs import chromium

LOADS = 12
CHANGES = 12
CHANGE_GAP_SECONDS = (0.3, 1.5)
"""How long nothing changes before somebody clicks. A page refreshes itself from time to time, and sometimes just then."""
_CLICKED = """document.addEventListener("click", (event) => {
    if (event.target.closest("dialog button")) window.clicked = performance.timeOrigin + performance.now(); }, true)"""
_SHOWN = """([selector, text]) => { window.shown = new Promise((done) => {
    const look = () => document.querySelector(selector)?.textContent.includes(text) &&
        done(performance.timeOrigin + performance.now());
    new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true}); }) }"""
_PAINT = """() => new Promise((done) => new PerformanceObserver((found) => {
    const paint = found.getEntriesByName("first-contentful-paint")[0];
    if (paint) done(paint.startTime); }).observe({type: "paint", buffered: true}))"""


class Visit(msgspec.Struct, frozen=True):
    """Two people who look at one organization, and what they open."""

    sessions: list[str]
    pages: dict[str, str]
    """Addresses by the names of their figures."""
    queued: list[str]
    """The newest jobs, which wait."""


def run(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    for kind in ("sqlite", "postgres"):
        found |= _of_database(env, kind)
    return found


def _of_database(env: Env, kind: str) -> dict[str, float]:
    with env.database(kind) as url, running(env.folder(kind), url) as system:
        system.data.mkdir()
        began = time.perf_counter()
        visit = asyncio.run(_fill(url or str(system.data / "terracrew.db")))
        env.say(f"{kind}: filled in {time.perf_counter() - began:.0f} s")
        os.sync()
        system.start_server(runner=False, module="tests.bench.heard_server")
        milliseconds = asyncio.run(_measure(system.url, visit))
    found: dict[str, float] = {}
    for (figure, name), values in milliseconds.items():
        found[f"{figure}.{kind}.{name}.p50"] = median(values)
        found[f"{figure}.{kind}.{name}.worst"] = max(values)
    return found


async def _fill(url: str) -> Visit:
    db = await open_database(url)
    try:
        await first_start(db)
        admin = await db.read(lambda tx: people.user(tx, service.ADMINISTRATOR))
        assert admin.organization_id is not None
        await large.fill(db, admin.organization_id, admin.id)
        await _fill_figures(db)
        sessions = [await db.write(lambda tx: logins.start_session(tx, admin, "link", "127.0.0.1")) for _ in range(2)]
        return await db.read(lambda tx: _visit(tx, [each.token for each in sessions]))
    finally:
        await db.close()
        if url.startswith("postgres"):
            lists.vacuum(url)


async def _fill_figures(db: Database) -> None:
    """Write a month of figures of the organization and of its teams."""
    groups = await db.read(lambda tx: tx.all("SELECT id FROM groups WHERE depth <= 1"))
    kinds = [
        *("ended:SUCCEEDED", "ended:FAILED", "ended:CANCELED", "failed:engine", "failed:infrastructure"),
        *(f"wait:{bucket}" for bucket in range(20, 40, 2)),
        *(model.BUSY, model.CAPACITY),
    ]

    async def fill(tx: Tx, group_id: str) -> None:
        for period in model.PERIODS_SECONDS:
            now = model.start_of(tx.now, period)
            starts = range(now - figures.KEPT_SECONDS[period], now + 1, period)
            amounts = {
                (group_id, period, start, kind): random.random() * (period if ":" not in kind else 9)
                for start in starts
                for kind in kinds
            }
            await figures.add(tx, amounts)

    for row in groups:
        await db.write(lambda tx, row=row: fill(tx, row["id"]))


async def _visit(tx: Tx, sessions: list[str]) -> Visit:
    ended = await tx.value("SELECT max(id) FROM jobs WHERE status = 'FAILED'")
    queued = await tx.all(
        "SELECT id FROM jobs WHERE status = 'QUEUED' ORDER BY id DESC LIMIT :count", count=3 * CHANGES
    )
    pages = {
        "overview": "/dashboard",
        "jobs": "/dashboard/jobs",
        "job": f"/dashboard/jobs/{ended}",
        "modules": "/dashboard/modules",
        "runners": "/dashboard/runners",
    }
    return Visit(sessions, pages, [row["id"] for row in queued])


async def _measure(url: str, visit: Visit) -> dict[tuple[str, str], list[float]]:
    await asyncio.sleep(lists.SETTLE_SECONDS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        found = await _paints(browser, url, visit)
        return found | await _changes(browser, url, visit)


async def _paints(browser: Browser, url: str, visit: Visit) -> dict[tuple[str, str], list[float]]:
    found: dict[tuple[str, str], list[float]] = {}
    for number in range(LOADS + 1):  # the first of each is to warm up
        for name, address in visit.pages.items():
            context = await _logged_in(browser, url, visit.sessions[0])
            page = await context.new_page()
            await page.goto(address, wait_until="commit")
            paint = await page.evaluate(_PAINT)
            if number:
                found.setdefault(("paint_ms", name), []).append(paint)
            await context.close()
    return found


async def _changes(browser: Browser, url: str, visit: Visit) -> dict[tuple[str, str], list[float]]:
    """Cancel one job after the other in one browser, while another one shows the overview, the list of jobs, or the job."""
    here, there = [await _logged_in(browser, url, each) for each in visit.sessions]
    click, watch = await here.new_page(), await there.new_page()
    await click.add_init_script(_CLICKED)
    left = large.QUEUED
    jobs = iter(visit.queued)
    found: dict[tuple[str, str], list[float]] = {}
    for name in ("jobs", "job", "overview"):
        if name != "job":
            await _open(watch, visit.pages[name])
        for _ in range(CHANGES):
            job, left = next(jobs), left - 1
            address = f"/dashboard/jobs/{job}"
            if name == "job":
                await _open(watch, address)
            await _open(click, address)
            await asyncio.sleep(random.uniform(*CHANGE_GAP_SECONDS))
            shown = {
                "jobs": (f"#row-{job}", "Canceled"),
                "job": ("#job-head", "Canceled"),
                "overview": ("#figure-queue", f"{left:,} waiting"),
            }
            await watch.evaluate(_SHOWN, list(shown[name]))
            await click.locator("#cancel-job").click()
            await click.get_by_role("dialog").get_by_role("button", name="Cancel job").click()
            at: Any = await asyncio.wait_for(watch.evaluate("window.shown"), 20)
            found.setdefault(("live_ms", name), []).append(at - await click.evaluate("window.clicked"))
    return found


async def _open(page: Page, address: str) -> None:
    await page.goto(address)
    await page.locator("[data-live-mark]", has_text="Live").wait_for()


async def _logged_in(browser: Browser, url: str, session: str) -> BrowserContext:
    context = await browser.new_context(viewport={"width": 1440, "height": 900}, base_url=url)
    await context.add_cookies([{"name": COOKIE, "value": session, "url": url, "httpOnly": True, "sameSite": "Lax"}])
    return context
