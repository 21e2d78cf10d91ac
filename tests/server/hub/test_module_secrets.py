"""The server masks a module's own secrets in what arrives: a runner that salvages a dead executor does not know them."""

import pytest

from terracrew.protocol.events import Output, OutputsRead, PlanSummary, ResourceChange, Result
from terracrew.server.modules import contents
from terracrew.server.modules.contents import Content
from tests.e2e.simulated import batch
from tests.server.hub.wire import Hub

SECRET = "hunter2-hunter2"


@pytest.mark.feature("L5", "J12")
async def test_what_arrives_with_a_secret_of_the_module_is_stored_without_it(hub: Hub) -> None:
    """What an engine had printed when its executor died was stored with the passwords of its module in plain text."""
    keys, db = hub.server.keys, hub.server.db
    module_id = await hub.crew.world.module()
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
