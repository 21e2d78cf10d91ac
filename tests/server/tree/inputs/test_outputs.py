"""Outputs of other modules as inputs: they are resolved when a job starts, wait until they exist, and make no cycle."""

import asyncio

import pytest

from terracrew.protocol.events import Output, Result
from tests.builders.deliveries import RUNNING, fact
from tests.server.application import Application
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.inputs.places import granted, put_secret, tree, tree_again
from tests.server.tree.inputs.references import APP, NETWORK, apply, destroy, finish, pair, refer, reference

SENSITIVE = "a-sensitive-output-value"


@pytest.mark.feature("J6.outputs", "S6.dependency")
async def test_a_job_waits_for_the_output_that_it_needs_says_so_and_gets_it(runner: SimulatedRunner) -> None:
    admin = runner.app.admin
    network, app = await pair(runner.app)
    await refer(admin, APP, NETWORK, "zones", "ZONES", target="environment")
    made = await admin.made(f"/api/v1/modules/{app}/jobs", {"type": "PLAN"})
    assert await runner.instance.claim(made["id"], 1) is None
    found = (await admin.get(f"/api/v1/jobs/{made['id']}")).json()
    assert (found["status"], found["reason"]["code"]) == ("QUEUED", "dependency")
    assert f"of module {NETWORK}, which has no outputs yet" in found["reason"]["text"]
    await apply(runner, network, id=Output("vpc-1"), zones=Output(["a", "b"]))
    spec = (await runner.instance.has(made["id"], 1)).spec
    assert spec.inputs == {"vpc_id": "vpc-1"}
    assert spec.environment == {"ZONES": '["a","b"]'}
    used = {each["name"]: each for each in (await admin.get(f"/api/v1/jobs/{made['id']}/inputs")).json()["items"]}
    assert (used["vpc_id"]["source_module"], used["vpc_id"]["source_output"]) == (NETWORK, "id")
    assert used["vpc_id"]["source_job_id"].startswith("job_")


@pytest.mark.feature("S6.dependency")
async def test_the_scheduler_does_not_offer_a_job_that_waits_for_an_output(runner: SimulatedRunner) -> None:
    from terracrew.server.scheduling import reads

    network, app = await pair(runner.app)
    db = runner.server.db
    assert app in (await db.read(reads.busy))[0]
    await apply(runner, network, id=Output("vpc-1"))
    assert app not in (await db.read(reads.busy))[0]
    await destroy(runner, network)
    assert app in (await db.read(reads.busy))[0], "what was destroyed has no outputs any more"


@pytest.mark.feature("J6.outputs", "S6.dependency")
async def test_a_job_waits_while_a_module_has_only_the_outputs_of_an_older_job(runner: SimulatedRunner) -> None:
    """The outputs of an apply were too large to be kept. The module that uses one was applied with that of the apply before."""
    admin = runner.app.admin
    network, app = await pair(runner.app)
    await apply(runner, network, id=Output("vpc-1"))
    await apply(runner, network)  # its outputs were not kept
    made = await admin.made(f"/api/v1/modules/{app}/jobs", {"type": "APPLY"})
    assert await runner.instance.claim(made["id"], 1) is None
    reason = (await admin.get(f"/api/v1/jobs/{made['id']}")).json()["reason"]
    assert reason["code"] == "dependency"
    assert f"of module {NETWORK}, and its outputs are those of an older job: apply it again" in reason["text"]
    [need] = await admin.listed(f"/api/v1/modules/{app}/dependencies", direction="needs")
    assert (need["is_waited_for"], need["is_outdated"]) == (True, True)
    await apply(runner, network, id=Output("vpc-2"))
    assert (await runner.instance.has(made["id"], 1)).spec.inputs == {"vpc_id": "vpc-2"}
    [need] = await admin.listed(f"/api/v1/modules/{app}/dependencies", direction="needs")
    assert (need["is_waited_for"], need["is_outdated"]) == (False, False)


@pytest.mark.feature("J6.outputs", "S6.dependency")
async def test_an_apply_that_failed_or_runs_leaves_the_outputs_as_they_are(runner: SimulatedRunner) -> None:
    """Only an apply that counts as done makes users wait: a failed one may have changed nothing that they use."""
    network, app = await pair(runner.app)
    await apply(runner, network, id=Output("vpc-1"))
    made = await runner.app.admin.made(f"/api/v1/modules/{network}/jobs", {"type": "APPLY"})
    attempt = await runner.again(made["id"])
    await attempt.deliver(RUNNING)
    await attempt.begin()
    assert (await granted(runner, app))[0].inputs == {"vpc_id": "vpc-1"}
    await attempt.deliver(fact(Result("FAILED", "out of luck")))
    [need] = await runner.app.admin.listed(f"/api/v1/modules/{app}/dependencies", direction="needs")
    assert not need["is_waited_for"]


