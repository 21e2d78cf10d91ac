"""The files of an attempt: who may sign its directory, and what a half-finished act leaves behind."""

import os
from pathlib import Path

import msgspec
import pytest

from terracrew.attempt import directories, ownership, process_record
from terracrew.attempt.record import AttemptRecord
from terracrew.protocol.messages import AttemptRef
from terracrew.runner.attempts.supervisor import describe_end
from terracrew.runner.dispatch.protocol import AttemptEnd
from terracrew.runner.processes import members
from tests.runner.conftest import granted


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return directories.create(tmp_path, granted(), "http://server")


def test_a_journaled_grant_is_found_again_with_what_its_delivery_needs(directory: Path) -> None:
    assert directories.scan(directory.parent) == {AttemptRef("job_1", 1): directory}
    record = msgspec.json.decode((directory / "attempt.json").read_bytes(), type=AttemptRecord)
    assert record == AttemptRecord(
        "job_1", 1, "http://server", "hub-credential", ["hub-credential", "api-credential"], "a/m"
    )
    assert "k" * 32 not in (directory / "attempt.json").read_text()  # the key of the states lives in memory only


def test_a_grant_is_never_journaled_twice(directory: Path) -> None:
    with pytest.raises(FileExistsError):
        directories.create(directory.parent, granted(), "http://server")


def test_of_hand_back_and_executor_only_one_gets_the_attempt(directory: Path) -> None:
    mine = process_record.of(os.getpid())
    assert ownership.forbid_start(directory)
    assert ownership.forbid_start(directory)
    assert not ownership.sign(directory, mine)
    assert ownership.process_of(directory) is None


def test_an_attempt_that_an_executor_has_signed_is_not_sealed(directory: Path) -> None:
    mine = process_record.of(os.getpid())
    assert ownership.sign(directory, mine)
    assert not ownership.forbid_start(directory)
    assert ownership.process_of(directory) == mine
    assert sorted(os.listdir(directory)) == ["attempt.json", "pid"]


@pytest.mark.parametrize("boot", [process_record.boot_id(), "an earlier boot", ""])
def test_a_salvage_signs_over_the_executor_that_died_and_knows_its_boot(directory: Path, boot: str) -> None:
    ownership.sign(directory, msgspec.structs.replace(process_record.of(os.getpid()), boot_id=boot))
    salvage = process_record.of(os.getppid(), is_salvage=True)
    for _ in range(2):  # the second one continues after the first one was killed
        assert ownership.sign(directory, salvage)
        assert ownership.process_of(directory) == msgspec.structs.replace(salvage, executor_boot_id=boot)
        assert ownership.has_machine_crashed(directory) == (boot != process_record.boot_id())


def test_what_is_not_an_attempt_is_left_alone(tmp_path: Path) -> None:
    for name in ("notes", "job_1.x", "..1", "a b.1"):
        (tmp_path / name).mkdir()
    (tmp_path / "job_2.1").write_text("a file")
    assert directories.scan(tmp_path) == {}


def test_this_process_is_alive_and_its_number_at_another_time_is_not() -> None:
    mine = process_record.of(os.getpid())
    assert process_record.is_alive(mine)
    assert not process_record.is_alive(msgspec.structs.replace(mine, start_time=mine.start_time - 1))
    assert not process_record.is_alive(msgspec.structs.replace(mine, boot_id="another boot"))
    assert list(members.session_of(msgspec.structs.replace(mine, start_time=mine.start_time - 1))) == []


def test_a_host_that_was_restarted_is_named_as_the_cause() -> None:
    """After a reboot the attempt "ended while no runner watched it", and nobody thought of the host."""
    mine = process_record.of(os.getpid())
    before = msgspec.structs.replace(mine, boot_id="another boot")
    assert describe_end(AttemptEnd(None), before) == "the host was restarted while it ran"
    assert describe_end(AttemptEnd(None), mine) == "the executor ended while no runner watched it"
    assert describe_end(AttemptEnd(137, "the container was killed"), before) == "the container was killed"
    assert describe_end(AttemptEnd(-9), mine) == "the executor was ended by signal 9"
