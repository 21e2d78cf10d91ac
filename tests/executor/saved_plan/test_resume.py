"""A plan that was approved is applied by another process, at the same path, with the real engine; or it is made again."""

import hashlib
import io
import json
from pathlib import Path

import msgspec
import pytest

from terracrew.executor.saved_plan import archive, encrypt
from terracrew.protocol.events import OutputsRead, PlanSummary, Stream
from terracrew.protocol.messages import BeginRefused, Begun, Granted
from terracrew.protocol.spec import JobType, StateSeed
from terracrew.testing.executor_processes import ExecutorProcesses
from terracrew.testing.fake_executor_hub import KEY, FakeExecutorHub
from tests.executor.engine_runs import statuses
from tests.executor.saved_plan.waiting_plans import SECOND, another_instance, planned, resume_of, resumed, spec_of

pytestmark = pytest.mark.engine


@pytest.mark.feature("J8.same")
async def test_an_approved_plan_is_applied_by_another_process_with_another_port_and_another_secret(
    hub: FakeExecutorHub, executors: ExecutorProcesses, second: ExecutorProcesses, source: bytes
) -> None:
    await planned(hub, executors, source)
    executor = await resumed(hub, second, source, resume_of(hub))
    assert await executor.exit_code() == 0, executor.said
    again = second.hub
    assert again.result.status == "SUCCEEDED", again.result
    assert (again.plan_attempts, again.begins[0][0]) == ([1], 0)
    [outputs] = again.facts_of(OutputsRead)
    assert outputs.outputs["here"].value == f"{executors.workspaces}/job_1.1/infra hello from a file"
    assert outputs.outputs["child"].value == "you in child"
    assert again.facts_of(PlanSummary) == [], "it was not planned again"
    assert statuses(again) == [
        "fetch RUNNING",
        "fetch SUCCEEDED",
        "inputs SKIPPED",
        "init SKIPPED",
        "validate SKIPPED",
        "plan SKIPPED",
        "apply RUNNING",
        "apply SUCCEEDED",
        "output RUNNING",
        "output SUCCEEDED",
    ]
    assert b"Going on with the plan of attempt 1" in again.log(Stream.SYSTEM)
    _, sealed = [record for record in again.records if record.kind == 3][-1].payload.split(b"\n", 1)
    state = json.loads(_opened(sealed))
    assert state["outputs"]["child"]["value"] == "you in child"
    assert (executor.directory / "workspace").resolve() == executors.workspaces / "job_1.1"


