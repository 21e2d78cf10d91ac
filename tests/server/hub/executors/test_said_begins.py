"""An executor that says that it has begun gets no permission by that: only the point that it was told with it proves it."""

import pytest

from terracrew.protocol import messages, version
from terracrew.server.jobs.set_back import detection
from tests.builders.job_rows import change_groups
from tests.server.hub.hub_clients import Hub


@pytest.mark.parametrize("is_held", [False, True])
async def test_an_executor_cannot_give_itself_the_permission_to_apply(hub: Hub, is_held: bool) -> None:
    attempt = await hub.crew.run(await hub.crew.rows.module(), "DESTROY")
    await change_groups(hub.crew.rows.db, "", min_approvals=2)
    if is_held:
        await hub.crew.rows.db.write(lambda tx: detection.start(tx, "a test"))
    ref = attempt.ref
    newest = version.NEWEST_VERSION
    hello = messages.ExecutorHello(
        ref.job_id, ref.attempt, "0.1.0", newest, newest, has_begun=True, history=["hst_1.x"]
    )
    async with hub.connected(attempt.credentials.hub) as client:
        assert (await client.ask(hello))["type"] == "welcome"
        asked = {"audience": "sts.amazonaws.com", "phase": "apply"}
        answer = await attempt.executor.post(f"{attempt.path}/cloud-token", json=asked)
        assert answer.status_code == 409
        refused = await client.ask(messages.Begin(0))
        assert refused["type"] == "begin_refused"
        assert refused["code"] == ("held" if is_held else "approval")
