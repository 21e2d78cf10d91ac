"""The log viewer in a real browser: what a terminal would show, joined, folded, found, and as long as it gets."""

import json
import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from terracrew.protocol.spec import JobType, Step
from terracrew.server.dashboard import assets
from terracrew.server.db.seam import Tx
from tests.builders.job_rows import change_attempts, change_jobs
from tests.conftest import DATABASES
from tests.server.dashboard.browser.looks import look
from tests.server.dashboard.company.rows import Company
from tests.server.dashboard.company.stage import Stage
from tests.server.dashboard.conftest import SHOTS

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser, pytest.mark.feature("U5.log")]
LINES = 200_000


async def a_job(stage: Stage, status: str, texts: list[tuple[Step, str]]) -> str:
    async def work(tx: Tx) -> str:
        made = Company(tx, stage.server.organization_id, stage.user_id)
        made.number = 5000
        runner = await made.runner("viewer")
        instance = await made.instance(runner, "one")
        owner = {"instance_id": instance} if status == "PROCESSING" else {}
        job = await made.job(await made.module("logs"), JobType.APPLY, status, runner_id=runner, **owner)
        ended: dict[str, Any] = {} if owner else {"ended_at": made.now, "outcome": "succeeded"}
        await made.attempt(job, runner, instance, **ended)
        for at in range(0, len(texts), 64):
            await made.log(job, texts[at : at + 64], first=at + 1)
        return job

    return await stage.server.db.write(work)


async def shown(page: Page) -> list[str]:
    return await page.locator(".log .l .x").all_inner_texts()


async def test_a_line_looks_as_in_a_terminal(page: Page) -> None:
    await page.goto("/dashboard/runners")
    cases = {
        "plain": [["plain", ""]],
        "\x1b[31mred\x1b[0m and \x1b[1;4mloud\x1b[22m": [["red", "f1"], [" and ", ""], ["loud", "b u"]],
        "\x1b[92mbright\x1b[39m \x1b[41mon red": [["bright", "f10"], [" ", ""], ["on red", "g1"]],
        "\x1b[38;5;196mindexed\x1b[m \x1b[38;2;0;200;0mtrue": [["indexed", "f1"], [" ", ""], ["true", "f2"]],
        "10%\r50%\r100%": [["100%", ""]],
        "long line\rshort\x1b[K": [["short", ""]],
        "ab\bc": [["ac", ""]],
        "windows\r": [["windows", ""]],
        "a\tb": [["a       b", ""]],
        "\x1b]8;;http://x\x07link\x1b]8;;\x1b\\ after\x07": [["link after", ""]],
        "\x1b[2J\x1b[H\x1b(Bcleared\x1b": [["cleared", ""]],
        "\x1b[31": [],
        "": [],
    }
    script = """async ([url, texts]) => {
        const { classes, plain, runs, width, isCalm } = await import(url);
        return texts.map((text) => ({
            runs: runs(text).map(([part, style]) => [part, classes(style)]),
            plain: plain(text), width: isCalm(text) ? width(text, 0) : plain(text).length }));
    }"""
    got = await page.evaluate(script, [assets.url("log/ansi.js"), list(cases)])
    for (text, wanted), found in zip(cases.items(), got, strict=True):
        assert found["runs"] == wanted, json.dumps(text)
        words = "".join(part for part, _ in wanted)
        assert (found["plain"], found["width"]) == (words, len(words)), json.dumps(text)


async def test_events_are_joined_into_lines_and_nothing_in_them_is_markup(page: Page, stage: Stage) -> None:
    evil = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"
    texts = [
        evil + "\n",
        "half a li",
        "ne, joi",
        "ned\nand \x1b[32mgreen goes\non\x1b[0m\n",
        "x" * 65536,
        "y" * 65536 + "END\n",
    ]
    job = await a_job(stage, "SUCCEEDED", [(Step.APPLY, text) for text in [*texts, "日本語 🎉\n", "\r\n", "open end"]])
    await page.goto(f"/dashboard/jobs/{job}")
    await expect(page.locator("[data-part=count]")).to_have_text("8 lines")
    found = await shown(page)
    assert found[:4] == [evil, "half a line, joined", "and green goes", "on"]
    assert found[4].endswith("121,075 more characters: Wrap shows them")
    assert found[5:] == ["日本語 🎉", "", "open end"]
    await page.get_by_role("button", name="Wrap").click()
    await page.locator(".log .view").evaluate("view => view.scrollTop = view.scrollHeight")
    await expect(page.locator(".log .l .x", has_text="yEND")).to_be_visible()
    assert await page.evaluate("window.pwned") is None


