"""A plan that a person has to look at is kept by the attempt that made it, which then ends."""

import hashlib
import io
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from terracrew.attempt import encryption
from terracrew.executor.saved_plan import archive, encrypt
from terracrew.protocol.events import Result, Stream
from terracrew.protocol.messages import BeginRefused, CancelAttempt, SupersededNotice
from terracrew.testing.executor_processes import ExecutorProcesses
from terracrew.testing.fake_executor_hub import HUB, KEY, FakeExecutorHub
from tests.executor.engine_runs import statuses
from tests.executor.saved_plan.waiting_plans import files, planned, spec_of
from tests.machine.small_disk import fill

pytestmark = pytest.mark.engine


@pytest.mark.feature("J8.same")
async def test_a_plan_that_a_person_must_see_is_kept_encrypted_and_the_attempt_ends(
    hub: FakeExecutorHub, executors: ExecutorProcesses, source: bytes
) -> None:
    executor = await planned(hub, executors, source)
    assert hub.result == Result("WAITING", "A person has to look at this plan", kept=hub.result.kept)
    assert hub.facts[-1] == hub.result
    assert hub.result.kept
    assert hub.result.kept.path == str(executors.workspaces / "job_1.1")
    assert (hub.result.kept.size, hub.result.kept.sha256) == (len(hub.plan), hashlib.sha256(hub.plan).hexdigest())
    assert hub.states == []
    assert hub.plan_attempts == [None]
    assert statuses(hub)[-1] == "plan SUCCEEDED", "what comes after it is still to come, and not skipped"
    assert (executor.directory / "done").exists()
    # What was readable is gone from this machine.
    assert not list(executors.workspaces.iterdir())
    assert not any((executors.engine_directory / part / "plan").exists() for part in ("produced", "provided"))
    assert not os.path.lexists(executor.directory / "workspace")


@pytest.mark.feature("J8.same")
async def test_nothing_of_the_attempt_that_made_it_is_baked_into_what_is_kept(
    hub: FakeExecutorHub, executors: ExecutorProcesses, source: bytes, tmp_path: Path
) -> None:
    await planned(hub, executors, source)
    place = tmp_path / "look"
    place.mkdir()
    about = archive.unpack(encrypt.opened(io.BytesIO(hub.plan), KEY, "job_1:1:plan"), tmp_path / "plan", place)
    assert about.engine == "tofu"
    secret = encryption.backend_secret(HUB).encode()
    with zipfile.ZipFile(tmp_path / "plan") as plan:
        contents = [plan.read(name) for name in plan.namelist()] + [path.read_bytes() for path in files(place)]
    for content in contents:
        for baked in (
            secret,
            encryption.backend_authorization(secret.decode()).encode(),
            HUB.encode(),
            b"http://127.0.0.1",
        ):
            assert baked not in content
    assert (place / "infra" / ".terraform" / "modules" / "modules.json").exists()
    assert (place / "infra" / "~terracrew.auto.tfvars.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.feature("J8.same")
async def test_a_server_that_is_away_gets_the_plan_when_it_is_back(
    hub: FakeExecutorHub, executors: ExecutorProcesses, source: bytes
) -> None:
    refusals = [503, 503]
    hub.refuse_plan = lambda: refusals.pop() if refusals else None
    executor = await planned(hub, executors, source)
    assert hub.plan_puts == 3
    assert hub.plan
    assert (executor.directory / "done").exists()


@pytest.mark.feature("J8.same")
async def test_a_plan_for_which_there_is_no_room_is_kept_when_there_is(
    hub: FakeExecutorHub, stage_on_small_disk: ExecutorProcesses, source: bytes
) -> None:
    executors = stage_on_small_disk
    filler = executors.folder / "filler"

    def refuse(_: int) -> BeginRefused:
        fill(filler)
        return BeginRefused("approval", "look")

    hub.answer_begin = refuse
    executor = await executors.run(spec_of(executors, source))
    await hub.until(lambda: b"disk of this runner is full. The plan is saved" in hub.log(Stream.SYSTEM))
    assert not hub.plan_puts
    filler.unlink()
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "WAITING", hub.result
    assert hub.log(Stream.SYSTEM).count(b"The plan is saved when there is space") == 1
    assert hub.plan


@pytest.mark.feature("O3.fenced")
@pytest.mark.parametrize(
    ("told", "message"),
    [
        (CancelAttempt("job_1", 1, "after_step"), "canceled before apply"),
        (SupersededNotice("attempt 2 is the current one"), "stopped before apply: attempt 2 is the current one"),
    ],
)
async def test_a_cancel_or_a_successor_while_the_plan_is_kept_ends_the_job_as_canceled(
    hub: FakeExecutorHub, executors: ExecutorProcesses, source: bytes, told: Any, message: str
) -> None:
    hub.needs_approval = True
    hub.refuse_plan = lambda: 503
    executor = await executors.run(spec_of(executors, source))
    await hub.until(lambda: hub.plan_puts)
    await hub.tell(told)
    assert await executor.exit_code() == 0, executor.said
    assert (hub.result.status, hub.result.message, hub.result.kept) == ("CANCELED", message, None)
    assert statuses(hub)[-2:] == ["apply SKIPPED", "output SKIPPED"]


@pytest.mark.feature("J8.same")
async def test_a_plan_that_the_server_will_not_take_fails_the_job_with_its_words(
    hub: FakeExecutorHub, executors: ExecutorProcesses, source: bytes
) -> None:
    hub.needs_approval = True
    hub.refuse_plan = lambda: 413
    executor = await executors.run(spec_of(executors, source))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "FAILED"
    assert hub.result.message.startswith("apply was not started: its plan cannot be kept: ")
