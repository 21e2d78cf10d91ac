"""The page of a job shows its plan, outputs and attempts, and people decide about them by forms."""

from urllib.parse import urlsplit

import pytest

from terracrew.protocol.events import FailedCheck, PlanSummary, ResourceChange
from terracrew.server.secrets.keyring import Keyring
from tests.builders.deliveries import RUNNING, fact
from tests.server.application import Application, on_one
from tests.server.dashboard.visitor import logged_in
from tests.server.simulated_runner import SimulatedRunner


@pytest.mark.feature("J12.sensitive", "U5.page")
async def test_the_job_page_shows_outputs_but_never_a_sensitive_one(
    application: Application, jobs: dict[str, str]
) -> None:
    someone = await logged_in(application)
    page = await someone.see(f"/dashboard/jobs/{jobs['done']}")
    assert "10.0.3.7" in page
    assert "sensitive, hidden" in page
    found = (await application.admin.get(f"/api/v1/jobs/{jobs['done']}/outputs")).json()
    assert f'id="outputs-checksum">{found["checksum"]}<' in page
    assert "hush" not in page
    planning = await someone.see(f"/dashboard/jobs/{jobs['planning']}")
    for word in (
        "+1 to add",
        "~1 to change",
        "−1 to destroy",
        "41 unchanged",
        "terraform_data.<b>peering</b>",
        "Attempts",
        "Runner lost",
    ):
        assert word in planning, word


@on_one
@pytest.mark.feature("J11.checks", "U5.page")
async def test_the_job_page_shows_which_checks_failed_and_what_is_only_forgotten(runner: SimulatedRunner) -> None:
    attempt = await runner.run(kind="APPLY")
    dropped = ResourceChange("a.dropped", "forget", "destroyed because it is no longer in the configuration")
    failed = [FailedCheck("check.health", "ends in <b>3</b> days"), FailedCheck("check.other")]
    await attempt.deliver(RUNNING, fact(PlanSummary(forgets=1, resources=[dropped], checks=failed)))
    page = await (await logged_in(runner.app)).see(f"/dashboard/jobs/{attempt.ref.job_id}")
    assert "2 checks failed" in page
    assert "<code>check.health</code> failed: ends in &lt;b&gt;3&lt;/b&gt; days" in page
    assert "<code>check.other</code> failed</p>" in page
    assert "No longer managed, not destroyed" in page
    assert "destroyed because" not in page


async def test_the_job_page_explains_outputs_that_cannot_be_decrypted(
    application: Application, jobs: dict[str, str]
) -> None:
    """The whole page answered 500, and with it the plan, the attempts and the log were out of reach."""
    foreign = Keyring([b"f" * 32])
    content = foreign.encrypt(b"{}", f"outputs:{jobs['done']}")
    sql = "UPDATE outputs SET content = :content WHERE job_id = :id"
    await application.server.db.write(lambda tx: tx.run(sql, content=content, id=jobs["done"]))
    page = await (await logged_in(application)).see_job(jobs["done"])
    assert f"was encrypted under master key {foreign.key_id}, which was not given. Give the server" in page


@pytest.mark.feature("J9.modes", "J10.rerun", "U5.page")
async def test_run_cancel_and_run_again_work_from_the_page(application: Application, jobs: dict[str, str]) -> None:
    someone = await logged_in(application)
    await someone.see("/dashboard/modules")
    module = await application.scalar("SELECT id FROM modules WHERE path = 'hello'")
    made = await someone.submit(f"/dashboard/modules/{module}/run", type="PLAN")
    assert made.status_code == 303
    path = urlsplit(made.headers["location"]).path
    assert "Waiting" in await someone.see(path)
    assert (await someone.submit(f"{path}/cancel", mode="after_step")).status_code == 303
    assert "Canceled" in await someone.see(path)
    again = await someone.submit(f"{path}/rerun")
    assert again.headers["location"] not in ("", path)
    assert (await someone.submit(f"/dashboard/modules/{module}/run", type="MELT")).status_code == 400
    running = f"/dashboard/jobs/{jobs['applying']}"
    await someone.see(running)
    await someone.submit(f"{running}/cancel", mode="interrupt")
    assert "Canceling" in await someone.see(running)


