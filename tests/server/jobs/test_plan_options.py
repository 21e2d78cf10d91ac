"""Jobs with the options of a plan: they reach the engine, belong to the job, and a part of a module is not taken for all of it."""

from functools import partial
from typing import Any

import pytest

from terracrew.api.jobs import NewJob
from terracrew.api.plan_options import MAX_ADDRESS_CHARACTERS, MAX_ADDRESSES, PlanOptions
from terracrew.errors import Conflict
from terracrew.protocol.events import Output, Result
from terracrew.protocol.spec import JobType, Step
from terracrew.server.db import servers
from terracrew.server.db.seam import Database
from terracrew.server.jobs import approvals, create, plan_options
from terracrew.server.jobs.attempts import received_states
from terracrew.server.jobs.triggers import Triggers
from tests.builders.deliveries import RUNNING, delivery, fact
from tests.builders.job_rows import KEYS, begin_code, change_jobs
from tests.server.dashboard.visitor import logged_in
from tests.server.jobs.changes import Change
from tests.server.jobs.plans.planned_jobs import Planned
from tests.server.jobs.waiting_jobs import waiting
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.inputs.places import SOURCE
from tests.server.tree.inputs.references import apply, finish, refer

WEB, NETWORK = 'aws_instance.web["a b"]', "module.network"
SOME: dict[str, Any] = {"targets": [WEB, NETWORK], "replace": [WEB], "refresh": False}
SOME_FLAGS = [f"-target={WEB}", f"-target={NETWORK}", f"-replace={WEB}", "-refresh=false"]


async def jobs_of(runner: SimulatedRunner, **module: Any) -> str:
    made = await runner.app.admin.made("/api/v1/modules", {"path": "app", "source": SOURCE, **module})
    return f"/api/v1/modules/{made['id']}/jobs"


@pytest.mark.feature("J7.options")
async def test_the_options_reach_the_engine_and_every_repetition(runner: SimulatedRunner) -> None:
    admin, jobs = runner.app.admin, await jobs_of(runner)
    made = await admin.made(jobs, {"type": "APPLY", **SOME})
    assert {name: made[name] for name in SOME} == SOME
    attempt, spec = await runner.granted(made["id"])
    assert spec.flags == {Step.PLAN: SOME_FLAGS}
    await attempt.lose()
    attempt, spec = await runner.granted(made["id"], 2)
    assert spec.flags == {Step.PLAN: SOME_FLAGS}
    await attempt.deliver(RUNNING, fact(Result("FAILED", "no")))
    again = await admin.made(f"/api/v1/jobs/{made['id']}/rerun", None)
    assert {name: again[name] for name in SOME} == SOME
    [entry, _] = await admin.listed("/api/v1/audit", action="job.run")
    assert {name: entry["details"][name] for name in SOME} == SOME


@pytest.mark.feature("J7.options")
async def test_a_refresh_only_apply_has_the_flag_and_is_described(runner: SimulatedRunner) -> None:
    made = await runner.app.admin.made(await jobs_of(runner), {"type": "APPLY", "is_refresh_only": True})
    _, spec = await runner.granted(made["id"])
    assert (spec.type, spec.is_refresh_only, spec.flags) == ("APPLY", True, {Step.PLAN: ["-refresh-only"]})


@pytest.mark.feature("J7.options")
async def test_the_options_come_after_the_flags_of_the_module(runner: SimulatedRunner) -> None:
    jobs = await jobs_of(runner)
    flags = {"flags": {"tofu": ["-refresh=true"]}}
    answer = await runner.app.admin.put("/api/v1/modules/app/steps/plan", json=flags)
    assert answer.status_code == 200, answer.text
    made = await runner.app.admin.made(jobs, {"type": "PLAN", "refresh": False})
    _, spec = await runner.granted(made["id"])
    assert spec.flags == {Step.PLAN: ["-refresh=true", "-refresh=false"]}


