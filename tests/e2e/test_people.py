"""People at work: plans approved and declined by clicking, a lost apply given up at three in the morning, in a real browser."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.e2e import modules
from tests.e2e.system import System, eventually, running
from tests.machine.needs import chromium
from tests.thoroughness import thorough

pytestmark = [pytest.mark.browser, pytest.mark.engine, pytest.mark.timeout(300)]
SHOTS = Path("build/screenshots")
PASSWORD = "correct horse battery"
SOON = 30_000


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with running(Path(tmp_path_factory.mktemp("people"))) as found:
        found.start_server(runner=False)
        yield found


@pytest.fixture(scope="module")
def page(system: System) -> Iterator[Page]:
    """A browser that is logged in; anything in its console fails the test."""
    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        made = browser.new_page(viewport={"width": 1280, "height": 860}, base_url=system.url)
        made.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        made.on("pageerror", lambda error: complaints.append(str(error)))
        made.goto(system.api.post("/me/link", {})["link"])
        made.fill("#password", PASSWORD)
        made.fill("#again", PASSWORD)
        made.click("button[type=submit]")
        made.wait_for_url("**/dashboard")
        expect.set_options(timeout=SOON)
        yield made
        browser.close()
    assert not complaints


@contextmanager
def waiting(system: System, job: str) -> Generator["Terminal"]:
    """`terracrew job wait`, in another terminal."""
    options = ["--url", system.url, "--token-file", str(system.data / "admin.token")]
    command = [sys.executable, "-m", "terracrew.cli", *options, "job", "wait", job]
    screen = system.directory / f"{job}.screen"
    with (
        screen.open("w") as stderr,
        subprocess.Popen(command, stderr=stderr, stdout=subprocess.DEVNULL) as process,
    ):
        try:
            yield Terminal(process, screen)
        finally:
            process.kill()


@dataclass(frozen=True)
class Terminal:
    process: "subprocess.Popen[bytes]"
    screen: Path

    def shows(self, words: str) -> None:
        """Wait for these words: on a busy machine, a person is quicker than a new process."""
        eventually(lambda: words in self.screen.read_text(), what=f"{words!r} in the terminal")

    def ended(self) -> str:
        assert self.process.wait(30) == 0
        return self.screen.read_text()


@pytest.mark.feature("J8.decline", "U5.page")
@thorough
def test_a_plan_is_looked_at_and_approved_and_another_is_declined_by_clicking(system: System, page: Page) -> None:
    runner = system.start_runner(system.register_runner("approvers"), "approving")
    system.module("team/web", modules.quick(), needs_approval=True)
    page.goto("/dashboard/modules")
    page.get_by_role("button", name="Apply team/web").click()
    page.get_by_role("dialog").get_by_label("Show me the plan first").uncheck()
    page.get_by_role("dialog").get_by_role("button", name="Apply web").click()
    page.wait_for_url("**/dashboard/jobs/job_*")
    job = page.url.rpartition("/")[2]
    with waiting(system, job) as terminal:
        expect(page.get_by_role("heading", name="This plan is awaiting approval")).to_be_visible()
        expect(page.locator("#approval")).to_contain_text("team/web requires that a person approves each change.")
        expect(page.locator("#plan")).to_contain_text("+1 to add")
        expect(page.locator("#nav-jobs")).to_have_text("1 to approve")
        page.screenshot(path=SHOTS / "approval.png", animations="disabled")
        terminal.shows("AWAITING_APPROVAL")
        page.get_by_role("button", name="Approve and apply").click()
        page.screenshot(path=SHOTS / "approval-confirm.png", animations="disabled")
        page.get_by_role("dialog").get_by_role("button", name="Approve and apply").click()
        expect(page.locator("#job-head .st")).to_have_text("Succeeded")
        expect(page.locator("#job-side")).to_contain_text("Approved by")
        page.screenshot(path=SHOTS / "approval-applied.png", animations="disabled")
        told = terminal.ended()
    assert re.search(
        r"AWAITING_APPROVAL: its plan waits for approval: `team/web` requires that a person approves each change \(for .* left\)",
        told,
    ), told
    assert "terracrew job approve 1 --plan 1" in told
    assert system.state("team/web")["resources"]

    second = system.run("team/web", "DESTROY")
    page.goto(f"/dashboard/jobs/{second}")
    page.locator("#decline-open").click()
    page.get_by_label("Why").fill("not on a Friday")
    page.screenshot(path=SHOTS / "decline.png", animations="disabled")
    page.locator("#decline-job").click()
    expect(page.locator("#job-head .st")).to_have_text("Declined")
    expect(page.locator("#job-head")).to_contain_text("Declined by admin: not on a Friday.")
    assert system.state("team/web")["resources"], "nothing was destroyed"
    runner.stop()


@pytest.mark.feature("O3.lease", "S6.words", "U4.live")
def test_a_lost_apply_is_seen_live_given_up_and_done_again_after_somebody_has_looked(
    system: System, page: Page
) -> None:
    credentials = system.register_runner("night", allow_multiple_instances=True)
    runner = system.start_runner(credentials, "lost")
    witness, gate = system.directory / "witness", system.directory / "gate"
    system.module("team/db", modules.gated_apply(str(witness), str(gate)))
    job = system.run("team/db", "APPLY")
    eventually(lambda: witness.exists(), what="the middle of the apply")
    page.goto(f"/dashboard/jobs/{job}")
    expect(page.locator("#job-head .st")).to_have_text("Applying")
    page.evaluate("window.sameDocument = true")
    with waiting(system, job) as terminal:
        session = os.getsid(system.executor(job))
        runner.kill()
        _kill_session(session)
        expect(page.locator("#lost")).to_be_visible(timeout=120_000)
        expect(page.locator("#lost")).to_contain_text("Perhaps:")
        expect(page.locator("#lost")).to_contain_text("in the step Apply")
        expect(page.locator("#job-side")).to_contain_text("orphaned")
        second = system.run("team/db")
        assert "is lost in the middle of a change" in system.job(second)["reason"]["text"]
        page.locator("#gone-open").click()
        number = str(system.job(job)["number"])
        page.locator("#gone-number").fill(number)
        with page.expect_response(lambda answer: answer.request.headers.get("hx-request") == "true"):
            page.evaluate("document.querySelector('#job').dispatchEvent(new Event('refresh'))")
        expect(page.locator("#gone-number")).to_have_value(number)  # what is typed outlasts the page's refreshing
        page.screenshot(path=SHOTS / "lost.png", animations="disabled", full_page=True)
        page.locator("#gone-job").click()
        expect(page.locator("#toasts")).to_contain_text("is given up")
        expect(page.locator("#job-head .st")).to_have_text("Waiting")
        expect(page.locator("#job-attempts")).to_contain_text("admin said that it is gone")
        expect(page.locator("#job-head")).to_contain_text("No runner available")
        gate.touch()
        again = system.start_runner(credentials, "next")
        expect(page.get_by_role("heading", name="An earlier change was cut short")).to_be_visible()
        expect(page.locator("#approval .known")).to_contain_text("Perhaps:")
        page.screenshot(path=SHOTS / "doubt.png", animations="disabled", full_page=True)
        page.get_by_label("I have compared this plan with the resources that exist").check()
        page.locator("#approve-job").click()
        page.get_by_role("dialog").get_by_role("button", name="Approve in doubt and apply").click()
        expect(page.locator("#job-head .st")).to_have_text("Succeeded")
        assert page.evaluate("window.sameDocument") is True, "all of it was live"
        page.screenshot(path=SHOTS / "lost-done.png", animations="disabled", full_page=True)
        told = terminal.ended()
    for words in (
        "contact with its runner was lost during a change",
        f"terracrew job gone {number}",
        f"terracrew job approve {number} --plan 2",
    ):
        assert words in told, told
    outcomes = [(each["outcome"], each["is_in_doubt"]) for each in system.job(job)["attempts"]]
    assert outcomes == [("lost", False), ("waiting", False), ("succeeded", False)], "it was looked at"
    again.stop()


def _kill_session(session: int) -> None:
    """Everything of an attempt at once, as when its machine loses power."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(entry.name)) == session:
                os.kill(int(entry.name), signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
