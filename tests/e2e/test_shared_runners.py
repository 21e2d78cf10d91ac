"""A real server whose settings file declares shared runners: each runs a job, and they follow the file through restarts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from terracrew.errors import Removed
from tests.e2e import modules
from tests.e2e.command_line import terracrew
from tests.e2e.constants import ended
from tests.e2e.gate import Gate
from tests.e2e.system import System, eventually

pytestmark = [pytest.mark.engine, pytest.mark.feature("R3.declared"), pytest.mark.timeout(240)]
NEAR = '[shared_runners.near]\nkind = "built-in"\nslots = 2\ntags = ["local"]\n'
FAR = '[shared_runners.far]\nkind = "remote"\nworker_token_sha256 = "{sha256}"\n'


def _local(system: System, *arguments: str, code: int = 0) -> str:
    """Run a command that needs no server."""
    command = [sys.executable, "-m", "terracrew.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=system.env)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def _online(system: System, name: str) -> dict[str, object]:
    def probe() -> dict[str, object] | None:
        found = system.api.get(f"/runners/{name}")
        return found if found["status"] == "ONLINE" else None

    return eventually(probe, what=f"{name} online")


def _names(system: System) -> set[str]:
    return {each["name"] for each in system.api.list("/runners")}


def _apply(system: System, module: str, runner: str) -> None:
    done = system.wait(system.run(module, "APPLY"))
    assert (done["status"], done["runner_path"]) == ("SUCCEEDED", runner), done


@pytest.mark.feature("R8.shared", "T2.layers")
def test_declared_runners_run_jobs_change_retire_and_come_back(system: System, tmp_path: Path, gate: Gate) -> None:
    file = tmp_path / "server.toml"
    system.env["TERRACREW_SERVER_CONFIG"] = str(file)
    made = json.loads(_local(system, "server", "worker-token", "far", "--json"))
    far = FAR.format(sha256=made["worker_token_sha256"])
    file.write_text(NEAR + far)

    server = system.start_server(runner=False)
    runner = system.start_runner(made["environment"])
    assert _online(system, "near")["declared_in"] == str(file)
    identity = _online(system, "far")["id"]
    assert _names(system) == {"near", "far"}, "a file that declares runners declares all of them"
    assert str(file) in terracrew(system, "runner", "show", "near")
    system.module("a", modules.quick(), runner="near")
    system.module("b", modules.quick(), runner="far")
    _apply(system, "a", "near")
    _apply(system, "b", "far")

    # `far` is retired while it runs a job: the job survives the restart and finishes, then the record goes.
    system.module("c", modules.gated_plan(gate.address), runner="far")
    job = system.run("c")
    assert gate.reached.wait(60)
    server.stop()
    file.write_text(NEAR.replace("slots = 2", "slots = 3"))
    server = system.start_server(runner=False)
    assert _online(system, "near")["max_jobs"] == 3
    retired = system.api.get("/runners/far")
    assert (retired["is_declared"], retired["is_draining"]) == (False, True)
    gate.open()
    done = system.wait(job)
    assert (done["status"], done["attempt"]) == ("SUCCEEDED", 1), done
    assert ended(runner) == Removed.exit_code
    eventually(lambda: _names(system) == {"near"}, what="the removal of far")

    # Declared again, it is the same runner. `near` is retired now.
    server.stop()
    file.write_text(far)
    system.start_server(runner=False)
    system.start_runner(made["environment"])
    assert _online(system, "far")["id"] == identity
    _apply(system, "b", "far")
    eventually(lambda: _names(system) == {"far"}, what="the removal of near")


def test_a_start_with_a_wrong_declaration_says_everything_and_changes_nothing(system: System, tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text('[shared_runners.far]\nkind = "remote"\n[shared_runners.near]\nkind = "built-in"\nslotts = 1\n')
    words = _local(system, "server", "--config", str(file), "--data-dir", str(system.data), code=2)
    assert "shared_runners.near.slotts" in words
    assert not system.data.exists()
