"""A connected runner asks to leave: the server agrees if no job is on its way to it, and then claims none for it."""

import pytest

from terracrew.protocol import messages
from terracrew.server.connections import store as connections
from terracrew.server.db.topics import InstanceKey
from terracrew.server.hub.notify import HubNotifier
from tests.server.hub.hub_clients import Hub

pytestmark = pytest.mark.feature("W3.scale")


async def test_no_job_is_claimed_for_a_runner_that_is_let_go(hub: Hub) -> None:
    async with hub.runner(may_leave=True) as runner:
        await hub.until(lambda: hub.session().takes_jobs)
        answer = await runner.ask(messages.Leave(30.0))
        assert (answer["type"], answer["is_granted"]) == ("leave_answer", True)
        assert not hub.session().takes_jobs
        job_id = await hub.crew.rows.job(await hub.crew.rows.module())
        await runner.send(messages.Heartbeat("0.1.0", False, []))
        await runner.send_credits(1)
        await hub.server.scheduler.sweep()
        assert not await runner.claim(job_id)
        assert not hub.session().reserved
    async with hub.runner(may_leave=True) as runner:
        await runner.send(messages.Credits(1, 0))
        assert (await runner.get())["type"] == "granted", "a new connection takes jobs again"


async def test_a_runner_to_which_a_job_is_on_its_way_has_to_stay(hub: Hub) -> None:
    async with hub.runner(may_leave=True) as runner:
        await hub.until(lambda: hub.session().takes_jobs)
        job_id = await hub.crew.rows.job(await hub.crew.rows.module())
        hub.session().reserve(job_id)  # its claim is being decided
        answer = await runner.ask(messages.Leave(30.0))
        assert (answer["is_granted"], answer["reason"]) == (False, "a job is on its way to it")
        hub.session().release(job_id, is_claimed=False)
        await runner.granted(job_id)
        assert not (await runner.ask(messages.Leave(30.0)))["is_granted"]
        assert hub.session().takes_jobs


@pytest.mark.feature("V3.trial")
async def test_a_runner_on_trial_is_given_no_job_before_it_has_passed_whatever_else_it_says(hub: Hub) -> None:
    async with hub.runner(is_on_trial=True) as runner:
        await hub.crew.rows.job(await hub.crew.rows.module())
        await runner.send(messages.Heartbeat("0.1.0", False, []))
        await runner.send_credits(4)
        await hub.server.scheduler.sweep()
        assert not hub.session().reserved
        assert not hub.session().takes_jobs
        await runner.send(messages.TrialReport(False, "it does not work"))
        await runner.send(messages.Heartbeat("0.1.1", False, []))
        await runner.send_credits(4)
        await hub.server.scheduler.sweep()
        assert not hub.session().reserved
        await runner.send(messages.TrialReport(True, "OpenTofu ran"))
        await runner.send(messages.Heartbeat("0.1.2", False, []))
        assert (await runner.get())["type"] == "granted"


@pytest.mark.feature("V3.update")
async def test_a_retired_runner_is_asked_to_end_on_each_connection_and_is_given_no_job(hub: Hub) -> None:
    async with hub.runner(may_leave=True) as runner:
        await hub.until(lambda: hub.session().takes_jobs)
        instance_id = hub.session().instance_id
        await hub.server.db.write(lambda tx: connections.retire(tx, hub.runner_id, [instance_id], "replaced"))
        await HubNotifier(hub.server.hub.runners).step(
            {("instances", InstanceKey(hub.runner_id, instance_id).encode())}
        )
        assert await runner.get() == {"type": "retire", "reason": "replaced"}
        job_id = await hub.crew.rows.job(await hub.crew.rows.module())
        await runner.send(messages.Heartbeat("0.1.0", False, []))
        assert not await runner.claim(job_id)
    async with hub.runner(may_leave=True) as runner:
        assert (await runner.get())["type"] == "retire"
        assert not await runner.claim(job_id)
        assert (await runner.ask(messages.Leave(1.0)))["is_granted"]


async def test_only_a_runner_whose_hello_said_so_may_ask(hub: Hub) -> None:
    async with hub.runner() as runner:
        answer = await runner.ask(messages.Leave(30.0))
        assert (answer["type"], answer["code"]) == ("refused", "invalid")