@pytest.mark.feature("J6.outputs")
@pytest.mark.parametrize("left", [0, 2])
async def test_a_destroy_of_some_resources_leaves_outputs_that_are_marked_as_older(
    runner: SimulatedRunner, left: int
) -> None:
    """A DESTROY with `-target` counted as the end of everything, so the outputs were hidden as if nothing existed."""
    network, app = await pair(runner.app)
    await apply(runner, network, id=Output("vpc-1"))
    made = await runner.app.admin.made(f"/api/v1/modules/{network}/jobs", {"type": "DESTROY"})
    await finish(runner, made["id"], resources=left)
    found = (await runner.app.admin.get(f"/api/v1/modules/{network}/outputs")).json()
    assert set(found["outputs"]) == ({"id"} if left else set())
    assert (found["outdated_by"] == made["id"]) == bool(left)
    waiting = await runner.app.admin.made(f"/api/v1/modules/{app}/jobs", {"type": "PLAN"})
    reason = (await runner.app.admin.get(f"/api/v1/jobs/{waiting['id']}")).json()["reason"]
    assert ("those of an older job: apply it again" if left else "which has no outputs yet") in reason["text"]


@pytest.mark.feature("J3.steps", "J6.outputs")
@pytest.mark.parametrize("left", [0, 2])
async def test_a_destroy_that_leaves_nothing_leaves_no_outputs_and_one_that_leaves_something_has_its_own(
    runner: SimulatedRunner, left: int
) -> None:
    """The outputs that a DESTROY reads may be stored at the same moment at which it ends."""
    network, app = await pair(runner.app)
    await apply(runner, network, id=Output("vpc-1"), zones=Output(["a"]))
    made = await runner.app.admin.made(f"/api/v1/modules/{network}/jobs", {"type": "DESTROY"})
    remaining = {"id": Output("vpc-1")} if left else {}
    await finish(runner, made["id"], resources=left, read=remaining)
    found = (await runner.app.admin.get(f"/api/v1/modules/{network}/outputs")).json()
    assert (set(found["outputs"]), found["outdated_by"]) == (set(remaining), None)
    waiting = await runner.app.admin.made(f"/api/v1/modules/{app}/jobs", {"type": "PLAN"})
    if left:
        assert (await runner.instance.has(waiting["id"], 1)).spec.inputs == {"vpc_id": "vpc-1"}
    else:
        reason = (await runner.app.admin.get(f"/api/v1/jobs/{waiting['id']}")).json()["reason"]
        assert "which has no outputs yet" in reason["text"]


@pytest.mark.feature("J6.outputs", "J12.sensitive")
async def test_a_sensitive_output_stays_sensitive(runner: SimulatedRunner) -> None:
    from terracrew.server.jobs import job_inputs, store

    network, app = await pair(runner.app)
    await apply(runner, network, id=Output({"dsn": SENSITIVE}, is_sensitive=True))
    spec, job = await granted(runner, app)
    assert spec.inputs == {"vpc_id": {"dsn": SENSITIVE}}
    assert spec.secrets == [SENSITIVE]
    for path in ("/api/v1/inputs?place=" + APP, f"/api/v1/jobs/{job['id']}/inputs", f"/dashboard/modules/{app}"):
        assert SENSITIVE not in (await runner.app.admin.get(path)).text
    keys, db = runner.server.keys, runner.server.db
    found = await db.read(lambda tx: store.get(tx, job["id"]))
    assert SENSITIVE in (await db.read(lambda tx: job_inputs.values_to_mask(tx, keys, [found])))[found.id]


