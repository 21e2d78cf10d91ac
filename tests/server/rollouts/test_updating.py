"""The update of a cloud-hosted runner: a fleet job with the image of the release, or the reason why a person does it."""

import msgspec
import pytest

from terracrew.api.deployments import DeploymentSettings
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import store
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import SYSTEM
from terracrew.server.releases import service as releases
from terracrew.server.rollouts.updating import RunnerUpdaters
from terracrew.server.runners import service as runners
from tests.server.releases.release_rows import new_release, runner_image
from tests.server.rollouts.rollout_rows import NEW, RolloutRows

pytestmark = pytest.mark.feature("V2.outdated", "V3.update")


async def by_hand(rollouts: RolloutRows, runner_id: str, image: str, **changes: object) -> tuple[str, str] | None:
    async def work(tx: Tx) -> tuple[str, str] | None:
        before = await store.hold(tx, runner_id)
        assert before is not None
        await store.save(tx, before, msgspec.structs.replace(before, **changes))
        runner = await runners.find(tx, rollouts.admin, runner_id, Verb.RUNNER_READ)
        found = await RunnerUpdaters(image).by_hand(tx, [runner], new_release(NEW))
        return None if runner_id not in found else (found[runner_id].reason, found[runner_id].command)

    return await rollouts.db.write(work)


async def test_a_cloud_hosted_runner_is_updated_by_the_server_unless_its_image_is_not_the_servers(
    rollouts: RolloutRows,
) -> None:
    runner_id, image = await rollouts.runner("payments/burst"), "registry.example/runner:{version}"
    assert await by_hand(rollouts, runner_id, image) is None
    reason, command = await by_hand(rollouts, runner_id, "registry.example/runner:1") or ("", "")
    assert (reason.partition(":")[0], command) == (f"there is no image of {NEW}", "")
    own = DeploymentSettings(image="registry.example/own:1")
    expected = ("its image is your own", "terracrew runner redeploy payments/burst --image IMAGE")
    assert await by_hand(rollouts, runner_id, image, settings=own) == expected
    expected = ("it is not deployed", "terracrew runner redeploy payments/burst")
    assert await by_hand(rollouts, runner_id, image, settings=DeploymentSettings(), status="failed") == expected


async def test_the_server_itself_queues_the_update_when_a_release_is_published(rollouts: RolloutRows) -> None:
    runner_id, release = await rollouts.runner("burst"), new_release(NEW, artifacts=[runner_image(NEW)])

    async def work(tx: Tx) -> dict[str, str]:
        await releases.publish(tx, SYSTEM, release)
        runner = await runners.find(tx, rollouts.admin, runner_id, Verb.RUNNER_READ)
        job = await RunnerUpdaters("").update(tx, SYSTEM, runner, NEW)
        assert (job.type, job.runner_id, job.identity_id != "") == ("UPDATE_WORKER", runner_id, True)
        return job.spec

    spec = await rollouts.db.write(work)
    assert (spec["version"], spec["image"]) == (NEW, runner_image(NEW).reference)
