"""Pages over plain HTTP: who may see and do what, and nothing of what others wrote becomes markup."""

import re
from urllib.parse import urlsplit

import pytest

from terracrew.protocol.spec import JobType
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import service as identity
from terracrew.server.identity.people import sessions
from tests.server.application import Application
from tests.server.dashboard.company_rows import Company
from tests.server.dashboard.visitor import Visitor, logged_in, visitor

HOSTILE = """"><script>alert(1)</script><img src=x onerror=alert(1)>'{{7*7}}"""
INLINE = re.compile(r"<script(?![^>]* src=)|<style|\s(?:style|on[a-z]+)\s*=", re.IGNORECASE)
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


async def test_an_address_that_does_not_exist_is_a_page_for_a_browser_and_a_problem_for_a_program(
    world: Application,
) -> None:
    """`/dashboard/nope` was answered with raw JSON."""
    someone = visitor(world)
    answer = await someone.get("/dashboard/nope")
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "<h1>Not found</h1>" in answer.text
    assert "There is no page at /dashboard/nope." in answer.text
    assert "<script>" not in (await someone.get("/dashboard/<script>")).text
    answer = await someone.get("/nope", headers={"Accept": "text/html,*/*"})
    assert "<h1>Not found</h1>" in answer.text
    for path in ("/api/v1/nope", "/static/nope"):
        answer = await someone.get(path, headers={"Accept": "text/html,*/*"})
        assert answer.headers["Content-Type"] == "application/problem+json"


async def test_a_link_logs_in_without_a_password_on_the_servers_own_machine_only(world: Application) -> None:
    here = visitor(world)
    link = f"/login/link/{await identity.make_link(world.server.db)}"
    away = Visitor(transport=world.stranger("192.0.2.1")._transport, base_url="http://127.0.0.1:7400")
    assert "data-enter" not in await away.see(f"{link}?enter=true")
    refused = await away.submit(link, enter="true")
    assert (refused.status_code, "only on the server&#39;s own machine" in refused.text) == (400, True)
    assert "data-enter" not in await here.see(link), "a link asks for a password unless it was made for this"
    assert "data-enter" in await here.see(f"{link}?enter=true")
    entered = await here.submit(link, enter="true", next="//evil.example")
    assert (entered.status_code, entered.headers["location"]) == (303, "/dashboard/runners")
    assert (await visitor(world).submit(link, enter="true")).status_code == 410


async def test_a_stranger_is_shown_the_way_in_and_comes_back_to_where_they_wanted(world: Application) -> None:
    someone = visitor(world)
    answer = await someone.get("/dashboard/jobs?status=open")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?next=%2Fdashboard%2Fjobs%3Fstatus%3Dopen"
    await logged_in(world)  # sets the password
    page = await someone.see(answer.headers["location"])
    assert 'value="/dashboard/jobs?status=open"' in page
    wrong = await someone.submit("/login", name="admin", password="wrong password", next="/dashboard/jobs?status=open")
    assert wrong.status_code == 401
    assert "The name or the password is wrong." in wrong.text
    right = await someone.submit(
        "/login", name="admin", password="correct horse battery", next="/dashboard/jobs?status=open"
    )
    assert (right.status_code, right.headers["location"]) == (303, "/dashboard/jobs?status=open")
    cookie = right.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example/", "/dashboard//evil", "/dashboard/\\evil", "/x"]
)
async def test_a_login_never_leads_to_another_site(world: Application, to: str) -> None:
    someone = await logged_in(world)
    answer = await someone.get("/login", params={"next": to})
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard/runners")


async def test_a_one_time_link_works_once_and_looking_at_it_does_not_use_it_up(world: Application) -> None:
    someone, token = visitor(world), await identity.make_link(world.server.db)
    for _ in range(2):
        assert "Welcome, admin" in await someone.see(f"/login/link/{token}")
    short = await someone.submit(f"/login/link/{token}", password="short", again="short")
    assert (short.status_code, "10 to 1024 characters" in short.text) == (400, True)
    other = await someone.submit(f"/login/link/{token}", password="one long password", again="another long password")
    assert (other.status_code, "not the same" in other.text) == (400, True)
    good = await someone.submit(f"/login/link/{token}", password="one long password", again="one long password")
    assert good.status_code == 303
    assert "This link no longer works" in await visitor(world).see(f"/login/link/{token}", 410)


