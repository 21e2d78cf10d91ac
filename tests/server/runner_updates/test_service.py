"""Only who may change a runner updates it, only one update of a runner is open, and the refusals name what to do instead."""

import pytest

from terracrew.errors import Conflict, Forbidden, NotFound
from terracrew.protocol.messages import Installation
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import SYSTEM
from terracrew.server.releases import service as releases
from terracrew.server.releases import store as release_store
from terracrew.server.runner_updates import service
from terracrew.server.runners import service as runners
from tests.server.hub.hub_clients import Hub
from tests.server.runner_updates.updating_runners import NEW, UpdatingRunner

pytestmark = pytest.mark.feature("V2.by-hand", "V3.self")


async def words(own: UpdatingRunner) -> str | None:
    """Return the last command with which a person has to update the runner; None if the server can."""

    async def read(tx: Tx) -> str | None:
        runner = await runners.find(tx, own.who, own.runner_id, Verb.RUNNER_READ)
        found = await service.by_hand(tx, [runner], await release_store.get(tx, NEW))
        return found[runner.id].command.rpartition(" && ")[2] if found else None

    return await own.server.db.read(read)


async def test_an_update_is_queued_once_by_who_may_and_refused_with_what_to_do(hub: Hub) -> None:
    own, app = await UpdatingRunner.make(hub), hub.crew.app
    with pytest.raises(Conflict, match="it was never online"):
        await own.update()
    async with own.instance(is_self_updating=False, installation=Installation("systemd", "/opt/x", "crew.service")):
        with pytest.raises(Conflict, match=r"/opt/x/bin/python -m pip .* && systemctl restart crew.service"):
            await own.update()
        assert await words(own) == "systemctl restart crew.service"
    async with own.instance():
        assert await words(own) is None
        reader, stranger = await app.person("reader", "viewer"), await app.person("stranger", organization="elsewhere")
        for person, error in ((reader, Forbidden), (stranger, NotFound)):
            with pytest.raises(error):
                await hub.server.db.write(lambda tx, who=person.principal: service.update(tx, who, own.runner_id, NEW))
        with pytest.raises(NotFound, match=r"there is no release '9\.9\.9'"):
            await own.update("9.9.9")
        job = await own.update(f"v{NEW}")
        assert (job.type, job.identity_id, job.spec, job.target_name) == ("UPDATE_WORKER", "", {"version": NEW}, "own")
        with pytest.raises(Conflict, match=f"job {job.number} .* has not ended"):
            await own.update()
        await own.cancel(job)
        job = await hub.server.db.write(lambda tx: service.update(tx, SYSTEM, own.runner_id, NEW))
        assert job.created_by_name == SYSTEM.name, "a roll-out updates runners, too"
        await own.cancel(job)
        await hub.server.db.write(lambda tx: releases.withdraw(tx, own.who, NEW, "it loses states"))
        with pytest.raises(Conflict, match="was withdrawn: it loses states"):
            await own.update()
    found = (await app.admin.get("/api/v1/audit", params={"action": "fleet_job.create"})).json()["items"]
    assert [each["details"]["path"] for each in found] == ["own"]
