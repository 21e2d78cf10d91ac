"""A runner updates itself from its server with real wheels, is killed at every step of it, and no job notices."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from terracrew.releases import minisign
from terracrew.runner.updating import versions
from tests.e2e import modules
from tests.e2e.command_line import terracrew
from tests.e2e.system import System, eventually
from tests.machine import environments, wheels
from tests.thoroughness import thorough

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300), pytest.mark.feature("V3.update")]

INSTALLED, NEW = "0.1.0-rc.1", "0.1.0-rc.2"
KEY = minisign.SecretKey.generate()
WAIT_SECONDS = 120


class UpdatingRunner:
    """`terracrew runner start` of an environment with a wheel: a launcher, and the runner that it has started."""

    def __init__(self, system: System, program: Path, credentials: dict[str, str]) -> None:
        self._system, self._program = system, program
        self.directory = system.runner_directory()
        own = {name: value for name, value in system.env.items() if not name.startswith("PYTHON")}
        self._env = own | credentials | {"TERRACREW_RUNNER__SELF_UPDATE": "true"}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def versions(self) -> Path:
        return versions.folder_of(self.directory)

    def start(self) -> None:
        command = [str(self._program), "runner", "start", "--working-directory", str(self.directory)]
        with (self._system.directory / "updating-runner.log").open("ab") as log:
            self._process = subprocess.Popen(command, env=self._env, stdout=log, stderr=log, cwd="/")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(WAIT_SECONDS)

    def kill_when(self, is_so: Callable[[], bool]) -> None:
        eventually(is_so, within=WAIT_SECONDS, what="the step of the update")
        self.kill()

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(WAIT_SECONDS)


@pytest.fixture
def runner(system: System, tmp_path: Path) -> Iterator[UpdatingRunner]:
    system.env["TERRACREW_SERVER_RELEASE_KEY"] = str(KEY.public_key)
    system.start_server(runner=False)
    credentials = system.register_runner()
    assert credentials["TERRACREW_RUNNER_RELEASE_KEY"] == str(KEY.public_key)
    made = UpdatingRunner(system, environments.make(tmp_path / "venv", wheels.build(INSTALLED)), credentials)
    try:
        yield made
    finally:
        made.close()


def publish(system: System, version: str) -> None:
    wheel, folder = wheels.build(version), system.directory / "release"
    folder.mkdir()
    (folder / wheel.name).write_bytes(wheel.read_bytes())
    comment = minisign.release_comment(version, wheel.name)
    (folder / f"{wheel.name}.minisig").write_text(minisign.sign(KEY, wheel, comment))
    terracrew(system, "release", "publish", version, "--artifact", str(folder))


def wait_for_version(system: System, wanted: str) -> None:
    def is_here() -> bool:
        found: list[dict[str, Any]] = system.api.get("/runners/crew")["instances"]
        return [(each["version"], each["status"]) for each in found] == [(wanted, "ONLINE")]

    eventually(is_here, within=WAIT_SECONDS, what=f"a runner of {wanted}")


def update(system: System) -> str:
    return system.api.post("/runners/crew/update", {"version": NEW})["id"]


def end_of(system: System, fleet_job: str) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        found = system.api.get(f"/fleet-jobs/{fleet_job}")
        return found if found["status"] in ("SUCCEEDED", "FAILED", "CANCELED") else None

    return eventually(ended, within=WAIT_SECONDS, what="the end of the update")


@thorough
def test_a_runner_is_updated_while_it_is_killed_at_every_step_and_its_job_goes_on(
    system: System, runner: UpdatingRunner
) -> None:
    runner.start()
    wait_for_version(system, INSTALLED)
    witness, gate = system.directory / "witness", system.directory / "gate"
    system.module("slow", modules.gated_apply(str(witness), str(gate)))
    system.module("quick", modules.quick())
    job = system.run("slow", "APPLY")
    eventually(witness.exists, what="the beginning of the apply")
    executor = system.executor(job)
    publish(system, NEW)

    first = update(system)
    folder, current = runner.versions, runner.versions / "current.json"
    for has_begun in (
        lambda: any((folder / "fetched").glob("*.whl")),
        lambda: (folder / f".{NEW}.new").exists(),
        lambda: (folder / NEW).exists(),
    ):
        runner.kill_when(has_begun)
        assert system.executor(job) == executor
        runner.start()
    runner.kill_when(lambda: json.loads(current.read_bytes())["status"] == "trial" if current.exists() else False)
    runner.start()
    wait_for_version(system, INSTALLED)
    ended = end_of(system, first)
    assert ended["status"] == "FAILED"
    assert versions.INTERRUPTED in json.dumps(ended)

    second = update(system)
    assert end_of(system, second)["status"] == "SUCCEEDED", system.api.get(f"/fleet-jobs/{second}")
    wait_for_version(system, NEW)
    assert system.executor(job) == executor
    os.kill(executor, 0)
    assert system.status(job) == "PROCESSING"
    gate.touch()
    assert system.wait(job)["status"] == "SUCCEEDED"
    assert witness.read_text().split() == ["begin", "end"]
    assert [attempt["number"] for attempt in system.job(job)["attempts"]] == [1]
    assert system.wait(system.run("quick", "APPLY"))["status"] == "SUCCEEDED"