@pytest.mark.feature("L4.live")
async def test_a_live_log_grows_follows_and_goes_over_to_the_next_attempt(page: Page, stage: Stage) -> None:
    job = await a_job(stage, "PROCESSING", [(Step.INIT, "one\n"), (Step.PLAN, "two\nthr")])
    await page.goto(f"/dashboard/jobs/{job}")
    await expect(page.locator("[data-part=count]")).to_have_text("3 lines")
    await expect(page.get_by_role("button", name="Following")).to_be_visible()

    async def more(tx: Tx) -> None:
        made = Company(tx, stage.server.organization_id, stage.user_id)
        await made.log(job, [(Step.PLAN, "ee\n"), (Step.APPLY, "".join(f"line {n}\n" for n in range(500)))], first=3)
        tx.wake(f"log:{job}")

    await stage.write(more)
    await expect(page.locator("[data-part=count]")).to_have_text("503 lines")
    await expect(page.locator(".log .l .x", has_text="line 499")).to_be_visible()
    await page.locator(".log .view").evaluate("view => view.scrollTop = 100")
    await expect(page.get_by_role("button", name="Follow", exact=True)).to_be_visible()
    assert "three" in await shown(page)

    async def again(tx: Tx) -> None:
        made = Company(tx, stage.server.organization_id, stage.user_id)
        old = await tx.one("SELECT runner_id, instance_id FROM attempts WHERE job_id = :id", id=job)
        await change_attempts(tx, job, ended_at=made.now, outcome="lost", reason="gone")
        await change_jobs(tx, job, attempt=2)
        assert old is not None
        await made.attempt(job, old["runner_id"], old["instance_id"], number=2)
        await made.log(job, [(Step.PLAN, "from the second attempt\n")], attempt=2)
        tx.wake(f"log:{job}")
        tx.wake("jobs", job)

    await stage.write(again)
    await expect(page.locator("[data-part=count]")).to_have_text("505 lines")
    await page.locator(".log .view").evaluate("view => view.scrollTop = view.scrollHeight")
    await expect(page.locator(".log .fold", has_text="Between attempts")).to_be_visible()
    seen = await shown(page)
    assert seen[-1] == "from the second attempt"
    assert seen[-2].startswith("Attempt 1 was lost after")
    await page.get_by_role("link", name="Attempt 1").click()
    await expect(page.locator("[data-part=count]")).to_have_text("503 lines")


async def test_a_line_that_the_plan_left_open_does_not_swallow_the_first_line_of_the_apply(
    page: Page, stage: Stage
) -> None:
    """Lines of the apply appeared under Plan: the next line was joined to an open line at the end of the plan."""
    job = await a_job(stage, "SUCCEEDED", [(Step.PLAN, "Plan: 1 to add\nopen"), (Step.APPLY, "Creating...\nCreated\n")])
    await page.goto(f"/dashboard/jobs/{job}")
    await expect(page.locator(".log .fold", has_text="Plan")).to_contain_text("lines 1–2")
    await expect(page.locator(".log .fold", has_text="Apply")).to_contain_text("lines 3–4")
    assert await shown(page) == ["Plan: 1 to add", "open", "Creating...", "Created"]


