"""What an attempt changed before it was cut short is kept as a list, and the next job can import it."""

from typing import Any

import msgspec
import pytest

from terracrew.protocol.events import KeptPlan, Result
from terracrew.protocol.spec import Step
from terracrew.server.jobs.lost_resources.search import LostResourceSearch
from tests.builders.deliveries import APPLIED, RUNNING, fact
from tests.builders.job_rows import change_attempts, change_groups, change_jobs, change_modules, change_organizations
from tests.server.application import on_one
from tests.server.jobs.lost_resources.cut_short_attempts import LINES, cut_short, printed
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner
from tests.server.state.checkpoints import checkpoint, resource


async def change_engine(runner: SimulatedRunner, module_id: str, engine: str) -> None:
    await change_modules(runner.server.db, module_id, engine=engine)


async def lost(runner: SimulatedRunner, attempt: SimulatedAttempt, **params: Any) -> list[tuple[str, str, str, str]]:
    found = await runner.app.admin.listed(f"/api/v1/jobs/{attempt.ref.job_id}/lost-resources", **params)
    return [(each["address"], each["action"], each["id"], each["remedy"]) for each in found]


@pytest.mark.feature("J15.lost")
async def test_the_list_has_what_the_log_reports_and_the_state_does_not_record(runner: SimulatedRunner) -> None:
    attempt = await cut_short(runner, printed(LINES[:40]), printed(LINES[40:]))
    assert await lost(runner, attempt, limit=1) == [
        ("a.x", "created", "x-1", "import"),
        ("a.z", "creating", "", "look"),
    ]


@pytest.mark.feature("J15.lost")
async def test_a_creation_that_was_not_finished_is_listed_beside_the_one_that_it_replaces(
    runner: SimulatedRunner,
) -> None:
    """The state had the one that was destroyed, so nobody was told to look for the one that was being made in its place."""
    lines = "a.x: Destroying... [id=x-1]\na.x: Destruction complete after 0s\na.x: Creating...\n"
    attempt = await runner.begun()
    old = {"mode": "managed", "type": "a", "name": "x", "instances": [{"attributes": {"id": "x-1"}}]}
    await attempt.write(msgspec.json.encode({"version": 4, "serial": 1, "lineage": "a", "resources": [old]}), serial=1)
    await attempt.deliver(printed(lines))
    await attempt.lose()
    assert await lost(runner, attempt) == [("a.x", "destroyed", "x-1", "refresh"), ("a.x", "creating", "", "look")]


async def test_the_loop_stores_the_list_before_anybody_looks(runner: SimulatedRunner) -> None:
    attempt = await cut_short(runner, printed(LINES))
    search = LostResourceSearch(runner.server.db, runner.server.objects, runner.server.keys)
    await search.step()
    stored = "SELECT count(*) FROM lost_resources WHERE job_id = :id"
    assert await runner.app.scalar(stored, id=attempt.ref.job_id) == 3
    await runner.server.db.write(lambda tx: tx.run("DELETE FROM log_chunks"))
    await search.step()
    assert len(await lost(runner, attempt)) == 2, "the list outlives the log"
    await attempt.deliver(printed("a.z: Creation complete after 3s [id=z-1]\n"))
    await search.step()
    assert ("a.z", "created", "z-1", "import") in await lost(runner, attempt), "a late line is searched, too"


async def test_an_engine_that_ended_by_itself_has_lost_nothing(runner: SimulatedRunner) -> None:
    attempt = await cut_short(runner, printed(LINES), APPLIED)
    assert await lost(runner, attempt) == []
    running = await runner.begun()
    await running.deliver(printed(LINES))
    assert await lost(runner, running) == [], "it may still save its state"


async def test_only_lines_of_the_engine_in_a_mutating_step_count(runner: SimulatedRunner) -> None:
    """A script may print whatever it likes, also a carriage return, and what it prints has its address in front."""
    attempt = await cut_short(
        runner,
        printed(LINES, Step.PLAN),
        printed("a.x (local-exec): b\rfake.y: Creation complete after 0s [id=1]\n"),
        printed("x" * 70_000 + "a.long: Creation complete after 0s [id=1]\n"),
        printed("a.open: Creation complete after 0s [id=1"),
    )
    assert await lost(runner, attempt) == []


