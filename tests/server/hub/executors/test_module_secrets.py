"""The server masks a module's own secrets in what arrives, because a runner that salvages a dead executor does not know them."""

import pytest

from terracrew.protocol.events import Output, OutputsRead, PlanSummary, ResourceChange, Result
from terracrew.server.connections.withheld import WithheldJobs
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.modules import contents
from terracrew.server.tree.modules.contents import Content
from tests.builders.job_rows import change_instances
from tests.e2e.simulated_runner import batch
from tests.server.hub.hub_clients import Hub

SECRET = "hunter2-hunter2"


@pytest.mark.feature("J12.sensitive", "L5.server")
async def test_what_arrives_with_a_secret_of_the_module_is_stored_without_it(hub: Hub) -> None:
    """What an engine had printed when its executor died was stored with the passwords of its module in plain text."""
    keys, db = hub.server.keys, hub.server.db
    module_id = await hub.crew.rows.module()
    content = Content({"database": {"password": SECRET}}, {"SERVICE_TOKEN": "token-of-the-service"})
    await db.write(lambda tx: contents.save(tx, keys, module_id, content))
    job_id = await hub.job(module_id=module_id)
    async with hub.runner() as runner:
        granted = await runner.granted(job_id)
    assert granted.spec.inputs == content.inputs
    assert granted.spec.environment == content.environment
    facts = [
        f"password: {SECRET}\n",
        PlanSummary(add=1, resources=[ResourceChange(f'a["{SECRET}"]', "create")]),
        OutputsRead({"token": Output("token-of-the-service"), "name": Output("web")}, "ab"),
        Result("FAILED", f"plan failed: {SECRET} is wrong"),
    ]
    async with hub.executor(granted) as executor:
        await executor.connection.send(batch(1, *facts))
        assert (await executor.get("ack"))["mark"] == len(facts)
    found = (await hub.crew.app.admin.get(f"/api/v1/jobs/{job_id}")).text
    assert SECRET not in found
    assert "plan failed: *** is wrong" in found
    text = (await hub.crew.app.admin.get(f"/api/v1/jobs/{job_id}/log")).text
    assert "password: ***" in text
    outputs = (await hub.crew.app.admin.get(f"/api/v1/modules/{module_id}/outputs")).json()["outputs"]
    assert outputs["token"] == {"value": None, "type": None, "sensitive": True}
    assert outputs["name"]["value"] == "web"


@pytest.mark.feature("J12.sensitive", "L5.server")
async def test_sensitive_outputs_of_the_module_are_masked_in_its_next_job(hub: Hub) -> None:
    module_id = await hub.crew.rows.module()
    await _delivered(hub, module_id, OutputsRead({"token": Output(SECRET, is_sensitive=True)}, "ab"))
    job_id = await _delivered(hub, module_id, f"a hook printed {SECRET}\n")
    text = (await hub.crew.app.admin.get(f"/api/v1/jobs/{job_id}/log")).text
    assert "a hook printed ***" in text


async def _delivered(hub: Hub, module_id: str, event: str | OutputsRead) -> str:
    """Run a job of the module that delivers an event and succeeds; returns its id."""
    job_id = await hub.job(module_id=module_id)
    async with hub.runner() as runner:
        granted = await runner.granted(job_id)
    async with hub.executor(granted) as executor:
        await executor.connection.send(batch(1, event, Result("SUCCEEDED")))
        assert (await executor.get("ack"))["mark"] == 2
    return job_id


@pytest.mark.feature("S6.words")
async def test_a_job_whose_content_cannot_be_decrypted_says_so_and_is_not_claimed_again_and_again(hub: Hub) -> None:
    """It was chosen every few seconds for ever, each claim failed, and its page said that it was about to start."""
    db, scheduler = hub.server.db, hub.server.scheduler
    module_id, foreign = await hub.crew.rows.module(), Keyring([b"f" * 32])
    await db.write(lambda tx: contents.save(tx, foreign, module_id, Content({"a": 1})))
    job_id = await hub.job(module_id=module_id)
    async with hub.runner() as runner:
        await change_instances(db, hub.crew.instance.id, is_connected=False)  # no other runner is nearer
        await hub.until(lambda: hub.session().takes_jobs)
        await runner.send_credits(1)
        await scheduler.sweep()
        await hub.until(lambda: hub.server.registry.withheld.is_withheld(job_id))
        await scheduler.sweep()
        assert not hub.session().reserved
        found = (await hub.crew.app.admin.get(f"/api/v1/jobs/{job_id}")).json()
        assert found["reason"]["code"] == "undecryptable"
        assert foreign.key_id in found["reason"]["text"]
        await db.write(lambda tx: contents.save(tx, hub.server.keys, module_id, Content({"a": 1})))
        hub.server.registry.withheld = WithheldJobs(lambda: 0.0)  # the time until the next try has passed
        await scheduler.sweep()
        assert (await runner.get("granted"))["spec"]["inputs"] == {"a": 1}
