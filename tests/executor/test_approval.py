"""A plan that a person has to look at: kept by the attempt that made it, applied by another process, with the real engine."""

import hashlib
import io
import json
import os
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from terracrew import archive
from terracrew.executor import bundle, seal, statebackend
from terracrew.protocol.events import OutputsRead, PlanSummary, Result, StepStatus, Stream
from terracrew.protocol.messages import BeginRefused, Begun, CancelAttempt, Granted, Superseded
from terracrew.protocol.spec import Credentials, JobType, Resume, StateSeed
from tests.executor.hub_server import HUB, KEY, Hub
from tests.executor.stage import Executor, Stage
from tests.small_disk import fill

pytestmark = [pytest.mark.engine, pytest.mark.feature("J8")]

SECOND = Credentials("hub-credential-of-the-second", "api-credential-of-the-second", bytes(range(32, 64)))
MAIN = """
variable "name" { type = string }
module "child" {
  source = "./child"
  name = var.name
}
resource "terraform_data" "here" { input = "${path.cwd} ${trimspace(file("${path.module}/greeting.txt"))}" }
resource "terraform_data" "after" {
  input = module.child.name
  provisioner "local-exec" { command = "cat ${path.module}/greeting.txt; pwd" }
}
output "here" { value = terraform_data.here.output }
output "child" { value = module.child.name }
"""
CHILD = """
variable "name" { type = string }
resource "terraform_data" "named" { input = "${var.name} in ${path.module}" }
output "name" { value = terraform_data.named.output }
"""


@pytest.fixture
def source(tmp_path: Path) -> bytes:
    folder = tmp_path / "source"
    (folder / "infra" / "child").mkdir(parents=True)
    (folder / "infra" / "main.tf").write_text(MAIN)
    (folder / "infra" / "greeting.txt").write_text("hello from a file\n")
    (folder / "infra" / "child" / "main.tf").write_text(CHILD)
    (folder / "infra" / ".terraform.lock.hcl").write_text("# a lock file of the module's own\n")
    return archive.pack(folder)


@pytest.fixture
async def second(tmp_path: Path, stage: Stage) -> AsyncIterator[Stage]:
    """Where the plan is applied: another process of another instance, with another port and another secret."""
    hub = Hub(SECOND.hub)
    hub.needs_approval = True
    await hub.start()
    (tmp_path / "second").mkdir()
    other = Stage(hub, tmp_path / "second")
    other.workspaces = stage.workspaces
    yield other
    await other.close()
    await hub.stop()


def spec_of(stage: Stage, source: bytes, **changes: Any) -> Any:
    spec = stage.spec(JobType.APPLY, source, inputs={"name": "you"}, **changes)
    return msgspec.structs.replace(spec, source=msgspec.structs.replace(spec.source, subdirectory="infra"))


async def planned(hub: Hub, stage: Stage, source: bytes, **changes: Any) -> Executor:
    """The first attempt, to where its plan is kept."""
    hub.needs_approval = True
    executor = await stage.run(spec_of(stage, source, **changes))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "WAITING", hub.result
    return executor


def resume_of(hub: Hub, **changes: Any) -> Resume:
    kept = hub.result.kept
    assert kept is not None
    resume = Resume(1, kept.state_version, kept.sha256, kept.size, kept.path, KEY)
    return msgspec.structs.replace(resume, **changes)


async def resumed(hub: Hub, second: Stage, source: bytes, resume: Resume, **changes: Any) -> Executor:
    second.hub.plan = second.hub.plan or hub.plan
    state = changes.pop("state", StateSeed(resume.state_version))
    spec = spec_of(second, source, attempt=2, resume=resume, state=state)
    return await second.run(spec, granted=Granted(spec, SECOND), **changes)


