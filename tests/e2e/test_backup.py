"""A backup that is made under load, restored to a new place, and served to runners that are ahead of it."""

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import modules
from tests.e2e.backups import admin_token, program, terracrew
from tests.e2e.system import System, eventually, lines_of, running
from tests.machine.needs import need
from tests.machine.postgres_server import PostgresServer, missing
from tests.thoroughness import thorough

pytestmark = pytest.mark.engine
LINES = 60
"""In thirds: before the backup, after it, and after the restore."""


class Load:
    """Somebody who makes one group after the other while the backup is made."""

    def __init__(self, system: System) -> None:
        self._system, self._ends = system, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(30)

    def _run(self) -> None:
        api, number = self._system.api, 0
        while not self._ends.is_set():
            api.post("/groups", {"path": f"load-{number:05}"})
            number += 1


def talk(system: System, tmp_path: Path) -> str:
    """Start a job that prints a third of its lines and then waits for a file; beside one that has ended."""
    system.start_runner(system.register_runner())
    system.module("net/done", modules.quick())
    assert system.wait(system.run("net/done", "APPLY"))["status"] == "SUCCEEDED"
    script = (
        f"i=1; while [ $i -le {LINES} ]; do echo line-$i-of-it; echo $i >> {tmp_path}/witness; "
        f"if [ $((i % {LINES // 3})) = 0 ]; then until [ -f {tmp_path}/gate-$i ]; do sleep 0.05; done; fi; i=$((i+1)); done"
    )
    system.module("net/busy", modules.scripted_apply(script))
    open_gate(tmp_path, LINES)
    job = system.run("net/busy", "APPLY")
    eventually(lambda: printed(system, job) == LINES // 3, what="the first third of the lines")
    return job


def open_gate(tmp_path: Path, after_line: int) -> None:
    (tmp_path / f"gate-{after_line}").touch()


def printed(system: System, job: str) -> int:
    return len(numbers(system, job))


def numbers(system: System, job: str) -> list[int]:
    found = (re.search(r"\(local-exec\): line-(\d+)-of-it", line) for line in lines_of(system, job, "line-"))
    return [int(match[1]) for match in found if match]


def check_everything_is_there(system: System, job: str, tmp_path: Path) -> None:
    groups = [each["path"] for each in system.api.list("/groups") if each["path"].startswith("load-")]
    assert sorted(groups) == [f"load-{number:05}" for number in range(len(groups))], "one moment of the database"
    open_gate(tmp_path, 2 * LINES // 3)
    assert system.wait(job)["status"] == "SUCCEEDED"
    assert numbers(system, job) == list(range(1, LINES + 1)), "each line once, in order"
    assert (tmp_path / "witness").read_text().split() == [str(n) for n in range(1, LINES + 1)], "it ran once"
    assert len(system.state("net/busy")["resources"]) == 1
    assert len(system.state("net/done")["resources"]) == 1
    (done,) = system.api.get("/jobs", module="net/done")["items"]
    assert "Apply complete!" in system.log(done["id"])
    assert system.wait(system.run("net/done"))["status"] == "SUCCEEDED"


def test_a_backup_of_a_server_that_works_is_restored_and_its_executors_go_on_from_there(
    system: System, tmp_path: Path
) -> None:
    server = system.start_server(runner=False)
    job = talk(system, tmp_path)
    backup = tmp_path / "backup"
    make = ("server", "--data-dir", str(system.data), "backup", str(backup))
    with Load(system):
        assert "bytes of database" in terracrew(system, *make)
    assert "is not empty" in terracrew(system, *make, code=5)
    assert (backup.stat().st_mode & 0o77, (backup / "master.key").stat().st_mode & 0o77) == (0, 0)
    open_gate(tmp_path, LINES // 3)
    eventually(lambda: printed(system, job) == 2 * LINES // 3, what="more lines than the backup holds")
    server.kill()
    token = (system.data / "admin.token").read_text()
    system.data = tmp_path / "restored"
    shutil.copytree(backup, system.data)
    system.start_server(runner=False)
    assert (system.data / "admin.token").read_text() != token, "a new one: the old one is not in the backup"
    check_everything_is_there(system, job, tmp_path)


@pytest.fixture
def on_postgres(tmp_path: Path, postgres_server: PostgresServer) -> Iterator[System]:
    with postgres_server.unmigrated_database() as url, running(tmp_path, url) as found:
        yield found


@pytest.mark.postgres
@thorough
def test_a_dump_of_postgres_and_then_the_objects_are_a_backup_and_no_browser_is_needed_for_a_token(
    on_postgres: System, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """On PostgreSQL no `admin.token` was made, so the first API token needed a browser."""
    need(missing())
    system = on_postgres
    server = system.start_server(runner=False)
    (system.data / "admin.token").write_text(admin_token(system))
    job = talk(system, tmp_path)
    dump = tmp_path / "dump"
    url = system.database
    with Load(system):
        subprocess.run([program("pg_dump"), "--format=custom", f"--file={dump}", url], check=True, timeout=60)
        shutil.copytree(system.data / "objects", tmp_path / "restored" / "objects")
    open_gate(tmp_path, LINES // 3)
    eventually(lambda: printed(system, job) == 2 * LINES // 3, what="more lines than the backup holds")
    server.kill()
    with postgres_server.unmigrated_database() as other:
        subprocess.run([program("pg_restore"), f"--dbname={other}", str(dump)], check=True, timeout=60)
        system.database, system.data = other, tmp_path / "restored"
        restored = system.start_server(runner=False)
        (system.data / "admin.token").write_text(admin_token(system))
        check_everything_is_there(system, job, tmp_path)
        restored.stop()