@pytest.mark.feature("J8.same", "U5.page")
async def test_an_approver_sees_the_plan_and_approves_it_by_a_form(
    application: Application, jobs: dict[str, str]
) -> None:
    await application.person("abe", "approver")
    someone = await logged_in(application, "abe")
    page = await someone.see_job(jobs["asking"])
    for word in (
        "This plan is awaiting approval",
        "+1 to add",
        "5 h 40 m",
        "admin queued this job",
        "version 3 of the state",
    ):
        assert word in page, word
    done = await someone.submit(f"/dashboard/jobs/{jobs['asking']}/approve", plan="1")
    assert done.status_code == 303, done.text
    after = await someone.see_job(jobs["asking"])
    assert "This plan is awaiting approval" not in after
    assert '<dt>Approved by</dt><dd id="approved-by"><ul class="given"><li><b>abe</b>,' in " ".join(after.split())
    again = await someone.submit(f"/dashboard/jobs/{jobs['asking']}/approve", plan="1")
    assert (again.status_code, "is not waiting for approval" in again.text) == (409, True)


@pytest.mark.feature("J8.same", "U5.page")
async def test_a_plan_that_is_not_the_one_of_the_page_is_not_approved(
    application: Application, jobs: dict[str, str]
) -> None:
    someone = await logged_in(application)
    await someone.see_job(jobs["doubt"])
    wrong = await someone.submit(f"/dashboard/jobs/{jobs['doubt']}/approve", plan="1")
    assert wrong.status_code in (404, 409)
    assert await application.scalar("SELECT status FROM jobs WHERE id = :id", id=jobs["doubt"]) == "AWAITING_APPROVAL"


@pytest.mark.feature("J8.decline", "U5.page")
async def test_a_plan_is_declined_and_the_job_says_why(application: Application, jobs: dict[str, str]) -> None:
    someone = await logged_in(application)
    await someone.see_job(jobs["asking"])
    done = await someone.submit(f"/dashboard/jobs/{jobs['asking']}/decline", plan="1", reason="<b>too early</b>")
    assert done.status_code == 303
    page = await someone.see_job(jobs["asking"])
    assert "Declined by admin: &lt;b&gt;too early&lt;/b&gt;." in page
    assert "Declined by</dt><dd>admin" in page


@pytest.mark.feature("O3.lease", "U5.page")
async def test_a_lost_attempt_is_shown_with_what_is_known_and_given_up_by_its_number(
    application: Application, jobs: dict[str, str], long_listening: None
) -> None:
    someone = await logged_in(application)
    page = await someone.see_job(jobs["lost"])
    for word in (
        "Attempt 1 was lost during a change",
        "terraform_data.rule[4]: Creating...",
        "in the step Apply",
        "Perhaps:",
        "it may be changing resources",
        "orphaned",
        "given up in",
    ):
        assert word in page, word
    form = {"attempt": "1", "confirm": "404"}
    wrong = await someone.submit(f"/dashboard/jobs/{jobs['lost']}/gone", **form)
    assert (wrong.status_code, "type the number of this job: 408" in wrong.text) == (400, True)
    done = await someone.submit(f"/dashboard/jobs/{jobs['lost']}/gone", **form | {"confirm": "#408"})
    assert done.status_code == 303, done.text
    after = await someone.see_job(jobs["lost"])
    assert "admin said that it is gone" in after
    assert "in doubt" in after


@pytest.mark.feature("O3.doubt", "U5.page")
async def test_in_doubt_what_is_known_comes_before_the_buttons_and_a_late_note_stays(
    application: Application, jobs: dict[str, str]
) -> None:
    page = await (await logged_in(application)).see_job(jobs["doubt"])
    known, buttons = page.index("terraform_data.tunnel: Creating..."), page.index('id="approve-job"')
    assert known < buttons
    assert "ada said that it is gone" in page
    assert "attempt 1 reported FAILED too late: out of time" in page