def statuses(hub: Hub) -> list[str]:
    return [f"{fact.step} {fact.status}" for fact in hub.facts_of(StepStatus)]


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_a_plan_that_a_person_must_see_is_kept_encrypted_and_the_attempt_ends(
    hub: Hub, stage: Stage, source: bytes
) -> None:
    executor = await planned(hub, stage, source)
    assert hub.result == Result("WAITING", "A person has to look at this plan", kept=hub.result.kept)
    assert hub.facts[-1] == hub.result
    assert hub.result.kept
    assert hub.result.kept.path == str(stage.workspaces / "job_1.1")
    assert (hub.result.kept.size, hub.result.kept.sha256) == (len(hub.plan), hashlib.sha256(hub.plan).hexdigest())
    assert hub.states == []
    assert hub.plan_attempts == [None]
    assert statuses(hub)[-1] == "plan SUCCEEDED", "what comes after it is still to come, and not skipped"
    assert (executor.directory / "done").exists()
    # What was readable is gone from this machine.
    assert not list(stage.workspaces.iterdir())
    assert not (executor.directory / "plan").exists()
    assert not os.path.lexists(executor.directory / "workspace")


async def test_nothing_of_the_attempt_that_made_it_is_baked_into_what_is_kept(
    hub: Hub, stage: Stage, source: bytes, tmp_path: Path
) -> None:
    await planned(hub, stage, source)
    place = tmp_path / "look"
    place.mkdir()
    about = bundle.unpack(seal.opened(io.BytesIO(hub.plan), KEY, "job_1:1:plan"), tmp_path / "plan", place)
    assert about.engine == "tofu"
    secret = statebackend.secret_of(HUB).encode()
    with zipfile.ZipFile(tmp_path / "plan") as plan:
        contents = [plan.read(name) for name in plan.namelist()] + [path.read_bytes() for path in files(place)]
    for content in contents:
        for baked in (secret, statebackend.basic(secret.decode()).encode(), HUB.encode(), b"http://127.0.0.1"):
            assert baked not in content
    assert (place / "infra" / ".terraform" / "modules" / "modules.json").exists()
    assert (place / "infra" / "~terracrew.auto.tfvars.json").stat().st_mode & 0o777 == 0o600


async def test_an_approved_plan_is_applied_by_another_process_with_another_port_and_another_secret(
    hub: Hub, stage: Stage, second: Stage, source: bytes
) -> None:
    await planned(hub, stage, source)
    executor = await resumed(hub, second, source, resume_of(hub))
    assert await executor.exit_code() == 0, executor.said
    again = second.hub
    assert again.result.status == "SUCCEEDED", again.result
    assert (again.plan_attempts, again.begins[0][0]) == ([1], 0)
    [outputs] = again.facts_of(OutputsRead)
    assert outputs.outputs["here"].value == f"{stage.workspaces}/job_1.1/infra hello from a file"
    assert outputs.outputs["child"].value == "you in child"
    assert again.facts_of(PlanSummary) == [], "it was not planned again"
    assert statuses(again) == [
        "fetch RUNNING", "fetch SUCCEEDED", "inputs SKIPPED", "init SKIPPED", "validate SKIPPED", "plan SKIPPED",
        "apply RUNNING", "apply SUCCEEDED", "output RUNNING", "output SUCCEEDED",
    ]  # fmt: skip
    assert b"Going on with the plan of attempt 1" in again.log(Stream.SYSTEM)
    _, sealed = [record for record in again.records if record.kind == 3][-1].payload.split(b"\n", 1)
    state = json.loads(_opened(sealed))
    assert state["outputs"]["child"]["value"] == "you in child"
    assert (executor.directory / "workspace").resolve() == stage.workspaces / "job_1.1"


