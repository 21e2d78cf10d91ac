"""A fleet job asks the instances of a self-hosted runner for their updates, one after the other, and ends with the truth."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from terracrew.protocol.messages import UpdateReport
from terracrew.server.app import build, close
from terracrew.server.hub.notify import HubNotifier
from terracrew.server.releases import service as releases
from terracrew.server.runner_updates import decide, update_jobs
from tests.server.application import Application, attached_app, on_one, settings_for
from tests.server.hub.hub_clients import Hub, listening
from tests.server.runner_updates.updating_runners import NEW, OLD, UpdatingRunner, asked, report
from tests.server.simulated_runner import SimulatedRunner

pytestmark = pytest.mark.feature("V3.self")


@pytest.fixture
async def own(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> UpdatingRunner:
    monkeypatch.setattr(update_jobs, "LOOK_SECONDS", 0.03)
    return await UpdatingRunner.make(hub)


async def test_instances_are_updated_one_after_the_other_and_every_step_is_shown(own: UpdatingRunner) -> None:
    async with own.instance("one") as one, own.instance("two") as two, own.working():
        job = await own.update()
        first = await asked(one)
        await report(one, first, "fetch")
        await own.until_step(job, "one: fetch the release")
        await one.send(UpdateReport(first, "running", "verify", "the signature is right"))
        await own.until_says(job, "the signature is right")
        await report(one, first, "install", "switch")
        await own.until_step(job, "one: switch to it")
        await one.connection.close()
        async with own.instance("one", NEW) as one:
            await one.send(UpdateReport(await asked(one), "running", "trial"))
            await one.send(UpdateReport(first, "done", "trial", "tofu ran a no-op plan"))
            second = await asked(two)  # only now
            await two.send(UpdateReport(second, "running", "fetch"))
            await two.connection.close()
            async with own.instance("two", NEW) as two:
                await two.send(UpdateReport(second, "done"))
                assert await own.ended(job) == ("SUCCEEDED", "")
    shown = await own.steps(job)
    assert [each[0] for each in shown[:6]] == [
        "one: fetch the release",
        "one: verify its hash and signature",
        "one: install it beside the old version",
        "one: check that it starts with the settings of the runner",
        "one: switch to it",
        "one: prove that it runs jobs",
    ]
    assert [each[0].partition(":")[0] for each in shown[6:]] == ["two"] * 6
    assert {each[1] for each in shown} == {"done"}
    assert shown[5][2].startswith("Said hello after 0 s")
    assert own.process.jobs == [], "the fleet process has no part in it"
    page = (await own.hub.crew.app.admin.get(f"/dashboard/fleet-jobs/{job.id}")).text
    assert "one: verify its hash and signature" in page
    assert f"to {NEW}" in page


@on_one
async def test_a_failed_instance_ends_the_job_and_the_others_are_not_asked(own: UpdatingRunner) -> None:
    async with own.instance("one") as one, own.instance("two"), own.working():
        job = await own.update()
        await one.send(UpdateReport(await asked(one), "failed", "verify", "the signature is of \x1b[2Janother key"))
        status, error = await own.ended(job)
        assert status == "FAILED"
        assert error == (
            f"instance `one` was not updated to {NEW}: the signature is of another key. 1 other instance was not asked"
        )
        assert [each[1] for each in await own.steps(job)] == ["done", "failed"]
        again = await own.update()
        assert await asked(one) != "", "another job asks again"
        await own.cancel(again)


@on_one
async def test_an_instance_that_only_says_that_it_was_updated_does_not_succeed(own: UpdatingRunner) -> None:
    async with own.instance() as one, own.working():
        job = await own.update()
        await one.send(UpdateReport(await asked(one), "done", "trial", "trust me"))
        status, error = await own.ended(job)
        assert (status, f"it said hello as {OLD}" in error) == ("FAILED", True)


async def test_an_instance_that_goes_away_is_waited_for_and_then_given_up(
    own: UpdatingRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with own.working():
        async with own.instance() as one:
            job = await own.update()
            update_id = await asked(one)
            await report(one, update_id, "install")
            await own.until_step(job, "Install it beside")
        await own.until_says(job, "it is disconnected")
        async with own.instance() as one:
            assert await asked(one) == update_id, "it is asked again, because it may have forgotten"
            await one.send(UpdateReport(update_id, "running", "check"))
            await own.until_step(job, "Check that it starts")
        await own.until_says(job, "it is disconnected")
        monkeypatch.setattr(decide, "MAX_AWAY", timedelta(seconds=0.1))
        status, error = await own.ended(job)
        assert (status, "has not come back" in error) == ("FAILED", True)
        async with own.instance(version=NEW) as one:
            await one.send(UpdateReport(update_id, "done"))
            assert (await own.ended(job))[0] == "FAILED", "late reports change nothing"


async def test_a_cancel_withdraws_what_has_not_begun_and_waits_for_what_has(own: UpdatingRunner) -> None:
    async with own.instance() as one, own.working():
        job = await own.update()
        update_id = await asked(one)
        await own.cancel(job)
        assert await own.ended(job) == ("CANCELED", "admin canceled it")
        await one.send(UpdateReport(update_id, "running", "fetch"))
        job = await own.update()
        update_id = await asked(one)
        await report(one, update_id, "fetch", "verify")
        await own.until_step(job, "Verify")
        async with own.instance("two"):
            await own.cancel(job)
            page = (await own.hub.crew.app.admin.get(f"/dashboard/fleet-jobs/{job.id}")).text
            assert "the others are not asked" in page
            await one.connection.close()
            async with own.instance("one", NEW) as one:
                await one.send(UpdateReport(update_id, "done"))
                assert (await own.ended(job))[0] == "CANCELED"
        assert {each[1] for each in await own.steps(job)} == {"done"}, "what had begun has ended well"


async def test_another_attempt_goes_on_where_the_first_one_was_cut_off(own: UpdatingRunner) -> None:
    async with own.instance("one") as one, own.instance("two") as two:
        async with own.working():
            job = await own.update()
            first = await asked(one)
            await one.connection.close()
            async with own.instance("one", NEW) as one:
                await one.send(UpdateReport(first, "done"))
                second = await asked(two)
                await report(two, second, "fetch")
                await own.until_step(job, "two: fetch")
        await two.send(UpdateReport(second, "running", "install"))  # while no server runs the job
        async with own.working():
            await own.until_step(job, "two: install", attempt=2)
            await two.connection.close()
            async with own.instance("two", NEW) as two:
                await two.send(UpdateReport(second, "done"))
                assert await own.ended(job) == ("SUCCEEDED", "")


@on_one
async def test_a_release_that_is_withdrawn_meanwhile_reaches_no_further_instance(own: UpdatingRunner) -> None:
    async with own.instance("one") as one, own.instance("two"), own.working():
        job = await own.update()
        first = await asked(one)
        await own.server.db.write(lambda tx: releases.withdraw(tx, own.who, NEW, "it loses states"))
        await one.connection.close()
        async with own.instance("one", NEW) as one:
            await one.send(UpdateReport(first, "done"))
            assert await own.ended(job) == ("FAILED", f"the release {NEW} was withdrawn: it loses states")


@on_one
async def test_a_runner_that_is_removed_meanwhile_ends_the_job(own: UpdatingRunner) -> None:
    async with own.instance() as one, own.working():
        job = await own.update()
        await asked(one)
        await own.hub.crew.app.admin.delete(f"/api/v1/runners/{own.runner_id}", params={"force": "true"})
        assert (await own.ended(job))[0] == "FAILED"


@pytest.fixture
async def hubs(hub: Hub, database_url: str, tmp_path: Path) -> AsyncIterator[tuple[Hub, Hub]]:
    async with AsyncExitStack() as stack:
        settings = settings_for(tmp_path / "other", database_url)
        server = await build(settings)
        second = Application(server, stack.enter_context(attached_app(server)), hub.crew.app.admin)
        stack.push_async_callback(close, second.server)
        yield hub, await stack.enter_async_context(listening(await SimulatedRunner.make(second)))


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_the_job_and_the_connection_may_be_on_different_servers(
    own: UpdatingRunner, hubs: tuple[Hub, Hub]
) -> None:
    here, there = hubs
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(own.working(here.server))
        notifier = asyncio.create_task(HubNotifier(there.server.hub.runners).run())
        stack.callback(notifier.cancel)
        one = await stack.enter_async_context(own.instance(hub=there))
        job = await own.update()
        update_id = await asked(one)
        await report(one, update_id, "fetch", "verify")
        await own.until_step(job, "Verify")
        await one.connection.close()
        one = await stack.enter_async_context(own.instance(version=NEW, hub=there))
        await one.send(UpdateReport(update_id, "done"))
        assert await own.ended(job) == ("SUCCEEDED", "")