async def test_whoever_logs_out_is_out(world: Application) -> None:
    someone = await logged_in(world)
    await someone.see("/dashboard/runners")
    kept = someone.cookies.get(sessions.COOKIE)
    assert (await someone.submit("/logout")).status_code == 303
    someone.cookies.set(sessions.COOKIE, kept or "")
    assert (await someone.get("/dashboard/runners")).status_code == 303


async def test_no_page_has_inline_script_or_style_and_every_answer_says_so(
    world: Application, jobs: dict[str, str]
) -> None:
    someone = await logged_in(world)
    paths = ["/dashboard/runners", "/dashboard/runners/add", "/dashboard/jobs", "/dashboard/modules"]
    for path in [*paths, *(f"/dashboard/jobs/{job}" for job in jobs.values()), "/dashboard/jobs/999999"]:
        answer = await someone.get(path)
        assert answer.status_code in (200, 404), answer.text
        assert not INLINE.findall(answer.text), path
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["cache-control"] == "no-store"
    assert not INLINE.findall(await visitor(world).see("/login"))


async def test_hostile_names_are_text_and_nothing_else(world: Application) -> None:
    async def work(tx: Tx) -> str:
        made = Company(tx, world.server.organization_id, HOSTILE)
        runner = await made.runner("evil", HOSTILE, region=HOSTILE, type="cloud-hosted")
        instance = await made.instance(runner, HOSTILE, version=HOSTILE)
        module = await made.module(f"group/{HOSTILE}", HOSTILE)
        job = await made.job(
            module, JobType.PLAN, "FAILED", message=HOSTILE, runner_id=runner, instance_id=instance, attempt=2
        )
        for number in (1, 2):
            await made.attempt(job, runner, instance, number=number, ended_at=made.now, outcome="lost", reason=HOSTILE)
        await made.insert("notes", job_id=job, attempt=1, event=1, text=HOSTILE, created_at=made.now)
        await tx.run("UPDATE jobs SET source_description = :text, engine_version = :text", text=HOSTILE)
        return job

    job = await world.server.db.write(work)
    someone = await logged_in(world)
    for path in ("/dashboard/runners", "/dashboard/jobs", f"/dashboard/jobs/{job}", "/dashboard/modules"):
        page = await someone.see(path)
        assert "&lt;script&gt;alert(1)" in page, path
        assert "<script>alert" not in page
        assert "<img" not in page
        assert "49" not in re.findall(r"'(\{\{.*?\}\}|49)", page)
    for path in ("/dashboard/runners", "/dashboard/modules"):
        page = (await someone.get(path, params={"q": f"nothing {HOSTILE}"})).text
        assert "<script>alert" not in page
    page = (await someone.get("/login", params={"next": HOSTILE})).text
    assert "<script>alert" not in page


@pytest.mark.feature("U1", "U2")
async def test_the_runners_page_filters_searches_and_says_why_jobs_wait(
    world: Application, jobs: dict[str, str]
) -> None:
    someone = await logged_in(world)
    page = await someone.see("/dashboard/runners")
    for word in (
        "platform/network/runner",
        "net-a",
        "net-b",
        "Online",
        "Draining",
        "Offline",
        "eu-central-1",
        "Undo drain",
    ):
        assert word in page
    assert "No runner available" in page
    offline = await someone.see("/dashboard/runners?status=OFFLINE")
    assert "data/warehouse" in offline
    assert ">frankfurt-prod<" not in offline
    found = await someone.see("/dashboard/runners?q=NET-B")
    assert "platform/network/runner" in found
    assert ">frankfurt-prod<" not in found
    assert "No runner matches" in await someone.see("/dashboard/runners?q=nothing-like-it")
    assert jobs["waiting"] in page


