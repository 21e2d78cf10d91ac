"""`errored.tfstate`: only a file that the mutating step of this attempt wrote, in the engine's own folder, is a state."""

import contextlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from terracrew.errors import Conflict
from terracrew.executor.engines.hcl.engine import TOFU_ENGINE as ENGINE
from terracrew.executor.state import leftover
from terracrew.protocol.events import MAX_STATE_BYTES, Stream
from terracrew.protocol.spec import ArchiveSource, JobType
from terracrew.testing.executor_processes import ExecutorProcesses, Gate, gone
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import at_the_gate, gated, gated_plan, killed_alone
from tests.executor.raw_archives import packed

NAME = "errored.tfstate"
STALE = json.dumps({"version": 4, "serial": 1, "lineage": "somebody-elses", "outputs": {}, "resources": []})


@pytest.mark.engine
@pytest.mark.feature("J15.kept")
async def test_a_stale_state_in_the_source_is_removed_said_and_never_delivered(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """It was delivered after a successful apply and replaced the real state, so that the next apply made all again."""
    source = packed({"main.tf": 'resource "terraform_data" "a" {}\n', NAME: STALE})
    executor = await executors.run(executors.spec(JobType.APPLY, source))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert {fact.origin for _, fact, _ in hub.states} == {"engine"}
    assert "somebody-elses" not in {fact.lineage for _, fact, _ in hub.states}
    assert hub.states[-1][1].resources == 1
    assert b"The source has a file errored.tfstate" in hub.log(Stream.SYSTEM)


@pytest.mark.engine
@pytest.mark.feature("J15.kept", "O4.salvaged")
async def test_salvage_looks_only_at_the_file_that_the_dead_attempts_own_change_left(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """It searched the whole workspace, so that the file of any module below it became the state."""
    gate = Gate(executors.folder)
    source = packed(
        {"app/main.tf": gated(gate), "app/modules/x/errored.tfstate": STALE, NAME: STALE, f"app/{NAME}": STALE}
    )
    source_of = ArchiveSource("arc_1", subdirectory="app")
    spec = msgspec.structs.replace(executors.spec(JobType.APPLY, source), source=source_of)
    executor = await executors.run(spec)
    await at_the_gate(hub)
    await killed_alone(executor, gate)
    salvage = await executors.salvage()
    assert await salvage.exit_code() == 0, salvage.said
    [left] = [fact for _, fact, _ in hub.states if fact.origin == "errored"]
    assert (left.lineage != "somebody-elses", left.resources) == (True, 2)


@pytest.mark.engine
@pytest.mark.feature("J15.kept", "O4.salvaged")
async def test_salvage_of_an_attempt_that_never_came_to_its_change_collects_no_state(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    gate = Gate(executors.folder)
    held = gated_plan(gate)
    executor = await executors.run(executors.spec(JobType.APPLY, packed({"main.tf": held})))
    await gate.reached()
    executor.kill()
    await executor.exit_code()
    (executors.workspaces / "job_1.1" / NAME).write_text(STALE)
    await gate.open()
    await gone(executor.process.pid)
    salvage = await executors.salvage()
    assert await salvage.exit_code() == 0, salvage.said
    assert hub.states == []


def damaged(file: Path) -> None:
    file.write_bytes(b"\0not a state")


def too_large(file: Path) -> None:
    os.truncate(file, MAX_STATE_BYTES + 1)


@pytest.mark.engine
@pytest.mark.feature("J15.kept", "O4.salvaged")
@pytest.mark.parametrize("change", [damaged, too_large])
async def test_salvage_delivers_a_state_that_cannot_be_read_unchanged_and_reads_none_that_is_too_large(
    hub: FakeExecutorHub, executors: ExecutorProcesses, change: Callable[[Path], None]
) -> None:
    """A sparse file of 8 GB was read whole: the delivery ran out of memory and was started again, for ever."""
    gate = Gate(executors.folder)
    executor = await executors.run(executors.spec(JobType.APPLY, packed({"main.tf": gated(gate)})))
    await at_the_gate(hub)
    await killed_alone(executor, gate)
    change(executors.workspaces / "job_1.1" / NAME)
    salvage = await executors.salvage()
    assert await salvage.exit_code() == 0, salvage.said
    said = hub.log(Stream.SYSTEM)
    if change is too_large:
        assert all(fact.origin == "engine" for _, fact, _ in hub.states)
        assert b"errored.tfstate has more than the 268,435,456 bytes" in said
    else:
        _, fact, content = hub.states[-1]
        assert (content, "not a state" in fact.problem) == (b"\0not a state", True)
        assert b"errored.tfstate cannot be read" in said


def test_a_link_of_that_name_is_removed_and_what_it_leads_to_is_not(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("x")
    (tmp_path / NAME).symlink_to("other")
    assert leftover.remove(tmp_path / NAME, tmp_path)
    assert not leftover.remove(tmp_path / NAME, tmp_path)
    assert (tmp_path / "other").exists()


def test_a_folder_that_became_a_link_out_of_the_workspace_leads_to_nobody_elses_state(tmp_path: Path) -> None:
    """A plan put a link to another job's workspace in the place of its folder: that job's state was removed, or taken."""
    place, others = tmp_path / "own", tmp_path / "others"
    for folder in (place, others):
        folder.mkdir()
    (others / NAME).write_text(STALE)
    (place / "app").symlink_to(others)
    assert leftover.find(place / "app" / NAME, place) is None
    with pytest.raises(Conflict, match="leads out of the workspace"):
        leftover.remove(place / "app" / NAME, place)
    assert (others / NAME).read_text() == STALE


@pytest.mark.feature("X4.isolation")
def test_a_folder_that_is_exchanged_for_a_link_again_and_again_never_leads_to_somebody_elses_state(
    tmp_path: Path,
) -> None:
    """The folder was checked and then opened by its path: in between, it had become a link to the folder of another module."""
    place, others = tmp_path / "own", tmp_path / "others"
    for folder, owner in ((place / "app", "own"), (others, "somebody else")):
        folder.mkdir(parents=True)
        (folder / NAME).write_text(owner)
    (tmp_path / "own" / "link").symlink_to(others)
    has_ended = threading.Event()

    def exchange() -> None:
        names = [os.fsencode(place / name) for name in ("app", "link", "aside")]
        while not has_ended.is_set():
            for old, new in ((0, 2), (1, 0), (0, 1), (2, 0)):
                os.rename(names[old], names[new])

    exchanging = threading.Thread(target=exchange)
    exchanging.start()
    read = set[bytes | None]()
    try:
        for _ in range(4000):
            with contextlib.suppress(OSError):
                if leftover.find(place / "app" / NAME, place):
                    read.add(leftover.read(place / "app" / NAME, place))
    finally:
        has_ended.set()
        exchanging.join()
    assert read == {b"own"}


def test_what_is_not_a_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("x")
    (tmp_path / "link").symlink_to("other")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "missing", "missing/file"):
        assert leftover.find(tmp_path / name, tmp_path) is None
        with pytest.raises(OSError, match=rf"'{Path(name).name}'|{name.partition('/')[0]}"):
            leftover.read(tmp_path / name, tmp_path)


def test_a_folder_may_be_a_link_inside_of_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "v2").mkdir()
    (tmp_path / "current").symlink_to("v2")
    (tmp_path / "v2" / NAME).write_text("state")
    assert leftover.find(tmp_path / "current" / NAME, tmp_path)
    assert leftover.read(tmp_path / "current" / NAME, tmp_path) == b"state"
    assert leftover.remove(tmp_path / "current" / NAME, tmp_path)
    assert not os.listdir(tmp_path / "v2")


def test_a_folder_of_that_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(Conflict, match=r"folder errored\.tfstate"):
        leftover.remove(tmp_path / NAME, tmp_path)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (
            '{"serial": 1, "lineage": "l", "resources": [{"instances": [{}, {}]}, {"mode": "data", "instances": [{}]}]}',
            2,
        ),
        ('{"serial": 1, "lineage": "l", "resources": []}', 0),
        ('{"serial": 1, "lineage": "l", "encrypted_data": "x"}', None),
        ('{"serial": 1, "lineage": "l", "resources": {"of": "a later format"}}', None),
    ],
)
def test_the_resource_instances_of_a_state_are_counted_where_they_can_be_read(text: str, count: int | None) -> None:
    assert ENGINE.identify_state(text.encode()).resources == count
