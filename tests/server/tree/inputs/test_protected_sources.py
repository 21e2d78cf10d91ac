"""What others use is not destroyed or deleted unawares, and they can still be destroyed when it is gone."""

import pytest

from terracrew.protocol.events import Output, PlanSummary
from tests.builders.deliveries import RUNNING, fact
from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.inputs.places import tree_again
from tests.server.tree.inputs.references import APP, NETWORK, apply, destroy, pair, refer

pytestmark = pytest.mark.feature("J6.outputs", "S6.dependency")
USED = f"1 module uses its outputs: {APP}"


async def test_a_module_whose_outputs_are_used_is_deleted_only_by_force(application: Application) -> None:
    """It was deleted at once, and the modules that used it could not even be destroyed."""
    network, app = await pair(application)
    admin = application.admin
    refused = await admin.delete(f"/api/v1/modules/{network}")
    assert (refused.status_code, USED in refused.json()["detail"]) == (409, True)
    assert (await admin.get(f"/api/v1/modules/{network}")).json()["used_by"] == [APP]
    assert (await admin.get(f"/api/v1/modules/{app}")).json()["used_by"] == []
    assert (await admin.delete(f"/api/v1/modules/{network}", params={"force": "true"})).is_success


async def test_a_module_that_the_reader_may_not_see_is_counted_and_not_named(application: Application) -> None:
    network, _ = await pair(application)
    await tree_again(application, "more")
    await refer(application.admin, "platform/network/more", NETWORK)

    viewer = await application.person("vera")
    await application.admin.made(
        "/api/v1/roles", {"principal": "vera", "role": "viewer", "path": NETWORK, "kind": "module"}
    )
    hidden = "a module that you may not see"
    assert (await viewer.get(f"/api/v1/modules/{network}")).json()["used_by"] == [hidden, hidden]


@pytest.mark.parametrize("kind", [{"type": "DESTROY"}, {"type": "PLAN", "is_destroy_plan": True}])
async def test_a_module_is_destroyed_with_the_last_values_after_its_source_was_destroyed(
    runner: SimulatedRunner, kind: dict[str, object]
) -> None:
    """Its destroy waited for outputs of a module that had been destroyed before."""
    network, app = await pair(runner.app)
    await apply(runner, network, id=Output("vpc-1"))
    await destroy(runner, network)
    made = await runner.app.admin.made(f"/api/v1/modules/{app}/jobs", kind)
    reason = (await runner.app.admin.get(f"/api/v1/jobs/{made['id']}")).json()["reason"]
    assert reason is None or reason["code"] != "dependency"
    assert (await runner.instance.has(made["id"], 1)).spec.inputs == {"vpc_id": "vpc-1"}


async def test_an_apply_still_waits_for_a_source_that_was_destroyed(runner: SimulatedRunner) -> None:
    from terracrew.server.scheduling import reads

    network, app = await pair(runner.app)
    await apply(runner, network, id=Output("vpc-1"))
    await destroy(runner, network)
    made = await runner.app.admin.made(f"/api/v1/modules/{app}/jobs", {"type": "APPLY"})
    assert await runner.instance.claim(made["id"], 1) is None
    assert app in (await runner.server.db.read(reads.busy))[0]
    await runner.app.admin.post(f"/api/v1/jobs/{made['id']}/cancel", json={})
    await runner.app.admin.made(f"/api/v1/modules/{app}/jobs", {"type": "DESTROY"})
    assert app not in (await runner.server.db.read(reads.busy))[0], "its next job does not wait"


async def test_a_module_is_destroyed_with_the_last_values_after_its_source_was_deleted(runner: SimulatedRunner) -> None:
    """The job failed: "the module whose output id is the input vpc_id was deleted, so nothing was started"."""
    network, app = await pair(runner.app)
    secret = "a-password-that-nobody-may-see"
    await refer(runner.app.admin, APP, NETWORK, "password", "password")
    await apply(runner, network, id=Output("vpc-1"), password=Output(secret, is_sensitive=True))
    await destroy(runner, network)
    gone = await runner.app.admin.delete(f"/api/v1/modules/{network}", params={"force": "true"})
    assert gone.is_success, gone.text
    made = await runner.app.admin.made(f"/api/v1/modules/{app}/jobs", {"type": "DESTROY"})
    granted = await runner.instance.has(made["id"], 1)
    assert granted.spec.inputs == {"vpc_id": "vpc-1", "password": secret}
    assert secret in granted.spec.secrets


async def test_the_page_and_the_plan_of_a_destroy_name_who_uses_the_outputs(runner: SimulatedRunner) -> None:
    network, _ = await pair(runner.app)
    await apply(runner, network, id=Output("vpc-1"))
    someone = await logged_in(runner.app)
    assert USED in await someone.see(f"/dashboard/modules/{network}/destroy")
    for kind in ({"type": "DESTROY"}, {"type": "PLAN", "is_destroy_plan": True}):
        made = await runner.app.admin.made(f"/api/v1/modules/{network}/jobs", kind)
        assert USED in await someone.see_job(made["id"])
        assert (await runner.app.admin.get(f"/api/v1/jobs/{made['id']}")).json()["used_by"] == [APP]
        await runner.app.admin.post(f"/api/v1/jobs/{made['id']}/cancel", json={})
    made = await runner.app.admin.made(f"/api/v1/modules/{network}/jobs", {"type": "APPLY"})
    attempt = await runner.again(made["id"])
    await attempt.deliver(RUNNING, fact(PlanSummary(change=1, existing=3)))
    assert (await runner.app.admin.get(f"/api/v1/jobs/{made['id']}")).json()["used_by"] == [], "it destroys nothing"
    await attempt.deliver(fact(PlanSummary(destroy=3, existing=3)))
    assert (await runner.app.admin.get(f"/api/v1/jobs/{made['id']}")).json()["used_by"] == [APP]