@pytest.mark.feature("J6.outputs")
async def test_an_output_that_vanished_fails_the_job_with_a_sentence(runner: SimulatedRunner) -> None:
    admin = runner.app.admin
    network, app = await pair(runner.app)
    await apply(runner, network, other=Output("x"))
    made = await admin.made(f"/api/v1/modules/{app}/jobs", {"type": "PLAN"})
    assert await runner.instance.claim(made["id"], 1) is None
    found = (await admin.get(f"/api/v1/jobs/{made['id']}")).json()
    assert found["status"] == "FAILED"
    assert found["message"].startswith(f"module `{NETWORK}` has no output id, which is the input vpc_id, so nothing")
    assert (await admin.delete(f"/api/v1/modules/{network}", params={"force": True})).status_code == 204
    made = await admin.made(f"/api/v1/modules/{app}/jobs", {"type": "PLAN"})
    assert await runner.instance.claim(made["id"], 1) is None
    found = (await admin.get(f"/api/v1/jobs/{made['id']}")).json()
    assert "the module whose output id is the input vpc_id was deleted" in found["message"]


@pytest.mark.feature("J6.outputs", "J6.inputs")
async def test_a_job_with_its_own_value_does_not_need_the_output_that_vanished(runner: SimulatedRunner) -> None:
    network, app = await pair(runner.app)
    await apply(runner, network, other=Output("x"))
    wanted = {"type": "PLAN", "inputs": {"vpc_id": "of the job"}}
    made = await runner.app.admin.made(f"/api/v1/modules/{app}/jobs", wanted)
    assert (await runner.instance.has(made["id"], 1)).spec.inputs == {"vpc_id": "of the job"}


@pytest.mark.feature("J6.outputs")
async def test_a_reference_that_would_make_a_cycle_is_refused(application: Application) -> None:
    admin = application.admin
    await pair(application)
    await tree_again(application, "top")
    await refer(admin, "platform/network/top", APP)
    for place, module in ((NETWORK, APP), (NETWORK, "platform/network/top"), (NETWORK, NETWORK), (APP, APP)):
        body = reference(place, module, name="other")
        assert "a cycle could never be applied" in await admin.refused("POST", "/api/v1/inputs", 409, json=body)
    # What no longer refers makes no cycle.
    await admin.delete("/api/v1/inputs", params={"place": APP, "name": "vpc_id"})
    await refer(admin, NETWORK, APP)
    found = await admin.listed("/api/v1/inputs", place=NETWORK)
    assert [each["source_module"] for each in found] == [APP]


@pytest.mark.feature("J6.outputs")
async def test_references_that_are_made_at_the_same_time_make_no_cycle_together(application: Application) -> None:
    """Invariant: the modules of an organization and their references are a graph without cycles, whoever writes them when."""
    await tree(application)
    names = ["a", "b", "c", "d"]
    paths = [(await tree_again(application, name))["path"] for name in names]
    wanted = [(place, module) for place in paths for module in paths if place != module]
    bodies = [reference(place, module, name=module.split("/")[-1]) for place, module in wanted]
    answers = await asyncio.gather(*(application.admin.post("/api/v1/inputs", json=body) for body in bodies))
    assert {answer.status_code for answer in answers} == {200, 409}
    made = [pair for pair, answer in zip(wanted, answers, strict=True) if answer.status_code == 200]
    left = {place for place, _ in made} | {module for _, module in made}
    while left:  # remove what needs nothing that is left, until nothing is
        free = {each for each in left if not any(place == each and module in left for place, module in made)}
        assert free, f"a cycle among {left}: {made}"
        left -= free


@pytest.mark.feature("J6.outputs", "X3.roles")
async def test_a_reference_needs_the_right_to_read_the_other_module(application: Application) -> None:
    await tree(application)
    await application.admin.made("/api/v1/groups", {"path": "other"})
    body = {"path": "other/app", "source": {"kind": "local", "path": "/srv/sources/vpc"}}
    await application.admin.made("/api/v1/modules", body)
    owner = await application.person("olga", "owner", "other")
    words = await owner.refused("POST", "/api/v1/inputs", 404, json=reference("other/app", NETWORK))
    assert "there is no module" in words
    for bad in (
        reference("other", "other/app"),
        reference("other/app", "other/app", target="file"),
        reference("other/app", "other/app") | {"value": 1},
        reference("other/app", "other/app", output=""),
        reference("other/app", "other/app", output="a\0b"),
        reference("other/app", "other\0app"),
    ):
        assert (await owner.post("/api/v1/inputs", json=bad)).status_code in (400, 409)
    await put_secret(owner, "other/app", "vpc_id")
    viewer = await application.person("vera", "viewer", "platform")
    await viewer.refused("POST", "/api/v1/inputs", 403, json=reference(NETWORK, NETWORK))
