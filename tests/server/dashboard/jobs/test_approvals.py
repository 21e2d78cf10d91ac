"""What is said about an approval is true: how many people must approve, who did, who could, and that the module is in doubt."""

import re

import pytest

from terracrew.server.db.seam import Tx
from tests.builders.job_rows import change_attempts, change_groups, change_jobs, change_modules, change_users
from tests.server.application import Application
from tests.server.dashboard.visitor import Visitor, logged_in

pytestmark = [pytest.mark.feature("J8.threshold"), pytest.mark.feature("U5.page")]


async def two_people_must_approve(application: Application) -> None:
    """Two of three approvers must approve what is in `platform/edge`, and nobody their own job."""
    await change_groups(application.server.db, "platform/edge", min_approvals=2, self_approval=False)
    for name in ("ada", "grace", "olga"):
        await application.person(name, "approver", "platform/edge")


def text_of(page: str, name: str) -> str:
    """The text of the element with this id, up to the end of its section."""
    part = page[page.index(f'id="{name}"') :]
    part = part[part.index(">") + 1 : part.find("</section>")]
    return " ".join(re.sub(r"<[^>]+>", " ", part).split())


async def approve(someone: Visitor, job: str, **fields: str) -> str:
    """Approve the plan as htmx does, and return what the page says then."""
    headers = {"HX-Request": "true"}
    form = {"_csrf": someone.csrf, "plan": "1", **fields}
    answer = await someone.post(f"/dashboard/jobs/{job}/approve", data=form, headers=headers)
    assert answer.status_code == 204, answer.text
    return answer.headers["HX-Trigger"]


async def test_two_approvals_are_given_one_after_the_other_and_both_people_are_named(
    application: Application, jobs: dict[str, str]
) -> None:
    """The first of two buttons said "Approve and apply", its toast that the job continues, and only the second person was named."""
    await two_people_must_approve(application)
    job = jobs["asking"]
    ada, grace = await logged_in(application, "ada"), await logged_in(application, "grace")
    page = await ada.see_job(job)
    assert 'data-yes="Approve (1 of 2)"' in page
    assert "Nothing is changed yet: 1 more person must approve it after you." in page
    shown = text_of(page, "approval")
    assert "0 of 2 approvals" in shown
    assert "ada, grace and olga can approve it." in shown
    said = await approve(ada, job, comment="The snapshot is taken.\n\nGo ahead.")
    assert "Approved (1 of 2). Job #407 still waits: 1 more person must approve it." in said

    page = await ada.see_job(job)
    assert "You have approved this plan; 1 more person must approve it." in text_of(page, "approval")
    assert 'id="approve-job"' not in page
    page = await grace.see_job(job)
    shown = text_of(page, "approval")
    for words in ("1 of 2 approvals", "ada approved now", "The snapshot is taken.", "grace and olga can approve it."):
        assert words in shown, words
    assert 'data-yes="Approve and apply (2 of 2)"' in page
    assert "The plan is applied as it was made." in page
    assert "Approved. Job #407 continues with its plan." in await approve(grace, job)

    page = await grace.see_job(job)
    assert re.match(r"ada , now The snapshot is taken. Go ahead. grace , now\b", text_of(page, "approved-by"))
    view = (await application.admin.get(f"/api/v1/jobs/{job}")).json()
    given = view["kept_plan"]["approvals"]
    assert [(each["by"], each["comment"]) for each in given] == [
        ("ada", "The snapshot is taken.\n\nGo ahead."),
        ("grace", ""),
    ]
    ending = r"approved by ada \(after [\d.]+ s, “The snapshot is taken. Go ahead.”\) and grace \(after [\d.]+ s\)$"
    assert re.search(ending, view["run"][0]["text"])
    audit = (await application.admin.get("/api/v1/audit", params={"action": "job.approve"})).json()["items"]
    assert sorted(each["details"].get("comment", "") for each in audit) == ["", "The snapshot is taken.\n\nGo ahead."]


async def test_the_api_says_how_many_approvals_count_and_who_could_give_the_next(
    application: Application, jobs: dict[str, str]
) -> None:
    await two_people_must_approve(application)
    await application.person("vera", "viewer", "platform/edge")
    await application.person("fritz", "approver", "payments")
    disabled = await application.person("dora", "owner", "platform")
    await change_users(application.server.db, disabled.principal.id, is_disabled=True)
    owner = await application.person("wanda", "owner", "platform")
    await change_jobs(application.server.db, jobs["asking"], created_by=owner.principal.id)
    view = (await application.admin.get(f"/api/v1/jobs/{jobs['asking']}")).json()
    assert view["approvers"] == ["ada", "admin", "grace", "olga"], (
        "not who queued it, is disabled, or has another role or place"
    )
    assert (view["approvals_counted"], view["approvals_needed"]) == (0, 2)
    answer = await application.admin.post(f"/api/v1/jobs/{jobs['asking']}/approve", json={"plan": 1})
    approved = answer.json()
    assert (approved["approvals_counted"], approved["approvals_needed"]) == (1, 2)
    assert approved["status"] == "AWAITING_APPROVAL"


async def test_a_plan_that_nobody_can_approve_says_so(application: Application, jobs: dict[str, str]) -> None:
    await change_groups(application.server.db, "", self_approval=False)
    page = await (await logged_in(application)).see_job(jobs["asking"])
    assert "Nobody with a role can approve it now: an owner can make somebody an approver" in text_of(page, "approvers")


