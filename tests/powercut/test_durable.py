"""What each part has on the disk when it goes on: on a disk that keeps nothing but what was synced."""

import os
from pathlib import Path

import msgspec
import pytest

from terracrew.attempt import directories, ownership, process_record, record
from terracrew.executor.delivery.large_states import LargeStates
from terracrew.executor.delivery.outbox import Outbox
from terracrew.executor.delivery.recorder import Offsets, Recorder
from terracrew.masking.redactor import Redactor
from terracrew.protocol import events
from terracrew.protocol.events import StateFact
from terracrew.protocol.spec import Step
from terracrew.runner.instance import LocalInstance
from terracrew.server.db.sqlite.database import open_sqlite
from terracrew.server.objects import open_objects
from terracrew.server.secrets import keyring
from terracrew.system import durable
from tests.powercut.synced import PowerCut
from tests.runner.conftest import granted

pytestmark = pytest.mark.feature("O4.salvaged")

STATE = events.pack_state(
    StateFact("0" * 64, 6, serial=1, lineage="one", is_inline=False, origin="engine"), b"", Step.APPLY, 1.0
)


def test_this_disk_forgets_what_was_not_synced(disk: Path, power: PowerCut) -> None:
    (disk / "unsynced").write_text("content")
    (disk / "named").write_text("content")
    durable.sync_directory(disk)
    (disk / "later").write_text("content")
    after = power.restored()
    assert {path.name: path.read_text() for path in after.iterdir()} == {"unsynced": "", "named": ""}


def test_a_file_and_all_new_directories_above_it_survive(disk: Path, power: PowerCut) -> None:
    durable.make_directory(disk / "one" / "two")
    durable.write(disk / "one" / "two" / "file", b"first")
    durable.write(disk / "one" / "two" / "file", b"second")
    assert power.syncs == 2 + 2 + 2
    assert (power.restored() / "one" / "two" / "file").read_text() == "second"


def test_a_published_file_is_whole_and_a_second_one_is_refused(disk: Path, power: PowerCut) -> None:
    assert durable.publish(disk / "file", b"first")
    assert not durable.publish(disk / "file", b"second")
    assert [path.name for path in disk.iterdir()] == ["file"]
    assert (power.restored() / "file").read_text() == "first"


def test_a_directory_is_moved_from_one_place_to_another(disk: Path, power: PowerCut) -> None:
    for name in ("from", "to", "from/moved"):
        durable.make_directory(disk / name)
    durable.rename(disk / "from" / "moved", disk / "to" / "moved")
    after = power.restored()
    assert (after / "to" / "moved").is_dir()
    assert not (after / "from" / "moved").exists()


def test_a_grant_survives_and_so_does_the_fact_that_a_process_signed_it(disk: Path, power: PowerCut) -> None:
    """Symptom: after a power cut `pid` had 0 bytes, and the job was stuck forever with its lock held."""
    directory = directories.create(disk, granted(), "http://server")
    assert power.syncs == 3
    assert record.find(power.restored() / directory.name) is not None
    assert ownership.process_of(power.restored() / directory.name) is None
    assert ownership.sign(directory, process_record.of(os.getpid()))
    assert ownership.process_of(power.restored() / directory.name) is None
    directories.sync(directory)
    after = power.restored() / directory.name
    assert ownership.process_of(after) == ownership.UNKNOWN_PROCESS, (
        "there was a process; none of before the cut is alive"
    )
    salvage = process_record.of(os.getpid(), is_salvage=True)
    assert ownership.sign(directory, salvage)
    signed = msgspec.structs.replace(salvage, executor_boot_id=process_record.boot_id())
    assert ownership.process_of(power.restored() / directory.name) == signed


def test_a_hand_back_survives(disk: Path, power: PowerCut) -> None:
    directory = directories.create(disk, granted(), "http://server")
    assert ownership.forbid_start(directory)
    assert ownership.forbid_start(power.restored() / directory.name)


def test_an_instance_keeps_its_key(disk: Path, power: PowerCut) -> None:
    instance = LocalInstance(str(disk / "new" / "runner"))
    instance.release()
    again = LocalInstance(str(power.restored() / "new" / "runner"))
    assert again.key == instance.key
    again.release()


def test_a_damaged_instance_key_is_replaced(disk: Path) -> None:
    """Symptom: half a key was used as if it were one, so that the runner registered as a different instance silently."""
    (disk / "instance.key").write_text("ab12")
    instance = LocalInstance(str(disk))
    assert len(instance.key) == 64
    instance.release()


def test_a_state_that_was_acknowledged_survives_with_the_name_of_its_outbox(disk: Path, power: PowerCut) -> None:
    """Symptom: the outbox was synced and its name was not, so the first state of an attempt could vanish with the file."""
    outbox = Outbox(disk / "outbox")
    recorder = Recorder(outbox, Redactor([]), Offsets(disk / "offset", outbox))
    recorder.say("one")
    recorder.state(STATE)
    assert power.syncs == 2
    recorder.state(STATE)
    assert power.syncs == 3, "only the first state pays for the name"
    assert Outbox(power.restored() / "outbox").last == 3


def test_a_large_state_survives_from_the_moment_it_has_a_number(disk: Path, power: PowerCut) -> None:
    """Symptom: `states/` itself was not synced into the attempt's directory; its content was unreachable after the cut."""
    large_states = LargeStates(disk / "states", 0)
    large_states.write(b"sealed")
    large_states.place(1, event=STATE)
    found = LargeStates(power.restored() / "states", 0).unannounced
    assert [(each.path.name, each.path.read_bytes(), each.event) for each in found] == [("1", b"sealed", STATE)]


async def test_an_object_survives_with_every_new_folder_above_it(disk: Path, power: PowerCut) -> None:
    """Symptom: only the object's own folder was synced; a module's first state was in a folder that no longer existed."""
    objects = open_objects(f"file://{disk}/data/objects")
    await objects.put("states/mod_1/one", b"content")
    before = power.syncs
    await objects.put("states/mod_1/two", b"content")
    assert power.syncs - before == 2, "the second object of a folder pays for itself alone"
    again = open_objects(f"file://{power.restored()}/data/objects")
    assert await again.get("states/mod_1/one") == await again.get("states/mod_1/two") == b"content"


async def test_a_new_database_and_its_master_key_survive(disk: Path, power: PowerCut) -> None:
    database = await open_sqlite(disk / "data" / "terracrew.db")
    await keyring.open_keyring(database, generate_in=disk / "data")
    await database.close()
    after = power.restored() / "data"
    assert (after / "terracrew.db").exists()
    assert len((after / keyring.FILE_NAME).read_text().strip()) == 44