@pytest.mark.feature("J15.lost")
async def test_the_next_job_gets_the_import_blocks_as_an_extra_file(runner: SimulatedRunner) -> None:
    attempt = await cut_short(runner, printed(LINES + 'a.k["${x}"]: Creation complete after 0s [id=k]\n'))
    await attempt.crew.app.admin.post(f"/api/v1/jobs/{attempt.ref.job_id}/cancel", json={"mode": "kill"})
    await change_organizations(runner.rows.db, next_job_number=1000)
    asked: dict[str, Any] = {"type": "PLAN", "import_lost": {}}
    made = await runner.app.admin.made(f"/api/v1/modules/{attempt.module_id}/jobs", asked)
    granted = await runner.instance.has(made["id"])
    [file] = granted.spec.files
    assert file.path == "terracrew_lost_resources.tf"
    assert file.content.endswith('\nimport {\n  to = a.x\n  id = "x-1"\n}\n')
    assert file.content.count("import {") == 1
    assert [(each.address, each.id) for each in granted.spec.imports] == [("a.x", "x-1")]
    entry = await runner.app.admin.get("/api/v1/audit", params={"action": "job.run", "limit": 1})
    assert entry.json()["items"][0]["details"]["imports"] == 1


@on_one
async def test_what_cannot_be_imported_is_refused_with_the_reason(runner: SimulatedRunner) -> None:
    attempt = await cut_short(runner, printed(LINES))
    admin, path = runner.app.admin, f"/api/v1/modules/{attempt.module_id}/jobs"
    number = (await admin.get(f"/api/v1/jobs/{attempt.ref.job_id}")).json()["number"]

    async def refused(status: int, **asked: Any) -> str:
        return await admin.refused("POST", path, status, json={"type": "APPLY", **asked})

    assert "a.nothing is not among" in await refused(400, import_lost={"leave_out": ["a.nothing"]})
    assert "left nothing to import" in await refused(409, import_lost={"job": str(number), "leave_out": ["a.x"]})
    assert "no job number 999" in await refused(404, import_lost={"job": "999"})
    assert "imports nothing when it destroys" in await refused(400, type="DESTROY", import_lost={})
    for of_a_part in ({"targets": ["a.y"]}, {"is_refresh_only": True}):
        assert "may pass over what it should import" in await refused(400, import_lost={}, **of_a_part)
        await change_jobs(runner.server.db, attempt.ref.job_id, **of_a_part)
        replan = f"/api/v1/jobs/{attempt.ref.job_id}/replan"
        words = await admin.refused("POST", replan, 400, json={"plan": 1, "import_lost": {}})
        assert "may pass over what it should import" in words
        await change_jobs(runner.server.db, attempt.ref.job_id, targets=[], is_refresh_only=False)
    other = await runner.run()
    assert "not a job of" in await refused(404, import_lost={"job": other.ref.job_id})
    assert (await admin.post(path, json={"type": "PLAN", "import_lost": {"file": "x"}})).status_code == 400
    bad = f"/api/v1/jobs/{attempt.ref.job_id}/lost-resources"
    assert "not a cursor" in await admin.refused("GET", bad, 400, params={"after": "eHg"})


@pytest.mark.feature("J8.self", "J15.lost")
async def test_who_chose_the_imports_of_a_job_cannot_approve_it_alone_and_neither_can_its_creator(
    runner: SimulatedRunner,
) -> None:
    """Another person than its creator let a job import what was lost, and then approved that."""
    attempt = await cut_short(runner, printed(LINES))
    job_id, admin = attempt.ref.job_id, runner.app.admin
    await change_groups(runner.server.db, "", self_approval=False)
    await change_jobs(runner.server.db, job_id, created_by=admin.principal.id)
    ann = await runner.app.person("ann", "owner")
    kept = KeptPlan(state_version=0, sha256="ab", size=2, path="/w")
    await (await runner.again(job_id, 2)).deliver(RUNNING, fact(Result("WAITING", kept=kept)))
    answer = await ann.post(f"/api/v1/jobs/{job_id}/replan", json={"plan": 2, "import_lost": {}})
    assert answer.status_code == 200, answer.text
    await (await runner.again(job_id, 3)).deliver(RUNNING, fact(Result("WAITING", kept=kept)))
    asked = {"plan": 3, "doubts": [{"job_id": job_id, "attempt": 1}]}
    path = f"/api/v1/jobs/{job_id}/approve"
    assert "you chose what is imported by job" in await ann.refused("POST", path, 403, json=asked)
    assert "you queued job" in await admin.refused("POST", path, 403, json=asked)
    third = await runner.app.person("bob", "owner")
    assert (await third.post(path, json=asked)).status_code == 200


