"""The page of a held server, the notice on every other page, and what an approver is told."""

from terracrew.server.history import store
from terracrew.server.jobs.set_back import detection
from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in


async def hold(application: Application) -> str:
    db = application.server.db
    found = await db.write(lambda tx: detection.start(tx, "it was started on a <b>backup</b>"))
    return found.id


async def test_a_server_that_is_not_held_says_so(application: Application) -> None:
    someone = await logged_in(application)
    assert "is not held" in await someone.see("/dashboard/hold")
    assert 'id="held"' not in await someone.see("/dashboard/modules")


async def test_every_page_says_that_the_server_is_held_and_only_administrators_release_it(
    application: Application, jobs: dict[str, str]
) -> None:
    await hold(application)
    await application.person("otto", "owner")
    otto = await logged_in(application, "otto")
    page = await otto.see("/dashboard/modules")
    assert "has handed out no changes" in page
    assert "An administrator of the server can release it" in page
    assert "/dashboard/hold" not in page
    await otto.see("/dashboard/hold", 403)
    assert (await otto.submit("/dashboard/hold/release")).status_code == 403


async def test_an_administrator_sees_what_is_known_and_releases_modules_one_by_one_or_all(
    application: Application, jobs: dict[str, str]
) -> None:
    hold_id = await hold(application)
    db = application.server.db
    module_id = await application.scalar("SELECT module_id FROM jobs WHERE id = :id", id=jobs["asking"])
    await db.write(lambda tx: store.note_evidence(tx, hold_id, str(module_id), "<i>job 9</i> was claimed after that"))
    someone = await logged_in(application)
    page = await someone.see("/dashboard/hold")
    assert "&lt;b&gt;backup&lt;/b&gt;" in page
    assert "&lt;i&gt;job 9&lt;/i&gt; was claimed after that" in page.replace("&lt;I", "&lt;i")
    asking = await someone.see_job(jobs["asking"])
    assert f"{hold_id}.0" in asking, "the approval names the hold"
    assert "database was set back" in asking
    await someone.see("/dashboard/hold")
    assert (await someone.submit("/dashboard/hold/release", module=str(module_id))).status_code == 303
    assert not await db.read(lambda tx: store.is_held(tx, str(module_id)))
    assert await db.read(store.open_hold) is not None
    assert (await someone.submit("/dashboard/hold/release")).status_code == 303
    assert await db.read(store.open_hold) is None