@pytest.mark.feature("J7.options")
async def test_what_contradicts_itself_or_is_no_address_is_refused_with_words(runner: SimulatedRunner) -> None:
    admin, jobs = runner.app.admin, await jobs_of(runner)
    cases: list[tuple[dict[str, Any], str]] = [
        (
            {"type": "APPLY", "is_refresh_only": True, "replace": [WEB]},
            "replace: a refresh-only job changes no resource",
        ),
        ({"type": "DESTROY", "replace": [WEB]}, "replace: a destroy creates nothing again"),
        ({"type": "PLAN", "is_destroy_plan": True, "replace": [WEB]}, "replace: a destroy creates"),
        ({"type": "PLAN", "is_refresh_only": True, "refresh": False}, "refresh: a refresh-only job does nothing but"),
        ({"type": "DESTROY", "is_refresh_only": True}, "is_refresh_only: a job that destroys"),
        ({"type": "PLAN", "is_destroy_plan": True, "is_refresh_only": True}, "is_refresh_only: a job that destroys"),
        ({"type": "PLAN", "targets": [NETWORK] * (MAX_ADDRESSES + 1)}, "targets"),
        ({"type": "PLAN", "targets": ["a" * (MAX_ADDRESS_CHARACTERS + 1)]}, "targets"),
        ({"type": "PLAN", "targets": [""]}, "targets"),
        ({"type": "PLAN", "targets": ["a\0b"]}, "a NUL character"),
    ]
    addresses = ("a\nb", "a\x1b[31m", " a", "a\u202eb")
    cases += [({"type": "PLAN", name: [each]}, f"{name}: ") for name in ("targets", "replace") for each in addresses]
    for body, words in cases:
        assert words in await admin.refused("POST", jobs, 400, json=body), body
    assert await admin.listed("/api/v1/jobs") == []


def test_an_address_cannot_become_another_flag() -> None:
    assert plan_options.flags(PlanOptions(targets=["-destroy"], replace=["-out=x"])) == [
        "-target=-destroy",
        "-replace=-out=x",
    ]


@pytest.mark.feature("J7.options")
async def test_an_engine_without_these_options_refuses_them(runner: SimulatedRunner) -> None:
    admin, jobs = runner.app.admin, await jobs_of(runner, engine="pulumi")
    cases = (("targets", [WEB]), ("replace", [WEB]), ("refresh", False), ("is_refresh_only", True))
    for name, value in cases:
        words = await admin.refused("POST", jobs, 400, json={"type": "APPLY", name: value})
        assert words.startswith(f"{name}: pulumi, the engine of `app`,"), words
    assert (await admin.post(jobs, json={"type": "APPLY", "refresh": True, "targets": []})).status_code == 201


@pytest.mark.feature("J7.options")
async def test_a_key_that_was_used_for_a_whole_job_is_not_used_for_a_part(runner: SimulatedRunner) -> None:
    admin, jobs = runner.app.admin, await jobs_of(runner)
    for body in ({"targets": [WEB]}, {"replace": [WEB]}, {"refresh": False}, {"is_refresh_only": True}):
        key = {"Idempotency-Key": str(body)}
        first = await admin.post(jobs, json={"type": "APPLY", **body}, headers=key)
        assert (await admin.post(jobs, json={"type": "APPLY", **body}, headers=key)).json() == first.json()
        await admin.refused("POST", jobs, 409, json={"type": "APPLY"}, headers=key)


@pytest.mark.feature("J7.options")
async def test_no_such_job_is_made_while_a_server_would_leave_the_options_out(database: Database) -> None:
    """A server of an older version claims it, too, and would apply everything."""
    planned = await Planned.make(database)
    who = await planned.somebody("oscar")
    await database.write(lambda tx: servers.renew(tx, "srv_old", plan_options.MIN_MIGRATION - 1, seconds=60))
    for asked in (
        NewJob(JobType.PLAN, targets=[WEB]),
        NewJob(JobType.APPLY, replace=[WEB]),
        NewJob(JobType.PLAN, refresh=False),
        NewJob(JobType.APPLY, is_refresh_only=True),
    ):
        request = create.JobRequest(who, planned.module, asked)
        [refused] = await database.write(partial(create.create_all, items=[request], keys=KEYS, roots=[]))
        assert isinstance(refused, Conflict), asked
        assert "srv_old" in refused.message
    await planned.create(who, NewJob(JobType.PLAN, is_refresh_only=True))  # it knows these plans
    await planned.create(who, NewJob(JobType.APPLY))


@pytest.mark.feature("J8.plan-first")
async def test_the_job_that_applies_a_plan_has_its_options(database: Database) -> None:
    planned = await Planned.make(database, **SOME)
    job = await planned.apply(await planned.somebody("oscar"))
    assert (job.type, job.targets, job.replace, job.refresh) == ("APPLY", [WEB, NETWORK], [WEB], False)
    granted = await planned.runner.has(job.id)
    assert granted.spec.resume is not None
    assert granted.spec.flags == {Step.PLAN: SOME_FLAGS}, "a plan that is made again is the same one"