async def test_steps_fold_and_a_step_of_the_timeline_leads_to_its_lines(page: Page, stage: Stage) -> None:
    await page.goto(f"/dashboard/jobs/{stage.jobs['done']}")
    init = page.locator(".log .fold", has_text="Init")
    await expect(init.get_by_role("button")).to_have_attribute("aria-expanded", "false")
    await expect(init).to_contain_text("lines 1–91")
    await page.locator(".steps").get_by_role("link", name="Init").click()
    await expect(page.get_by_text("Finding things, part 1 of 90")).to_be_visible()
    await page.locator(".log .fold:not(.stuck)", has_text="Init").get_by_role("button").press("Enter")
    await expect(page.get_by_text("Finding things, part 1 of 90")).to_be_hidden()


async def test_search_finds_marks_unfolds_and_counts(page: Page, stage: Stage) -> None:
    await page.goto(f"/dashboard/jobs/{stage.jobs['done']}")
    await expect(page.locator("[data-part=count]")).to_have_text("115 lines")
    await page.keyboard.press("/")
    await page.keyboard.type("PART 42 OF")
    await expect(page.locator("[data-part=hits]")).to_have_text("1")
    await page.keyboard.press("Enter")
    await expect(page.locator("[data-part=hits]")).to_have_text("1 of 1")
    await expect(page.locator(".log .marked mark")).to_have_text("part 42 of")
    await page.locator("[data-part=search]").fill("nothing like it")
    await expect(page.locator("[data-part=hits]")).to_have_text("none")


@pytest.mark.parametrize("stage", DATABASES, indirect=True)
async def test_a_link_to_a_line_leads_to_it(page: Page, stage: Stage) -> None:
    """The line was marked below the edge of the window, and the page stayed at its top."""
    await page.set_viewport_size({"width": 1280, "height": 500})
    job = f"/dashboard/jobs/{stage.jobs['planning']}"
    await page.goto(f"{job}#L50")
    await expect(page.locator(".log .marked .n")).to_have_text("50")
    await expect(page.locator(".log .marked .x")).to_be_in_viewport()
    await page.evaluate("scrollTo(0, 0)")
    await page.evaluate("location.hash = '#L60'")
    await expect(page.locator(".log .marked .n")).to_have_text("60")
    await expect(page.locator(".log .marked .x")).to_be_in_viewport()


@pytest.mark.parametrize("stage", DATABASES, indirect=True)
async def test_the_log_of_a_failed_job_opens_at_its_error(page: Page, stage: Stage) -> None:
    """On a phone, the error came after the steps and the facts, 950 px down."""
    job = await a_job(stage, "FAILED", [(Step.PLAN, "".join(f"line {n}\n" for n in range(200)) + "Error: no\n")])
    await change_jobs(stage.server.db, job, message="the plan failed")
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.goto(f"/dashboard/jobs/{job}")
    error = page.locator(".log .l .x", has_text="Error: no")
    await expect(error).to_be_visible()
    places = [
        await each.bounding_box()
        for each in (page.get_by_role("alert"), page.locator("#log"), page.locator(".timeline"))
    ]
    tops = [each["y"] for each in places if each]
    assert tops == sorted(tops), "the error, then the log, then the timeline"
    assert tops[1] < 400
    await look(page, "failed-job")


async def test_the_line_in_the_address_may_change_and_escape_removes_every_mark(page: Page, stage: Stage) -> None:
    """A change of `#L…` was ignored once the page had loaded, and Escape left a stale highlight."""
    await page.goto(f"/dashboard/jobs/{stage.jobs['done']}#L2")
    await expect(page.locator(".l.marked .n")).to_have_text("2")
    await page.evaluate("location.hash = '#L90'")
    await expect(page.locator(".l.marked .n")).to_have_text("90")
    await page.fill("[data-part=search]", "part 90 of")
    await page.press("[data-part=search]", "Enter")
    await expect(page.locator(".log mark")).to_have_count(1)
    await page.press("[data-part=search]", "Escape")
    await expect(page.locator(".log mark, .log .marked")).to_have_count(0)
    await expect(page.locator("[data-part=search]")).to_have_value("")
    await expect(page.locator("[data-part=hits]")).to_have_text("")


def long_log(count: int) -> list[tuple[Step, str]]:
    block = 500
    texts = [
        "".join(f"\x1b[1mitem[{n}]\x1b[0m: Creation complete\n" for n in range(at, at + block))
        for at in range(0, count, block)
    ]
    return [(Step.APPLY, text) for text in texts]


