"""A run of a group queues the jobs of its modules in order, skips what depends on a failure, and can be stopped and resumed."""

import asyncio
from typing import Any

import pytest

from terracrew.protocol.events import Output, Result
from terracrew.server.group_runs import store
from terracrew.server.group_runs.loop import GroupRuns
from terracrew.server.jobs.triggers import Triggers
from tests.builders.deliveries import RUNNING, fact
from tests.builders.job_rows import change_modules
from tests.server.application import Application
from tests.server.jobs.waiting_jobs import waiting
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.inputs.places import SOURCE, put_secret
from tests.server.tree.inputs.references import finish, refer

pytestmark = pytest.mark.feature("J6.groups")
RUNS = "/api/v1/groups/team/runs"
_LATE_STATE = """INSERT INTO states (id, module_id, version, status, job_id, attempt, event, origin, serial, lineage, sha256, size,
    content, created_at) SELECT 'sta_late', module_id, 1, 'current', id, 1, 99, 'engine', 1, 'x', 'x', 1, '', finished_at + 1
    FROM jobs WHERE id = :job"""


async def team(application: Application, *edges: str, **settings: Any) -> None:
    """The group `team`; the edge `b>a` is an input of its module b that is the output `id` of its module a."""
    admin = application.admin
    await admin.made("/api/v1/groups", {"path": "team/deep"}, parents=True)
    for name in sorted({name for edge in edges for name in edge.split(">")}):
        path = f"team/deep/{name}" if name == "b" else f"team/{name}"
        await admin.made("/api/v1/modules", {"path": path, "source": SOURCE, **settings})
    for user, source in (edge.split(">") for edge in edges if ">" in edge):
        place = "team/deep/b" if user == "b" else f"team/{user}"
        await refer(admin, place, "team/deep/b" if source == "b" else f"team/{source}", "id", source)


class Run:
    """A run of the group `team`, advanced by the test."""

    def __init__(self, runner: SimulatedRunner) -> None:
        self.runner, self.id = runner, ""

    async def begin(self, kind: str = "APPLY") -> "Run":
        self.id = (await self.runner.app.admin.made(RUNS, {"type": kind}))["id"]
        return self

    async def step(self) -> dict[str, Any]:
        """Advance as several servers do at the same time; the modules by name."""
        server = self.runner.server
        loops = [GroupRuns(server.db, server.keys, server.settings.local_roots) for _ in range(3)]
        await asyncio.gather(*(loop.step() for loop in loops))
        self.view = (await self.runner.app.admin.get(f"{RUNS}/{self.id}")).json()
        return {each["path"].rpartition("/")[2]: each for each in self.view["modules"]}

    async def statuses(self) -> dict[str, str]:
        return {name: each["status"] for name, each in (await self.step()).items()}

    async def end(self, name: str, *, fails: bool = False) -> None:
        job_id = (await self.step())[name]["job_id"]
        if fails:
            await (await self.runner.again(job_id)).deliver(RUNNING, fact(Result("FAILED", "out of luck")))
        else:
            await finish(self.runner, job_id, read={"id": Output(job_id)})


async def test_a_run_applies_the_modules_of_a_group_in_order_once(runner: SimulatedRunner) -> None:
    await team(runner.app, "b>a", "c>b", "d", triggers="auto")
    run = await Run(runner).begin()
    assert await run.statuses() == {"a": "RUNNING", "b": "WAITING", "c": "WAITING", "d": "RUNNING"}
    words = await runner.app.admin.refused("POST", "/api/v1/groups/team%2Fdeep/runs", 409, json={"type": "DESTROY"})
    assert "has started a run (APPLY) of `team`" in words
    await run.end("a")
    assert await run.statuses() == {"a": "SUCCEEDED", "b": "RUNNING", "c": "WAITING", "d": "RUNNING"}
    for name in ("d", "b", "c"):
        await run.end(name)
    assert set((await run.statuses()).values()) == {"SUCCEEDED"}
    assert run.view["status"] == "SUCCEEDED"
    server = runner.server
    await Triggers(server.db, server.keys, server.settings.local_roots).step()
    jobs = await runner.app.admin.listed("/api/v1/jobs")
    assert len(jobs) == 4, "modules with triggers: auto are not queued once more"
    assert {job["group_run_id"] for job in jobs} == {run.id}