async def test_nobody_is_named_or_counted_for_a_plan_that_is_out_of_date(
    application: Application, jobs: dict[str, str]
) -> None:
    """The page said that the plan cannot be approved, that ada can approve it, and in the badge that she has to."""
    await two_people_must_approve(application)
    ada = await logged_in(application, "ada")
    assert await badge(ada) == "2 to approve"
    module = await application.scalar("SELECT module_id FROM jobs WHERE id = :id", id=jobs["asking"])
    await change_modules(application.server.db, module, state_version=99)
    page = await ada.see_job(jobs["asking"])
    shown = text_of(page, "approval")
    assert shown.startswith("This plan is out of date")
    assert "so it cannot be approved" in shown
    assert "can approve it" not in shown
    assert "must approve" not in shown
    assert (await application.admin.get(f"/api/v1/jobs/{jobs['asking']}")).json()["approvers"] == []
    assert await badge(ada) == "1 to approve"


async def test_an_approval_from_before_a_doubt_is_not_counted_and_can_be_given_again(
    application: Application, jobs: dict[str, str]
) -> None:
    """The page went on to say "1 of 2 approvals", and had no button for the person whose approval did not count any more."""
    await two_people_must_approve(application)
    job = jobs["asking"]
    ada = await logged_in(application, "ada")
    await ada.see_job(job)
    await approve(ada, job)

    async def cut_short(tx: Tx) -> None:
        asking = await tx.one("SELECT module_id FROM jobs WHERE id = :id", id=job)
        assert asking is not None
        await change_jobs(tx, jobs["done"], module_id=asking["module_id"])
        await change_attempts(tx, jobs["done"], is_in_doubt=True, outcome="lost")

    await application.server.db.write(cut_short)
    page = await ada.see_job(job)
    shown = text_of(page, "approval")
    assert "0 of 2 approvals" in shown
    assert "The approval of ada does not count: ada approved it before a change was cut short" in shown
    assert 'id="approve-job"' in page
    view = (await application.admin.get(f"/api/v1/jobs/{job}")).json()
    assert (view["approvals_counted"], view["approvers"]) == (0, ["ada", "grace", "olga"])


@pytest.mark.feature("O3.doubt")
async def test_an_approval_in_doubt_does_not_look_like_a_plain_one(
    application: Application, jobs: dict[str, str]
) -> None:
    """It had the same green button as any other approval."""
    someone = await logged_in(application)
    plain, doubtful = await someone.see_job(jobs["asking"]), await someone.see_job(jobs["doubt"])
    assert '<button class="btn primary" id="approve-job">Approve and apply</button>' in plain
    assert "I have compared this plan" not in plain
    assert '<button class="btn warn" id="approve-job">Approve in doubt and apply</button>' in doubtful
    assert re.search(r'<input type="checkbox" id="looked"[^>]* required', doubtful)
    assert "data-danger" in doubtful[doubtful.index('class="approving"') : doubtful.index('id="looked"')]


@pytest.mark.feature("O3.doubt")
async def test_a_plan_since_the_database_was_set_back_is_not_approved_like_a_plain_one(
    application: Application, jobs: dict[str, str]
) -> None:
    job = jobs["asking"]

    async def set_back(tx: Tx) -> None:
        sql = "INSERT INTO holds (id, started_at, reason, is_set_back) VALUES ('hld_1', :now, 'restored', true)"
        await tx.run(sql, now=tx.now)
        await tx.run(
            """INSERT INTO held_modules (module_id, hold_id, is_held, is_in_doubt)
            SELECT module_id, 'hld_1', false, true FROM jobs WHERE id = :id""",
            id=job,
        )

    await application.server.db.write(set_back)
    someone = await logged_in(application)
    page = await someone.see_job(job)
    assert "The database was set back: look before you approve" in page
    assert '<button class="btn warn" id="approve-job">Approve in doubt and apply</button>' in page
    row = text_of(await someone.see("/dashboard/jobs"), f"row-{job}")
    assert row.startswith("In doubt platform/edge/cdn apply #407 ")
    assert "this module may have been changed since: compare its plan with what exists" in row
    await approve(someone, job, doubts="hld_1.0")
    page = await someone.see_job(job)
    assert "in doubt" in text_of(page, "approved-by")
    assert "Approved in doubt" in page
    assert "approved in doubt by admin" in (await application.admin.get(f"/api/v1/jobs/{job}")).json()["run"][0]["text"]


async def badge(someone: Visitor) -> str:
    return text_of(await someone.see("/dashboard/jobs"), "nav-jobs").partition(" Runners")[0]


async def test_the_badge_counts_what_the_reader_may_approve(application: Application, jobs: dict[str, str]) -> None:
    """It counted every plan that waited, also for people who could approve none of them."""
    await application.person("vera", "viewer")
    for name, place in (("ada", "platform/edge"), ("fritz", "payments"), ("wanda", "platform")):
        await application.person(name, "approver", place)
    people = {name: await logged_in(application, name) for name in ("vera", "ada", "fritz", "wanda", "admin")}
    assert {name: await badge(each) for name, each in people.items()} == {
        "vera": "8 open",
        "ada": "2 to approve",
        "fritz": "1 open",
        "wanda": "2 to approve",
        "admin": "2 to approve",
    }
    page = await people["vera"].see("/dashboard/jobs")
    assert re.search(r"Awaiting approval <span[^>]*>2<", page), "the list is about everything that the reader sees"

    await change_groups(application.server.db, "platform/edge", min_approvals=2, self_approval=False)
    assert await badge(people["admin"]) == "8 open", "admin has queued both"
    await approve(people["ada"], jobs["asking"])
    assert await badge(people["ada"]) == "1 to approve"
    assert await badge(people["wanda"]) == "2 to approve"
