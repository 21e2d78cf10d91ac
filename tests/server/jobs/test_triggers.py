"""An apply that changes an output queues the modules that use it: in order, once, and also if a server ends in between."""

import asyncio
from typing import Any

import pytest

from terracrew.protocol.events import Output, Result
from terracrew.server.jobs import create
from terracrew.server.jobs.triggers import Triggers
from tests.builders.deliveries import RUNNING, fact
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.inputs.places import SOURCE
from tests.server.tree.inputs.references import apply, destroy, finish, refer

pytestmark = pytest.mark.feature("J6.triggers")


def loop(runner: SimulatedRunner) -> Triggers:
    server = runner.server
    return Triggers(server.db, server.keys, server.settings.local_roots)


async def modules(runner: SimulatedRunner, *edges: str, triggers: str = "auto") -> dict[str, str]:
    """Modules by name; the edge `b>a` is an input `a` of module b that is the output `id` of module a."""
    admin = runner.app.admin
    names = sorted({name for edge in edges for name in edge.split(">")})
    made = {
        name: (await admin.made("/api/v1/modules", {"path": name, "source": SOURCE, "triggers": triggers}))["id"]
        for name in names
    }
    for user, source in (edge.split(">") for edge in edges):
        await refer(admin, user, source, "id", source)
    return made


async def waiting(runner: SimulatedRunner) -> list[dict[str, Any]]:
    """The queued jobs after a round of the loop."""
    await loop(runner).step()
    return await runner.app.admin.listed("/api/v1/jobs", status="QUEUED")


async def test_an_apply_that_changes_an_output_queues_the_module_that_uses_it_once(runner: SimulatedRunner) -> None:
    made = await modules(runner, "b>a")
    cause = await apply(runner, made["a"], id=Output(1), other=Output(1))
    await asyncio.gather(*(loop(runner).step() for _ in range(4)))  # as several servers do
    [job] = await waiting(runner)
    assert (job["module_path"], job["type"], job["cause_job_id"]) == ("b", "APPLY", cause)
    assert job["created_by"] == runner.app.admin.principal.id, "nobody approves what follows from their own change"
    await finish(runner, job["id"], read={"id": Output(1)})
    assert await waiting(runner) == []
    await apply(runner, made["a"], id=Output(1), other=Output(2))
    assert await waiting(runner) == [], "no output that b uses has changed"
    await apply(runner, made["a"], id=Output(1, is_sensitive=True))
    assert [job["module_path"] for job in await waiting(runner)] == ["b"]
    entries = await runner.app.admin.listed("/api/v1/audit", action="job.run")
    assert any(entry["actor_name"] == "Terracrew" for entry in entries)


async def test_the_end_of_a_diamond_is_queued_once_and_after_both_sides(runner: SimulatedRunner) -> None:
    made = await modules(runner, "b>a", "c>a", "d>b", "d>c", "d>a")
    await apply(runner, made["a"], id=Output("a1"))
    sides = await waiting(runner)
    assert sorted(job["module_path"] for job in sides) == ["b", "c"]
    await finish(runner, sides[0]["id"], read={"id": Output("1")})
    assert [job["id"] for job in await waiting(runner)] == [sides[1]["id"]], "d waits for the other side"
    await finish(runner, sides[1]["id"], read={"id": Output("2")})
    [last] = await waiting(runner)
    assert last["module_path"] == "d"
    spec = (await runner.instance.has(last["id"], 1)).spec
    assert spec.inputs == {"a": "a1", "b": "1" if sides[0]["module_path"] == "b" else "2", "c": spec.inputs["c"]}
    assert await waiting(runner) == []


async def test_what_depends_on_a_failed_module_waits_for_its_next_success(runner: SimulatedRunner) -> None:
    made = await modules(runner, "b>a", "c>b", "c>a")
    await apply(runner, made["a"], id=Output(1))
    [job] = await waiting(runner)
    attempt = await runner.again(job["id"])
    await attempt.deliver(RUNNING, fact(Result("FAILED", "it does not work")))
    assert await waiting(runner) == []
    await apply(runner, made["b"], id=Output(1))
    assert [job["module_path"] for job in await waiting(runner)] == ["c"]


async def test_a_module_that_was_applied_destroyed_or_deleted_since_is_not_queued(runner: SimulatedRunner) -> None:
    admin = runner.app.admin
    made = await modules(runner, "b>a", "c>a", "d>a", "e>a")
    await apply(runner, made["a"], id=Output(1))
    await apply(runner, made["b"], id=Output(1))
    await destroy(runner, made["c"])
    assert (await admin.delete(f"/api/v1/modules/{made['d']}")).status_code == 204
    await admin.patch(f"/api/v1/modules/{made['e']}", json={"triggers": "manual"})
    assert await waiting(runner) == []
    assert await runner.app.scalar("SELECT count(*) FROM triggered_modules") == 0


async def test_only_modules_that_ask_for_it_are_queued(runner: SimulatedRunner) -> None:
    made = await modules(runner, "b>a", triggers="manual")
    await apply(runner, made["a"], id=Output(1))
    assert await waiting(runner) == []
    words = await runner.app.admin.refused("PATCH", f"/api/v1/modules/{made['b']}", 400, json={"triggers": "sometimes"})
    assert "triggers" in words


async def test_a_server_that_ends_while_it_queues_a_job_neither_loses_nor_repeats_it(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job and the row that asks for it are one transaction: the error stands for the end of the process."""
    made = await modules(runner, "b>a")
    await apply(runner, made["a"], id=Output(1))
    create_all = create.create_all

    async def end_process(*arguments: Any, **more: Any) -> Any:
        await create_all(*arguments, **more)
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(create, "create_all", end_process)
        await loop(runner).step()
    assert await runner.app.admin.listed("/api/v1/jobs", status="QUEUED") == []
    assert [job["module_path"] for job in await waiting(runner)] == ["b"]
    assert len(await waiting(runner)) == 1