async def test_what_depends_on_a_failed_module_is_not_run_and_a_resumed_run_repeats_only_the_rest(
    runner: SimulatedRunner,
) -> None:
    admin = runner.app.admin
    await team(runner.app, "b>a", "c>b", "d")
    run = await Run(runner).begin()
    await run.end("a")
    await run.end("b", fails=True)
    assert await run.statuses() == {"a": "SUCCEEDED", "b": "FAILED", "c": "SKIPPED", "d": "RUNNING"}
    found = await run.step()
    assert (found["b"]["message"], found["c"]["message"]) == (
        "out of luck",
        "`team/deep/b` failed, so it was not run",
    )
    assert "which has not ended" in await admin.refused("POST", f"{RUNS}/{run.id}/resume", 409)
    await run.end("d")
    await run.step()
    assert run.view["status"] == "FAILED"
    first = found["a"]["job_id"]
    assert (await admin.post(f"{RUNS}/{run.id}/resume")).status_code == 200
    found = await run.step()
    assert found["a"]["job_id"] == first, "what has succeeded is not repeated"
    assert {name: each["status"] for name, each in found.items()} == {
        "a": "SUCCEEDED",
        "b": "RUNNING",
        "c": "WAITING",
        "d": "SUCCEEDED",
    }
    await run.end("b")
    await run.end("c")
    await run.step()
    assert run.view["status"] == "SUCCEEDED"
    assert "this run is SUCCEEDED" in await admin.refused("POST", f"{RUNS}/{run.id}/resume", 409)


async def test_a_group_is_destroyed_in_reverse_order_without_what_has_nothing(runner: SimulatedRunner) -> None:
    await team(runner.app, "b>a", "c>b")
    run = await Run(runner).begin()
    for name in ("a", "b"):
        await run.end(name)
    await runner.app.admin.post(f"{RUNS}/{run.id}/stop")
    assert (await run.statuses())["c"] == "CANCELED"
    assert run.view["status"] == "CANCELED"
    await runner.server.db.write(lambda tx: change_modules(tx, "team/a", "team/deep/b", state_version=1))
    run = await Run(runner).begin("DESTROY")
    found = await run.step()
    assert (found["c"]["status"], found["c"]["message"]) == ("SUCCEEDED", "there is nothing to destroy")
    assert (found["b"]["status"], found["a"]["status"]) == ("RUNNING", "WAITING")
    await finish(runner, found["b"]["job_id"])
    assert (await run.statuses())["a"] == "RUNNING"


async def test_a_module_whose_outputs_were_not_kept_has_not_succeeded_for_those_that_use_them(
    runner: SimulatedRunner,
) -> None:
    """The outputs of an apply were too large to be kept. The next module was applied with those of an older apply, and the run
    said SUCCEEDED."""
    await team(runner.app, "b>a", "c")
    run = await Run(runner).begin()
    for name in ("a", "b", "c"):
        await run.end(name)
    assert set((await run.statuses()).values()) == {"SUCCEEDED"}
    run = await Run(runner).begin()
    found = await run.step()
    for name in ("a", "c"):
        await finish(runner, found[name]["job_id"])
    found = await run.step()
    assert {name: each["status"] for name, each in found.items()} == {"a": "FAILED", "b": "SKIPPED", "c": "SUCCEEDED"}
    assert found["a"]["message"].endswith("its outputs are not kept; other modules use them: apply it again")
    assert run.view["status"] == "FAILED"
    assert (await runner.app.admin.post(f"{RUNS}/{run.id}/resume")).status_code == 200
    await run.end("a")
    await run.end("b")
    await run.step()
    assert run.view["status"] == "SUCCEEDED"


@pytest.mark.parametrize("left", [0, 2])
async def test_what_a_destroy_of_some_resources_left_is_destroyed(runner: SimulatedRunner, left: int) -> None:
    """A run said that there was nothing to destroy after a DESTROY with `-target` had left two resources."""
    await team(runner.app, "a")
    made = await runner.app.admin.made("/api/v1/modules/team%2Fa/jobs", {"type": "DESTROY"})
    await finish(runner, made["id"], resources=left)
    found = await (await Run(runner).begin("DESTROY")).step()
    assert found["a"]["status"] == ("RUNNING" if left else "SUCCEEDED"), found["a"]["message"]


@pytest.mark.parametrize("late", ["job", "queued job", "state", ""])
async def test_what_was_changed_after_its_destroy_is_destroyed_again(runner: SimulatedRunner, late: str) -> None:
    """A module was skipped because its newest job was a DESTROY, although an older job of a lower priority was applied
    after that."""
    await team(runner.app, "a")
    path, db = "/api/v1/modules/team%2Fa/jobs", runner.server.db
    kinds = ("APPLY", "DESTROY") if "job" in late else ("DESTROY",)
    *older, destroyed = [
        (await runner.app.admin.made(path, {"type": kind, "priority": int(kind == "DESTROY")}))["id"] for kind in kinds
    ]
    await finish(runner, destroyed)
    await change_modules(db, "team/a", state_version=1)
    if late == "job":
        await finish(runner, older[0])
    if late == "state":
        await db.write(lambda tx: tx.run(_LATE_STATE, job=destroyed))
    found = await (await Run(runner).begin("DESTROY")).step()
    assert found["a"]["status"] == ("RUNNING" if late else "SUCCEEDED"), found["a"]["message"]


