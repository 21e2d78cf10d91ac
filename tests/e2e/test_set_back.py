"""A database that is set back under running applies: nothing is made twice unasked, and nothing is lost (rule 10)."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.e2e.backups import admin_token, program, terracrew
from tests.e2e.gate import Gate
from tests.e2e.system import System, eventually, running
from tests.machine.needs import need
from tests.machine.postgres_server import PostgresServer, missing

pytestmark = pytest.mark.engine
MAKES = """
data "terraform_remote_state" "gate" {
  backend = "http"
  config  = { address = "%s" }
}
resource "terraform_data" "thing" {
  input = data.terraform_remote_state.gate.outputs.word
  provisioner "local-exec" { command = "echo made >> %s; until [ -f %s ]; do sleep 0.05; done" }
}
"""


class Module:
    """A module whose plan waits at a gate, and whose apply makes something and then waits for a file."""

    def __init__(self, system: System, directory: Path, name: str, plan: Gate, **fields: Any) -> None:
        self.system, self.path = system, f"net/{name}"
        self.witness, self.end = directory / f"{name}-made", directory / f"{name}-end"
        system.module(self.path, MAKES % (plan.address, self.witness, self.end), **fields)

    def apply(self) -> str:
        return self.system.run(self.path, "APPLY")

    def makes(self) -> None:
        eventually(self.witness.exists, what=f"the middle of the apply of {self.path}")

    @property
    def times(self) -> int:
        return self.witness.read_text().split().count("made") if self.witness.exists() else 0

    @property
    def view(self) -> dict[str, Any]:
        return self.system.api.get(f"/modules/{quote(self.path, safe='')}")


class Site:
    """A server and a runner of its own, at the moment of a backup: one job plans, another one is queued."""

    def __init__(self, system: System, directory: Path) -> None:
        self.system, self.directory = system, directory
        self.server = system.start_server(runner=False)
        if system.database:
            (system.data / "admin.token").write_text(admin_token(system))
        system.start_runner(system.register_runner())

    def backup(self) -> None:
        """Keep the database as it is now."""
        if url := self.system.database:
            dump = self.directory / "dump"
            subprocess.run([program("pg_dump"), "--format=custom", f"--file={dump}", url], check=True, timeout=60)
        else:
            terracrew(self.system, "server", "--data-dir", str(self.system.data), "backup", f"{self.directory}/backup")

    def restore(self, other_database: str, *, has_manifest: bool) -> None:
        """Kill the server, and start one on what was kept, without what the old one remembers."""
        self.server.kill()
        system = self.system
        objects = system.data / "objects"
        system.data = self.directory / "restored"
        if other_database:
            dump = self.directory / "dump"
            subprocess.run([program("pg_restore"), f"--dbname={other_database}", str(dump)], check=True, timeout=60)
            system.database = other_database
            shutil.copytree(objects, system.data / "objects")
        else:
            shutil.copytree(self.directory / "backup", system.data)
            if not has_manifest:
                (system.data / "backup.json").unlink()
        self.server = system.start_server(runner=False)
        if other_database:
            (system.data / "admin.token").write_text(admin_token(system))

    def hold(self) -> dict[str, Any]:
        return eventually(lambda: found if (found := self.system.api.get("/hold"))["is_held"] else None, what="a hold")


def check_that_nothing_is_repeated(
    site: Site, tmp_path: Path, *, other_database: str = "", has_manifest: bool = False
) -> None:
    system = site.system
    with Gate.closed() as closed, Gate.closed() as opened:
        opened.open()
        planned = Module(system, tmp_path, "planned", closed)
        begun = Module(system, tmp_path, "begun", closed)
        queued = Module(system, tmp_path, "queued", opened, tags=["later"])
        later = Module(system, tmp_path, "later", opened)
        jobs = {module.path: module.apply() for module in (planned, begun, queued)}
        system.wait_for_step(jobs[planned.path], "plan")
        system.wait_for_step(jobs[begun.path], "plan")
        closed.reached.wait(30)
        site.backup()

        closed.open()
        system.api.patch("/modules/net%2Fqueued", {"tags": []})
        planned.end.touch()
        queued.end.touch()
        assert system.wait(jobs[planned.path])["status"] == "SUCCEEDED"
        assert system.wait(jobs[queued.path])["status"] == "SUCCEEDED"
        begun.makes()
        unknown = later.apply()
        later.makes()
        site.restore(other_database, has_manifest=has_manifest)

        hold = site.hold()
        assert hold["hold"]["set_back_to"] is not None
        eventually(
            lambda: system.api.get("/jobs", module=later.path)["items"], what="the job that the database had lost"
        )
        lock = eventually(lambda: later.view["lock"], what="the lock of its module")
        assert lock["job_id"] == unknown
        system.api.patch("/modules/net%2Fqueued", {"tags": []})
        reason = eventually(lambda: system.job(jobs[queued.path]).get("reason"), what="why it waits")
        assert reason["code"] == "held"
        later.end.touch()
        begun.end.touch()
        assert system.wait(unknown)["status"] == "SUCCEEDED"
        assert system.wait(jobs[begun.path])["status"] == "SUCCEEDED"
        assert system.state(later.path)["resources"], "what it made is in the state"
        changed = {each["path"] for each in site.hold()["modules"] if each["evidence"]}
        assert {begun.path, later.path} <= changed
        stuck = system.job(jobs[planned.path])
        assert stuck["status"] in ("CLAIMED", "PROCESSING"), "it is not queued again: it counts as begun"
        assert [each.times for each in (planned, begun, queued, later)] == [1, 1, 1, 1]

        system.api.post("/hold/release", {"module": queued.path})
        waiting = eventually(
            lambda: (
                found
                if (found := system.job(jobs[queued.path]))["status"] == "AWAITING_APPROVAL"
                else print(found["status"], found["reason"])
            ),
            what="the question about its plan",
        )
        assert "set back" in waiting["kept_plan"]["why"]
        assert queued.times == 1
        seen = [{"job_id": each["hold_id"], "attempt": 0} for each in waiting["holds"]]
        assert seen
        system.api.post(
            f"/jobs/{waiting['id']}/decline", {"plan": waiting["kept_plan"]["attempt"], "reason": "it exists"}
        )
        system.api.post("/hold/release", {})
        assert not system.api.get("/hold")["is_held"]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("has_manifest", [True, False], ids=["known by its backup.json", "known by its runner"])
def test_after_a_restore_nothing_is_applied_twice_unasked(system: System, tmp_path: Path, has_manifest: bool) -> None:
    """Five of five cases made everything twice, one of them with two engines on one module."""
    check_that_nothing_is_repeated(Site(system, tmp_path), tmp_path, has_manifest=has_manifest)


@pytest.fixture
def on_postgres(tmp_path: Path, postgres_server: PostgresServer) -> Iterator[System]:
    with postgres_server.unmigrated_database() as url, running(tmp_path, url) as found:
        yield found


@pytest.mark.postgres
@pytest.mark.timeout(240)
def test_after_a_restore_of_postgres_nothing_is_applied_twice_unasked(
    on_postgres: System, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    need(missing())
    with postgres_server.unmigrated_database() as other:
        check_that_nothing_is_repeated(Site(on_postgres, tmp_path), tmp_path, other_database=other)
        on_postgres.close()


@pytest.mark.timeout(120)
def test_a_host_that_dies_after_a_restore_does_not_count_as_one_that_has_not_begun(
    system: System, tmp_path: Path
) -> None:
    """The server showed the apply as running without a begin. Its host was killed, and everything was made twice."""
    site = Site(system, tmp_path)
    with Gate.closed() as plan:
        plan.open()
        module = Module(system, tmp_path, "app", plan)
        site.backup()
        job = module.apply()
        module.makes()
        site.restore("", has_manifest=False)
        eventually(lambda: system.job(job)["status"] == "PROCESSING", what="the job that the database had lost")
        leader = system.executor(job)
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getsid(pid) == leader:
                    os.kill(pid, signal.SIGKILL)
        doubtful = eventually(lambda: module.view["doubts"], what="the doubt")
        assert [each["attempt"] for each in doubtful] == [1]
        assert module.times == 1


@pytest.mark.postgres
@pytest.mark.timeout(180)
def test_a_failover_to_a_replica_that_lags_under_a_running_server_is_noticed_before_anything_is_applied(
    on_postgres: System, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    need(missing())
    site = Site(on_postgres, tmp_path)
    system = site.system
    with Gate.closed() as plan, postgres_server.unmigrated_database() as replica:
        plan.open()
        module = Module(system, tmp_path, "app", plan)
        module.end.touch()
        site.backup()
        subprocess.run([program("pg_restore"), f"--dbname={replica}", f"{tmp_path}/dump"], check=True, timeout=60)
        assert system.wait(module.apply())["status"] == "SUCCEEDED"
        fail_over(postgres_server, str(system.database).rpartition("/")[2], replica.rpartition("/")[2])
        hold = site.hold()
        assert [each["path"] for each in hold["modules"]] == [module.path]
        again = module.apply()
        reason = eventually(lambda: system.job(again).get("reason"), what="why it waits")
        assert reason["code"] == "held"
        assert module.times == 1
        system.api.post("/hold/release", {})
        waiting = eventually(
            lambda: found if (found := system.job(again))["status"] == "AWAITING_APPROVAL" else None,
            what="the question about its plan",
        )
        assert waiting["holds"][0]["evidence"], "its runner was told of the change"
        assert module.times == 1
        site.server.stop()
        system.close()


def fail_over(server: PostgresServer, primary: str, replica: str) -> None:
    """Let the replica answer under the name of the primary, as after a failover. Servers that are connected reconnect."""
    server.execute(f"ALTER DATABASE {primary} ALLOW_CONNECTIONS false")
    server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{primary}'")
    server.execute(f"ALTER DATABASE {primary} RENAME TO {primary}_lost")
    server.execute(f"ALTER DATABASE {replica} RENAME TO {primary}")
    server.execute(f"ALTER DATABASE {primary}_lost RENAME TO {replica}")