@pytest.mark.feature("J15.lost", "J15.pulumi")
async def test_what_pulumi_had_begun_is_listed_unless_the_state_has_it_now(runner: SimulatedRunner) -> None:
    pending = [
        {"resource": resource(name, id="i-1" if kind == "updating" else ""), "type": kind}
        for name, kind in (("made", "creating"), ("found", "creating"), ("changed", "updating"))
    ]
    attempt = await runner.begun()
    await change_engine(runner, attempt.module_id, "pulumi")
    await attempt.write(checkpoint([resource("changed", id="i-1")], pending), serial=1)
    await attempt.lose()
    prefix = "a:b:C$testing:index:File::"
    assert await lost(runner, attempt) == [
        (f"{prefix}made", "creating", "", "look"),
        (f"{prefix}found", "creating", "", "look"),
        (f"{prefix}changed", "changing", "i-1", "refresh"),
    ]
    admin, path = runner.app.admin, f"/api/v1/jobs/{attempt.ref.job_id}/lost-resources"
    [made, *_] = await admin.listed(path)
    assert (made["type"], made["provider"]) == ("testing:index:File", "testing")
    assert "`import: ID`" in made["explanation"]
    asked: dict[str, Any] = {"type": "APPLY", "import_lost": {}}
    jobs = f"/api/v1/modules/{attempt.module_id}/jobs"
    assert "`import: ID`" in await admin.refused("POST", jobs, 400, json=asked)
    await change_attempts(runner.server.db, is_in_doubt=False)  # a person has looked
    await change_engine(runner, attempt.module_id, "tofu")  # which the runner of the tests has
    later = await runner.again(attempt.ref.job_id, 2)
    await change_engine(runner, attempt.module_id, "pulumi")
    await later.deliver(RUNNING)
    await later.begin()
    known = [resource("changed", id="i-1"), resource("found", id="i-2")]
    await later.write(checkpoint(known, pending[:1]), serial=2)
    assert [each[0] for each in await lost(runner, attempt)] == [f"{prefix}made", f"{prefix}changed"]


@pytest.mark.feature("J15.lost", "J15.pulumi")
async def test_what_a_killed_provider_of_pulumi_was_creating_is_listed(runner: SimulatedRunner) -> None:
    """Pulumi takes an operation whose provider was killed out of its state: the last state said that nothing was open."""
    creating = [{"resource": resource(name), "type": "creating"} for name in ("made", "lost")]
    updating = {"resource": resource("changed", id="i-1"), "type": "updating"}
    changed, made = resource("changed", id="i-1"), resource("made", id="i-2")
    attempt = await runner.begun()
    await change_engine(runner, attempt.module_id, "pulumi")
    await attempt.write(checkpoint([changed], [*creating, updating]), serial=1)
    await attempt.write(checkpoint([changed, made], creating[1:]), serial=2)
    await attempt.write(checkpoint([changed, made], []), serial=3)
    await attempt.lose()
    assert await lost(runner, attempt) == [("a:b:C$testing:index:File::lost", "creating", "", "look")]


@on_one
async def test_who_may_not_read_the_job_sees_no_list_and_imports_nothing(runner: SimulatedRunner) -> None:
    attempt = await cut_short(runner, printed(LINES))
    stranger = await runner.app.person("eve")
    await stranger.refused("GET", f"/api/v1/jobs/{attempt.ref.job_id}/lost-resources", 404)
    asked: dict[str, Any] = {"type": "PLAN", "import_lost": {}}
    await stranger.refused("POST", f"/api/v1/modules/{attempt.module_id}/jobs", 404, json=asked)


@pytest.mark.feature("J15.lost")
async def test_a_job_that_waits_plans_again_with_imports(runner: SimulatedRunner) -> None:
    attempt = await cut_short(runner, printed(LINES))
    job_id, admin = attempt.ref.job_id, runner.app.admin
    again = await runner.again(job_id, 2)
    assert again.crew is runner
    kept = KeptPlan(state_version=0, sha256="ab", size=2, path="/w")
    await again.deliver(RUNNING, fact(Result("WAITING", kept=kept)))
    path = f"/api/v1/jobs/{job_id}/replan"
    assert "left nothing" in await admin.refused(
        "POST", path, 409, json={"plan": 2, "import_lost": {"leave_out": ["a.x"]}}
    )
    answer = await admin.post(path, json={"plan": 2, "import_lost": {}})
    assert (answer.status_code, answer.json()["status"]) == (200, "QUEUED")
    granted = await runner.instance.has(job_id, 3)
    assert [(each.address, each.id) for each in granted.spec.imports] == [("a.x", "x-1")]
    assert granted.spec.resume is None