async def test_a_stopped_run_queues_nothing_more(runner: SimulatedRunner) -> None:
    admin = runner.app.admin
    await team(runner.app, "b>a", "d")
    run = await Run(runner).begin()
    found = await run.step()
    started = await runner.again(found["d"]["job_id"])
    await started.deliver(RUNNING)
    stopped = (await admin.post(f"{RUNS}/{run.id}/stop")).json()
    assert stopped["status"] == "RUNNING", "a job that has started ends by itself"
    assert await run.statuses() == {"a": "CANCELED", "b": "CANCELED", "d": "RUNNING"}
    await started.deliver(fact(Result("SUCCEEDED")))
    await run.step()
    assert run.view["status"] == "CANCELED"
    assert "has ended already" in await admin.refused("POST", f"{RUNS}/{run.id}/stop", 409)


async def test_the_jobs_of_a_run_need_the_present_rights_of_the_person_who_started_it(runner: SimulatedRunner) -> None:
    await team(runner.app, "b>a")
    operator = await runner.app.person("oleg", "operator", "team")
    run = Run(runner)
    run.id = (await operator.made(RUNS, {"type": "APPLY"}))["id"]
    await run.end("a")
    await runner.app.admin.patch("/api/v1/users/oleg", json={"is_disabled": True})
    found = await run.step()
    assert found["b"]["status"] == "FAILED"
    assert "oleg, who started the run, may not run jobs any more" in found["b"]["message"]
    assert run.view["status"] == "FAILED"


async def test_a_run_waits_for_approvals_and_a_declined_plan_fails_it(runner: SimulatedRunner) -> None:
    admin = runner.app.admin
    await team(runner.app, "b>a", needs_approval=True)
    run = await Run(runner).begin()
    job_id = (await run.step())["a"]["job_id"]
    await (await runner.again(job_id)).deliver(RUNNING, waiting())
    found = await run.step()
    assert (found["a"]["status"], found["a"]["job_status"]) == ("RUNNING", "AWAITING_APPROVAL")
    assert found["a"]["reason"]["code"] == "approval"
    assert found["b"]["status"] == "WAITING"
    answer = await admin.post(f"/api/v1/jobs/{job_id}/decline", json={"plan": 1, "reason": "not today"})
    assert answer.is_success, answer.text
    found = await run.step()
    assert found["a"]["message"].startswith("its plan was declined")
    assert (found["b"]["status"], run.view["status"]) == ("SKIPPED", "FAILED")


async def test_a_server_that_ends_while_it_queues_jobs_neither_loses_nor_repeats_them(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jobs and the rows that remember them are one transaction: the error stands for the end of the process."""
    await team(runner.app, "b>a", "c")
    run = await Run(runner).begin()
    with monkeypatch.context() as patched:
        patched.setattr(store, "save_modules", _end_process)
        await run.step()
    assert await runner.app.admin.listed("/api/v1/jobs") == []
    assert await run.statuses() == {"a": "RUNNING", "b": "WAITING", "c": "RUNNING"}
    assert len(await runner.app.admin.listed("/api/v1/jobs")) == 2


async def _end_process(*_: Any) -> None:
    raise RuntimeError("killed")


async def test_a_run_says_why_its_jobs_wait(runner: SimulatedRunner) -> None:
    await team(runner.app, "a")
    await runner.app.admin.made("/api/v1/modules", {"path": "elsewhere", "source": SOURCE})
    await refer(runner.app.admin, "team/a", "elsewhere")
    found = await (await Run(runner).begin()).step()
    assert (found["a"]["job_status"], found["a"]["reason"]["code"]) == ("QUEUED", "dependency")


async def test_bad_requests_for_runs_are_refused(application: Application) -> None:
    admin = application.admin
    await admin.made("/api/v1/groups", {"path": "empty"})
    assert "has no modules" in await admin.refused("POST", "/api/v1/groups/empty/runs", 409, json={"type": "APPLY"})
    await team(application, "a")
    await put_secret(admin, "team", "password")
    for body in ({"type": "MELT"}, {}, {"type": "APPLY", "force": True}):
        await admin.refused("POST", RUNS, 400, json=body)
    viewer = await application.person("vera", "viewer", "team")
    await viewer.refused("POST", RUNS, 403, json={"type": "APPLY"})
    made = await admin.made(RUNS, {"type": "APPLY"})
    await viewer.refused("POST", f"{RUNS}/{made['id']}/stop", 403)
    assert (await viewer.get(f"{RUNS}/{made['id']}")).status_code == 200
    for run_id in ("grn_" + "0" * 32, "nonsense", made["id"]):
        place = "/api/v1/groups/empty/runs" if run_id == made["id"] else RUNS
        assert (await admin.get(f"{place}/{run_id}")).status_code in (400, 404)
    [listed] = await admin.listed(RUNS)
    assert (listed["id"], listed["started_by_name"], listed["status"]) == (made["id"], "admin", "RUNNING")


async def test_two_requests_at_the_same_time_start_one_run(application: Application) -> None:
    await team(application, "a", "b")
    places = [RUNS, "/api/v1/groups/team%2Fdeep/runs", RUNS, "/api/v1/groups/%2F/runs"]
    answers = await asyncio.gather(*(application.admin.post(place, json={"type": "APPLY"}) for place in places))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