@pytest.mark.feature("P5.page")
@pytest.mark.parametrize("status", ["SUCCEEDED", "PROCESSING"])
async def test_of_a_long_log_only_the_last_lines_are_loaded(page: Page, stage: Stage, status: str) -> None:
    """The page of a job with 2,000,026 lines loaded 183 MB."""
    job = await a_job(stage, status, long_log(LINES))
    await page.goto(f"/dashboard/jobs/{job}")
    count = page.locator("[data-part=count]")
    # The stored chunk with the first of the last 50,000 lines begins at line 128,001.
    await expect(count).to_have_text(f"lines 128,001–{LINES:,}", timeout=60_000)
    view = page.locator(".log .view")
    await view.evaluate("view => view.scrollTop = view.scrollHeight")
    last = page.locator(".log .l").last
    await expect(last.locator(".x")).to_have_text(f"item[{LINES - 1}]: Creation complete")
    await expect(last.locator(".n")).to_have_text(str(LINES))
    await page.fill("[data-part=search]", "item[7]")
    hits, found = page.locator("[data-part=hits]"), page.locator("[data-part=found]")
    await expect(hits).to_have_text("1")
    await page.press("[data-part=search]", "Enter")
    await expect(found.locator(".head")).to_contain_text("Line 8")
    await expect(found.locator(".marked mark")).to_have_text("item[7]")
    await expect(found.locator(".l")).to_have_count(9)
    await expect(found.get_by_role("link")).to_have_attribute("href", "?log=all#L8")
    await page.screenshot(path=SHOTS / f"log-found-{status.lower()}.png", animations="disabled")
    # Hits that are not loaded come before those that are, and the buttons lead from one to the next.
    await page.fill("[data-part=search]", "78901]")
    await expect(hits).to_have_text("2")
    await page.get_by_role("button", name="Next hit").click()
    await expect(found.locator(".marked mark")).to_have_text("78901]")
    await page.get_by_role("button", name="Next hit").click()
    await expect(hits).to_have_text("2 of 2")
    await expect(found).to_be_hidden()
    await expect(page.locator(".log .view .marked mark")).to_have_text("78901]")
    await page.get_by_role("button", name="Previous hit").click()
    await expect(found).to_be_visible()
    await page.press("[data-part=search]", "Escape")
    await expect(found).to_be_hidden()
    await page.screenshot(path=SHOTS / f"log-end-{status.lower()}.png", animations="disabled")
    await page.goto(f"/dashboard/jobs/{job}#L8")
    await expect(page).to_have_url(re.compile(r"\?log=all#L8$"))
    await expect(page.locator(".log .l.marked .x")).to_have_text("item[7]: Creation complete", timeout=60_000)
    await expect(count).to_have_text(f"{LINES:,} lines", timeout=60_000)


async def test_a_long_log_keeps_few_rows_in_the_document_and_scrolls_to_its_last_line(page: Page, stage: Stage) -> None:
    job = await a_job(stage, "SUCCEEDED", long_log(LINES))
    await page.goto(f"/dashboard/jobs/{job}?log=all")
    await expect(page.locator("[data-part=count]")).to_have_text(f"{LINES:,} lines", timeout=60_000)
    view = page.locator(".log .view")
    await view.evaluate("view => view.scrollTop = view.scrollHeight")
    await expect(page.locator(".log .l .x").last).to_have_text(f"item[{LINES - 1}]: Creation complete")
    assert await page.locator(".log .l").count() < 100
    await page.get_by_role("button", name="Wrap").click()
    await view.evaluate("view => view.scrollTop = view.scrollHeight")
    await expect(page.locator(".log .l .x").last).to_have_text(f"item[{LINES - 1}]: Creation complete")
    await page.get_by_role("button", name="Times").click()
    await expect(page.locator(".log .l .t").last).to_contain_text(":")
    await page.screenshot(path=SHOTS / "long-log.png", animations="disabled")