@pytest.mark.feature("O3.doubt", "J7.options")
@pytest.mark.parametrize("options", [{}, {"targets": [WEB]}, {"is_refresh_only": True}])
async def test_a_change_of_a_part_leaves_the_module_in_doubt(change: Change, options: dict[str, Any]) -> None:
    """What a plan of a part shows is not everything that a lost attempt may have made."""
    await change.gone(last=change.next - 1)
    if options:
        await change_jobs(change.rows.db, change.job_id, **options)
    ref = await change.start(2)
    assert await change.code(ref) == "approval"
    module = await change.rows.db.read(lambda tx: received_states.module_facts(tx, change.module))
    await change.take(delivery(ref, 2, waiting(module.state_version)))
    await approvals.approve(change.rows.db, change.registry, change.admin, change.job_id, 2, [change.ref])
    ref = await change.start(3)
    assert await begin_code(change.rows.db, ref, 0, 2, change.registry) == "begun"
    assert (await change.attempt()).is_in_doubt is bool(options)


@pytest.mark.feature("J6.triggers")
@pytest.mark.parametrize("options", [{}, {"targets": [WEB]}, {"is_refresh_only": True}])
async def test_a_module_is_still_applied_for_a_changed_output_after_a_change_of_a_part(
    runner: SimulatedRunner, options: dict[str, Any]
) -> None:
    admin = runner.app.admin
    made = {
        name: (await admin.made("/api/v1/modules", {"path": name, "source": SOURCE, "triggers": "auto"}))["id"]
        for name in ("a", "b")
    }
    await refer(admin, "b", "a", "id", "vpc")
    await apply(runner, made["a"], id=Output(1))
    part = await admin.made(f"/api/v1/modules/{made['b']}/jobs", {"type": "APPLY", **options})
    await finish(runner, part["id"], read={"id": Output(1)})
    server = runner.server
    await Triggers(server.db, server.keys, server.settings.local_roots).step()
    queued = await admin.listed("/api/v1/jobs", status="QUEUED")
    assert [(each["module_path"], each["is_refresh_only"]) for each in queued] == ([("b", False)] if options else [])


@pytest.mark.feature("J15.own")
@pytest.mark.parametrize(("targets", "is_waiting"), [([], True), ([WEB], False)])
async def test_only_a_destroy_of_everything_takes_the_outputs_away(
    runner: SimulatedRunner, targets: list[str], is_waiting: bool
) -> None:
    """A module with a backend of its own has no state here that says what is left."""
    admin = runner.app.admin
    made = {
        name: (await admin.made("/api/v1/modules", {"path": name, "source": SOURCE, "backend": backend}))["id"]
        for name, backend in (("a", "own"), ("b", "terracrew"))
    }
    await refer(admin, "b", "a", "id", "vpc")
    await apply(runner, made["a"], id=Output(1))
    job = await admin.made(f"/api/v1/modules/{made['a']}/jobs", {"type": "DESTROY", "targets": targets})
    await finish(runner, job["id"], read={"id": Output(1)} if targets else None)
    user = await admin.made(f"/api/v1/modules/{made['b']}/jobs", {"type": "APPLY"})
    claimed = await runner.instance.claim(user["id"])
    assert (claimed is None) is is_waiting


@pytest.mark.feature("J7.options")
async def test_the_page_of_a_job_says_what_it_is_limited_to(runner: SimulatedRunner) -> None:
    admin, jobs = runner.app.admin, await jobs_of(runner)
    someone = await logged_in(runner.app)
    made = await admin.made(jobs, {"type": "PLAN", **SOME, "targets": ["module.a", "aws_s3.<b>"]})
    page = await someone.see(f"/dashboard/jobs/{made['id']}")
    assert '<dt>Only</dt><dd class="plan-option">module.a, aws_s3.&lt;b&gt;</dd>' in page
    assert "<dt>Replaces</dt>" in page
    assert "left out: the plan relies on the state alone" in page
    made = await admin.made(jobs, {"type": "APPLY", "is_refresh_only": True})
    page = await someone.see(f"/dashboard/jobs/{made['id']}")
    assert "Refresh-only apply" in page
    assert "plan-option" not in page


@pytest.mark.feature("J5.archive")
async def test_an_executor_is_told_that_the_source_is_the_jobs_own(runner: SimulatedRunner) -> None:
    """It may then have a `cloud` block for the server under a name that only its sender knows."""
    admin, jobs = runner.app.admin, await jobs_of(runner)
    for own in ({}, {"source": {"kind": "local", "path": SOURCE["path"]}}):
        made = await admin.made(jobs, {"type": "PLAN", **own})
        attempt, spec = await runner.granted(made["id"])
        assert spec.has_own_source is bool(own)
        await attempt.deliver(RUNNING, fact(Result("FAILED", "no")))