async def test_a_fragment_is_the_same_as_in_the_page(world: Application, jobs: dict[str, str]) -> None:
    someone = await logged_in(world)
    for path, part in (
        ("/dashboard/runners", "runners"),
        ("/dashboard/jobs", "jobs"),
        ("/dashboard/modules", "modules"),
        (f"/dashboard/modules/{await world.scalar('SELECT id FROM modules LIMIT 1')}", "module"),
    ):
        whole = _still(await someone.see(path))
        answer = await someone.get(path, headers={"HX-Request": "true"})
        assert answer.headers["vary"] == "HX-Request"
        fragment = _still(answer.text).partition('<span id="nav-jobs"')[0].strip()
        assert fragment.startswith(f'<div id="{part}"')
        assert fragment in whole
    job = await someone.get(f"/dashboard/jobs/{jobs['done']}", headers={"HX-Request": "true"})
    assert job.text.count('hx-swap-oob="morph"') == 5
    assert "data-log" not in job.text, "a log appends and is never rendered again"


@pytest.mark.feature("U5", "J12")
async def test_the_job_page_shows_outputs_but_never_a_sensitive_one(world: Application, jobs: dict[str, str]) -> None:
    someone = await logged_in(world)
    page = await someone.see(f"/dashboard/jobs/{jobs['done']}")
    assert "10.0.3.7" in page
    assert "sensitive, hidden" in page
    assert "hush" not in page
    planning = await someone.see(f"/dashboard/jobs/{jobs['planning']}")
    for word in (
        "+1 to add",
        "~1 to change",
        "−1 to destroy",
        "41 unchanged",
        "terraform_data.peering",
        "Attempts",
        "Runner lost",
    ):
        assert word in planning, word


async def test_a_viewer_is_shown_no_actions_and_refused_when_they_act(world: Application, jobs: dict[str, str]) -> None:
    await world.person("vera", "viewer")
    someone = await logged_in(world, "vera")
    runners = await someone.see("/dashboard/runners")
    assert ">Drain<" not in runners
    assert "Add runner" not in runners
    assert ">Apply<" not in await someone.see("/dashboard/modules")
    page = await someone.see(f"/dashboard/jobs/{jobs['applying']}")
    assert 'id="cancel-job"' not in page
    answer = await someone.submit(f"/dashboard/jobs/{jobs['applying']}/cancel", mode="kill")
    assert answer.status_code == 403
    assert "Not allowed" in answer.text
    done = await someone.see(f"/dashboard/jobs/{jobs['done']}")
    assert "10.0.3.7" not in done, "a viewer may not read the state, so neither its outputs"


async def test_another_organization_sees_nothing_of_it(world: Application, jobs: dict[str, str]) -> None:
    await world.person("eve", "owner", organization="elsewhere")
    someone = await logged_in(world, "eve")
    for job in jobs.values():
        await someone.see(f"/dashboard/jobs/{job}", 404)
    assert "ledger" not in await someone.see("/dashboard/modules")
    assert "ledger" not in await someone.see("/dashboard/jobs")
    assert ">frankfurt-prod<" not in await someone.see("/dashboard/runners")


async def test_a_form_without_its_token_changes_nothing(world: Application, jobs: dict[str, str]) -> None:
    someone = await logged_in(world)
    assert (await someone.submit(f"/dashboard/jobs/{jobs['applying']}/cancel", mode="kill")).status_code == 403
    assert await world.scalar("SELECT cancel_mode FROM jobs WHERE id = :id", id=jobs["applying"]) is None