def _opened(sealed: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(SECOND.state_key).decrypt(sealed[:12], sealed[12:], b"job_1:2")


async def test_a_plan_from_a_state_is_applied_to_that_state(
    hub: Hub, stage: Stage, second: Stage, source: bytes, tmp_path: Path
) -> None:
    first = await stage.run(spec_of(stage, source))
    assert await first.exit_code() == 0, first.said
    _, _, content = hub.states[-1]
    middle = Hub()
    await middle.start()
    try:
        (tmp_path / "middle").mkdir()
        at = Stage(middle, tmp_path / "middle")
        seed = StateSeed(4, size=len(content), content=content)
        middle.needs_approval = True
        spec = msgspec.structs.replace(spec_of(at, source, state=seed), inputs={"name": "me"})
        executor = await at.run(spec)
        assert await executor.exit_code() == 0, executor.said
        assert middle.result.kept
        assert middle.result.kept.state_version == 4
        second.workspaces = at.workspaces
        executor = await resumed(middle, second, source, resume_of(middle), state=seed)
        assert await executor.exit_code() == 0, executor.said
        assert second.hub.result.status == "SUCCEEDED", second.hub.result
        assert second.hub.begins[0][0] == 4
        assert second.hub.facts_of(OutputsRead)[0].outputs["child"].value == "me in child"
    finally:
        await middle.stop()


@pytest.mark.parametrize(
    "harm", ["another root", "another job's", "out of the root", "hash", "key", "engine", "missing", "in use"]
)
async def test_a_plan_that_cannot_be_restored_is_made_again_and_says_why(
    hub: Hub, stage: Stage, second: Stage, source: bytes, harm: str, tmp_path: Path
) -> None:
    await planned(hub, stage, source)
    resume, why = resume_of(hub), b""
    match harm:
        case "another root":
            second.workspaces = tmp_path / "elsewhere"
            why = b"which is not a workspace of this runner"
        case "another job's":
            resume = resume_of(hub, path=str(stage.workspaces / "job_2.1"))
            why = b"which is not a workspace of this runner"
        case "out of the root":
            resume = resume_of(hub, path=f"{stage.workspaces}/../job_1.1")
            why = b"which is not a workspace of this runner"
        case "hash":
            second.hub.plan = hub.plan[:-1]
            why = b"did not arrive whole"
        case "key":
            resume = resume_of(hub, key=bytes(32))
            why = b"cannot be decrypted"
        case "engine":
            second.hub.plan = repacked(hub.plan, tmp_path, version="0.0.1")
            resume = resume_of(hub, sha256=hashlib.sha256(second.hub.plan).hexdigest())
            why = b"it was made with tofu 0.0.1"
        case "missing":
            hub.plan = b""
            why = b"answered 404"
        case _:
            stage.workspaces.joinpath("job_1.1").mkdir()
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
    about = bundle.unpack(seal.opened(io.BytesIO(sealed), KEY, "job_1:1:plan"), folder / "repacked-plan", place)
    if not changes:
        provider = place / "infra" / ".terraform" / "providers" / "example.org" / "acme" / "thing" / "1.0.0"
        provider.mkdir(parents=True)
        (provider / "linux_amd64").symlink_to("/nowhere/cache/plugins/thing")
    file = io.BytesIO()
    sealing = seal.Sealing(file, KEY, "job_1:1:plan", most=1 << 30)
    bundle.pack(sealing, msgspec.structs.replace(about, **changes), folder / "repacked-plan", place)
    sealing.finish()
    return file.getvalue()


async def test_providers_that_this_machine_does_not_have_are_fetched_before_the_apply(
    hub: Hub, stage: Stage, second: Stage, source: bytes, tmp_path: Path
) -> None:
    await planned(hub, stage, source)

    second.hub.plan = repacked(hub.plan, tmp_path)
    resume = resume_of(hub, sha256=hashlib.sha256(second.hub.plan).hexdigest())
    executor = await resumed(hub, second, source, resume)
    assert await executor.exit_code() == 0, executor.said
    assert second.hub.result.status == "SUCCEEDED", second.hub.result
    assert "init SUCCEEDED" in statuses(second.hub)
    assert "plan SKIPPED" in statuses(second.hub)
    assert second.hub.plan_attempts == [1]


async def test_a_state_that_moved_after_the_approval_makes_a_new_plan_that_is_kept_again(
    hub: Hub, stage: Stage, second: Stage, source: bytes
) -> None:
    await planned(hub, stage, source)
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
    third = Hub()
    await third.start()
    try:
        third.needs_approval, third.plan = True, again.plan
        at = Stage(third, second.folder / "third")
        at.folder.mkdir()
        at.workspaces = stage.workspaces
        resume = resume_of(again, attempt=2, key=SECOND.state_key)
        executor = await at.run(spec_of(at, source, attempt=3, resume=resume, state=StateSeed(5)))
        assert await executor.exit_code() == 0, executor.said
        assert third.result.status == "SUCCEEDED", third.result
        assert third.plan_attempts == [2]
    finally:
        await third.stop()


async def test_a_state_that_had_moved_before_the_grant_is_not_even_asked_about(
    hub: Hub, stage: Stage, second: Stage, source: bytes
) -> None:
    await planned(hub, stage, source)
    executor = await resumed(hub, second, source, resume_of(hub), state=StateSeed(3))
    assert await executor.exit_code() == 0, executor.said
    assert b"the state has changed since" in second.hub.log(Stream.SYSTEM)
    assert second.hub.plan_attempts == [None]
    assert second.hub.begins[0][0] == 3


async def test_a_server_that_is_away_gets_the_plan_when_it_is_back(hub: Hub, stage: Stage, source: bytes) -> None:
    refusals = [503, 503]
    hub.refuse_plan = lambda: refusals.pop() if refusals else None
    executor = await planned(hub, stage, source)
    assert hub.plan_puts == 3
    assert hub.plan
    assert (executor.directory / "done").exists()


@pytest.mark.feature("O1")
async def test_a_plan_for_which_there_is_no_room_is_kept_when_there_is(
    hub: Hub, stage_on_small_disk: Stage, source: bytes
) -> None:
    stage = stage_on_small_disk
    filler = stage.folder / "filler"

    def refuse(_: int) -> BeginRefused:
        fill(filler)
        return BeginRefused("approval", "look")

    hub.answer_begin = refuse
    executor = await stage.run(spec_of(stage, source))
    await hub.until(lambda: b"disk of this runner is full. The plan is kept" in hub.log(Stream.SYSTEM))
    assert not hub.plan_puts
    filler.unlink()
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "WAITING", hub.result
    assert hub.log(Stream.SYSTEM).count(b"The plan is kept when there is room") == 1
    assert hub.plan


async def test_a_cancel_while_the_plan_is_kept_ends_the_job_as_canceled(hub: Hub, stage: Stage, source: bytes) -> None:
    hub.needs_approval = True
    hub.refuse_plan = lambda: 503
    executor = await stage.run(spec_of(stage, source))
    await hub.until(lambda: hub.plan_puts)
    await hub.tell(CancelAttempt("job_1", 1, "after_step"))
    assert await executor.exit_code() == 0, executor.said
    assert (hub.result.status, hub.result.message, hub.result.kept) == ("CANCELED", "canceled before apply", None)
    assert statuses(hub)[-2:] == ["apply SKIPPED", "output SKIPPED"]


@pytest.mark.feature("O3")
async def test_an_attempt_that_is_superseded_while_it_keeps_its_plan_stops(
    hub: Hub, stage: Stage, source: bytes
) -> None:
    hub.needs_approval = True
    hub.refuse_plan = lambda: 503
    executor = await stage.run(spec_of(stage, source))
    await hub.until(lambda: hub.plan_puts)
    await hub.tell(Superseded("attempt 2 is the current one"))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "CANCELED"
    assert "attempt 2 is the current one" in hub.result.message


async def test_a_plan_that_the_server_will_not_take_fails_the_job_with_its_words(
    hub: Hub, stage: Stage, source: bytes
) -> None:
    hub.needs_approval = True
    hub.refuse_plan = lambda: 413
    executor = await stage.run(spec_of(stage, source))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "FAILED"
    assert hub.result.message.startswith("apply was not started: its plan cannot be kept: ")


async def test_a_destroy_waits_and_goes_on_like_an_apply(hub: Hub, stage: Stage, second: Stage, source: bytes) -> None:
    first = await stage.run(spec_of(stage, source))
    assert await first.exit_code() == 0, first.said
    content = hub.states[-1][2]
    seed = StateSeed(1, size=len(content), content=content)
    middle = Hub()
    await middle.start()
    try:
        at = Stage(middle, stage.folder / "middle")
        at.folder.mkdir()
        middle.needs_approval = True
        spec = msgspec.structs.replace(spec_of(at, source, state=seed), type=JobType.DESTROY)
        executor = await at.run(spec)
        assert await executor.exit_code() == 0, executor.said
        assert middle.result.status == "WAITING"
        second.hub.plan, second.workspaces = middle.plan, at.workspaces
        resume = resume_of(middle)
        spec = msgspec.structs.replace(
            spec_of(second, source, attempt=2, resume=resume, state=seed), type=JobType.DESTROY
        )
        executor = await second.run(spec, granted=Granted(spec, SECOND))
        assert await executor.exit_code() == 0, executor.said
        assert second.hub.result.status == "SUCCEEDED", second.hub.result
        sealed = [record for record in second.hub.records if record.kind == 3][-1].payload.split(b"\n", 1)[1]
        assert json.loads(_opened(sealed))["resources"] == []
    finally:
        await middle.stop()