def _opened(sealed: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(SECOND.state_key).decrypt(sealed[:12], sealed[12:], b"job_1:2")


@pytest.mark.feature("J8.same")
async def test_a_plan_from_a_state_is_applied_to_that_state(
    hub: FakeExecutorHub, executors: ExecutorProcesses, second: ExecutorProcesses, source: bytes, tmp_path: Path
) -> None:
    first = await executors.run(spec_of(executors, source))
    assert await first.exit_code() == 0, first.said
    _, _, content = hub.states[-1]
    async with another_instance(tmp_path / "middle") as at:
        seed = StateSeed(4, size=len(content), content=content)
        spec = msgspec.structs.replace(spec_of(at, source, state=seed), inputs={"name": "me"})
        executor = await at.run(spec)
        assert await executor.exit_code() == 0, executor.said
        assert at.hub.result.kept
        assert at.hub.result.kept.state_version == 4
        second.workspaces = at.workspaces
        executor = await resumed(at.hub, second, source, resume_of(at.hub), state=seed)
        assert await executor.exit_code() == 0, executor.said
    assert second.hub.result.status == "SUCCEEDED", second.hub.result
    assert second.hub.begins[0][0] == 4
    assert second.hub.facts_of(OutputsRead)[0].outputs["child"].value == "me in child"


@pytest.mark.feature("J8.same")
@pytest.mark.parametrize(
    "harm",
    ["another root", "another job's", "out of the root", "hash", "another plan", "key", "engine", "missing", "in use"],
)
async def test_a_plan_that_cannot_be_restored_is_made_again_and_says_why(
    hub: FakeExecutorHub,
    executors: ExecutorProcesses,
    second: ExecutorProcesses,
    source: bytes,
    harm: str,
    tmp_path: Path,
) -> None:
    await planned(hub, executors, source)
    resume, why = resume_of(hub), b""
    match harm:
        case "another root":
            second.workspaces = tmp_path / "elsewhere"
            why = b"which is not a workspace of this runner"
        case "another job's":
            resume = resume_of(hub, path=str(executors.workspaces / "job_2.1"))
            why = b"which is not a workspace of this runner"
        case "another plan":
            resume = resume_of(hub, plan_sha256="0" * 64)
            why = b"the plan in it is not the one that was approved"
        case "out of the root":
            resume = resume_of(hub, path=f"{executors.workspaces}/../job_1.1")
            why = b"which is not a workspace of this runner"
        case "hash":
            second.hub.plan = hub.plan[:-1]
            why = b"did not arrive complete"
        case "key":
            resume = resume_of(hub, key=bytes(32))
            why = b"cannot be decrypted"
        case "engine":
            second.hub.plan = repacked(hub.plan, tmp_path, version="0.0.1")
            resume = resume_of(hub, sha256=hashlib.sha256(second.hub.plan).hexdigest())
            why = b"it was made with tofu 0.0.1"
        case "missing":
            hub.plan = b""
            why = b"refused with not_found"
        case _:
            executors.workspaces.joinpath("job_1.1").mkdir()
            why = b"is in use"
    executor = await resumed(hub, second, source, resume)
    assert await executor.exit_code() == 0, executor.said
    again = second.hub
    assert b"The plan of attempt 1 cannot be used here, so it is made again" in again.log(Stream.SYSTEM)
    assert why in again.log(Stream.SYSTEM)
    assert again.plan_attempts == [None], "what was planned again is another plan"
    assert again.result.status == "WAITING", again.result
    assert again.result.kept
    assert again.result.kept.path == str(second.workspaces / "job_1.2")
    assert len(again.facts_of(PlanSummary)) == 1
    assert not (tmp_path / "job_1.1").exists()
    left = sorted(path.name for path in second.workspaces.iterdir())
    assert left == (["job_1.1"] if harm == "in use" else [])


def repacked(sealed: bytes, folder: Path, **changes: str) -> bytes:
    """The same plan as another engine's or, without changes, with a provider that is in no cache."""
    place = folder / "repacked"
    place.mkdir()
    about = archive.unpack(encrypt.opened(io.BytesIO(sealed), KEY, "job_1:1:plan"), folder / "repacked-plan", place)
    if not changes:
        provider = place / "infra" / ".terraform" / "providers" / "example.org" / "acme" / "thing" / "1.0.0"
        provider.mkdir(parents=True)
        (provider / "linux_amd64").symlink_to("/nowhere/cache/plugins/thing")
    file = io.BytesIO()
    sealing = encrypt.Sealing(file, KEY, "job_1:1:plan", most=1 << 30)
    archive.pack(sealing, msgspec.structs.replace(about, **changes), folder / "repacked-plan", place)
    sealing.finish()
    return file.getvalue()


@pytest.mark.feature("J8.same")
async def test_providers_that_this_machine_does_not_have_are_fetched_before_the_apply(
    hub: FakeExecutorHub, executors: ExecutorProcesses, second: ExecutorProcesses, source: bytes, tmp_path: Path
) -> None:
    await planned(hub, executors, source)

    second.hub.plan = repacked(hub.plan, tmp_path)
    resume = resume_of(hub, sha256=hashlib.sha256(second.hub.plan).hexdigest())
    executor = await resumed(hub, second, source, resume)
    assert await executor.exit_code() == 0, executor.said
    assert second.hub.result.status == "SUCCEEDED", second.hub.result
    assert "init SUCCEEDED" in statuses(second.hub)
    assert "plan SKIPPED" in statuses(second.hub)
    assert second.hub.plan_attempts == [1]


@pytest.mark.feature("J8.same")
async def test_a_state_that_moved_after_the_approval_makes_a_new_plan_that_is_kept_again(
    hub: FakeExecutorHub, executors: ExecutorProcesses, second: ExecutorProcesses, source: bytes
) -> None:
    await planned(hub, executors, source)
    again = second.hub
    again.state, again.state_version = b"", 5
    again.answer_begin = lambda version: Begun(5) if version == 5 else BeginRefused("state_moved", "the state moved")
    executor = await resumed(hub, second, source, resume_of(hub))
    assert await executor.exit_code() == 0, executor.said
    assert again.plan_attempts == [1, None]
    assert [version for version, _ in again.begins] == [0, 5]
    assert again.result.status == "WAITING", again.result
    assert again.result.kept
    assert again.result.kept.state_version == 5
    assert again.result.kept.path == resume_of(hub).path
    assert len(again.facts_of(PlanSummary)) == 1
    # And that one is applied by a third attempt, in the same place.
    async with another_instance(second.folder / "third") as third:
        third.hub.plan, third.workspaces = again.plan, executors.workspaces
        resume = resume_of(again, attempt=2, key=SECOND.state_key)
        executor = await third.run(spec_of(third, source, attempt=3, resume=resume, state=StateSeed(5)))
        assert await executor.exit_code() == 0, executor.said
        assert third.hub.result.status == "SUCCEEDED", third.hub.result
        assert third.hub.plan_attempts == [2]


@pytest.mark.feature("J8.same")
async def test_a_state_that_had_moved_before_the_grant_is_not_even_asked_about(
    hub: FakeExecutorHub, executors: ExecutorProcesses, second: ExecutorProcesses, source: bytes
) -> None:
    await planned(hub, executors, source)
    executor = await resumed(hub, second, source, resume_of(hub), state=StateSeed(3))
    assert await executor.exit_code() == 0, executor.said
    assert b"the state has changed since" in second.hub.log(Stream.SYSTEM)
    assert second.hub.plan_attempts == [None]
    assert second.hub.begins[0][0] == 3


@pytest.mark.feature("J8.same")
async def test_a_destroy_waits_and_goes_on_like_an_apply(
    hub: FakeExecutorHub, executors: ExecutorProcesses, second: ExecutorProcesses, source: bytes
) -> None:
    first = await executors.run(spec_of(executors, source))
    assert await first.exit_code() == 0, first.said
    content = hub.states[-1][2]
    seed = StateSeed(1, size=len(content), content=content)
    async with another_instance(executors.folder / "middle") as at:
        spec = msgspec.structs.replace(spec_of(at, source, state=seed), type=JobType.DESTROY)
        executor = await at.run(spec)
        assert await executor.exit_code() == 0, executor.said
        assert at.hub.result.status == "WAITING"
        second.hub.plan, second.workspaces = at.hub.plan, at.workspaces
        spec = msgspec.structs.replace(
            spec_of(second, source, attempt=2, resume=resume_of(at.hub), state=seed), type=spec.type
        )
        executor = await second.run(spec, granted=Granted(spec, SECOND))
        assert await executor.exit_code() == 0, executor.said
    assert second.hub.result.status == "SUCCEEDED", second.hub.result
    sealed = [record for record in second.hub.records if record.kind == 3][-1].payload.split(b"\n", 1)[1]
    assert json.loads(_opened(sealed))["resources"] == []