@pytest.mark.feature("U1", "R7")
async def test_drain_undo_and_remove_work_from_the_page(world: Application, jobs: dict[str, str]) -> None:
    someone = await logged_in(world)
    await someone.see("/dashboard/runners")
    runner = await world.scalar("SELECT id FROM runners WHERE path = 'frankfurt-prod'")
    for on in ("true", "false"):
        assert (await someone.submit(f"/dashboard/runners/{runner}/drain", on=on)).status_code == 303
        assert bool(await world.scalar("SELECT is_draining FROM runners WHERE id = :id", id=runner)) is (on == "true")
    gone = await world.scalar("SELECT id FROM runners WHERE path = 'data/warehouse'")
    refused = await someone.submit(f"/dashboard/runners/{gone}/remove")
    assert (refused.status_code, "data/warehouse/buckets" in refused.text) == (409, True)
    await world.server.db.write(lambda tx: tx.run("UPDATE modules SET runner_id = NULL"))
    assert (await someone.submit(f"/dashboard/runners/{gone}/remove")).status_code == 303
    assert await world.scalar("SELECT count(*) FROM runners WHERE id = :id", id=gone) == 0


@pytest.mark.feature("U3", "R5")
async def test_registering_shows_the_token_once_and_a_taken_name_is_said_in_the_form(
    world: Application, jobs: dict[str, str]
) -> None:
    someone = await logged_in(world)
    await someone.see("/dashboard/runners/add")
    made = await someone.submit("/dashboard/runners/add", name="fresh", group="platform")
    assert made.status_code == 200
    token = re.search(r'id="worker-token">(tcw_[^<]+)<', made.text)
    assert token
    assert f"WORKER_TOKEN={token[1]}" in made.text
    assert token[1] not in await someone.see("/dashboard/runners")
    again = await someone.submit("/dashboard/runners/add", name="fresh", group="platform")
    assert "There is a runner `platform/fresh` already" in again.text
    assert 'value="fresh"' in again.text


@pytest.mark.feature("U5", "J9", "J10")
async def test_run_cancel_and_run_again_work_from_the_page(world: Application, jobs: dict[str, str]) -> None:
    someone = await logged_in(world)
    await someone.see("/dashboard/modules")
    module = await world.scalar("SELECT id FROM modules WHERE path = 'hello'")
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


async def test_a_job_is_found_by_its_number_and_lists_go_on_page_by_page(world: Application) -> None:
    async def work(tx: Tx) -> None:
        made = Company(tx, world.server.organization_id, world.admin.principal.id)
        module = await made.module("many")
        for _ in range(60):
            await made.job(module, JobType.PLAN, "SUCCEEDED")

    await world.server.db.write(work)
    someone = await logged_in(world)
    page = await someone.see("/dashboard/jobs")
    seen = set(re.findall(r"row-(job_\w+)", page))
    older = re.search(r'rel="next" href="([^"]+)"', page)
    assert older
    rest = await someone.see(older[1].replace("&amp;", "&"))
    assert (len(seen), len(set(re.findall(r"row-(job_\w+)", rest)) - seen)) == (50, 10)
    by_number = await someone.get("/dashboard/jobs?module=%23401", follow_redirects=True)
    assert "#401" in by_number.text
    assert (await someone.get("/dashboard/jobs/401")).status_code == 303


async def test_jobs_are_found_by_the_paths_of_modules_alone(world: Application) -> None:
    """A search for `gateway` listed jobs of platform/network, whose description has the word but is not on the page."""

    async def work(tx: Tx) -> None:
        made = Company(tx, world.server.organization_id, world.admin.principal.id)
        for path, description in (("network", "subnets and a gateway"), ("gateway", "")):
            await made.job(await made.module(path, description), JobType.PLAN, "SUCCEEDED")

    await world.server.db.write(work)
    someone = await logged_in(world)
    assert len(re.findall(r'id="row-job_\w+', await someone.see("/dashboard/jobs?module=gatew"))) == 1
    modules = await someone.see("/dashboard/modules?q=gatew")
    assert ("network" in modules, "subnets and a gateway" in modules) == (True, True)


def _still(text: str) -> str:
    """Without what goes on by itself between two looks: times."""
    return re.sub(r"<time[^>]*>[^<]*", "<time>", text)
