"""The platforms of the tests: who starts their daemons, who ends them, and what a run says that leaves their tests out."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.machine import platforms
from tests.machine.platforms import debian_image, registry
from tests.machine.platforms.shared_daemon import SharedDaemon

_DAEMON = """
import os, signal, socket, sys
os.chdir(sys.argv[1])
listener = socket.socket(socket.AF_UNIX)
listener.bind("socket.new")
listener.listen()
os.rename("socket.new", "socket")
signal.pause()
"""


def daemon(folder: Path) -> SharedDaemon:
    return SharedDaemon(folder, [sys.executable, "-c", _DAEMON, str(folder)], lambda: is_running(folder))


def _found_nothing(_: str) -> None:
    """The platform does not answer at its usual address."""


class _Prepared:
    """A platform that only writes down that it was prepared."""

    def __init__(self, name: str, why_missing: str | None, prepared: list[str]) -> None:
        self._name, self._why_missing, self._prepared = name, why_missing, prepared

    def missing(self) -> str | None:
        return self._why_missing

    def prepare(self) -> None:
        self._prepared.append(self._name)


def is_running(folder: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(folder / "socket")) == 0


def test_the_last_user_ends_a_shared_daemon(memory_path: Path) -> None:
    first, second = daemon(memory_path), daemon(memory_path)
    first.join()
    pid = (memory_path / "pid").read_text()
    second.join()
    assert (memory_path / "pid").read_text() == pid
    first.leave()
    assert is_running(memory_path)
    second.leave()
    assert not is_running(memory_path)


def test_a_daemon_whose_users_were_killed_is_used_again(memory_path: Path) -> None:
    """A run that was killed cannot leave; the kernel releases its lock."""
    killed = "import sys, os; from tests.machine.test_platforms import daemon; from pathlib import Path; "
    killed += "daemon(Path(sys.argv[1])).join(); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", killed, str(memory_path)], check=False, cwd=Path(__file__).parents[2])
    assert is_running(memory_path)
    started: list[bool] = []
    user = daemon(memory_path)
    user.join(lambda: started.append(True))
    assert started == []
    user.leave()
    assert not is_running(memory_path)


def test_a_run_without_platforms_says_which_command_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(platforms.CHOICE, raising=False)
    monkeypatch.setattr(registry, "find", _found_nothing)
    assert platforms.why_left_out(["docker"]) == "docker: `make test-platforms` runs these tests"
    monkeypatch.setenv(platforms.CHOICE, "docker")
    assert platforms.why_left_out(["docker"]) is None


def test_only_chosen_platforms_are_prepared_and_only_where_they_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[str] = []
    names = {"docker": None, "kubernetes": "go is not installed", "vault": None}
    made = {name: _Prepared(name, why, prepared) for name, why in names.items()}
    monkeypatch.setattr(registry, "known_platforms", lambda: made)
    monkeypatch.setenv(platforms.CHOICE, "vault")
    platforms.prepare()
    assert prepared == ["vault"]
    monkeypatch.setenv(platforms.CHOICE, "all")
    platforms.prepare()
    assert prepared == ["vault", "docker", "vault"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_mounts_of_a_root_file_system_that_was_killed_end_with_it(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, devices, place = memory_path / "mmdebstrap", memory_path / "devices", memory_path / "root"
    devices.mkdir()
    (devices / "null").touch()
    place.mkdir()
    commands = f"mount --bind {devices} {place} && test -e {place}/null && echo mounted >&2; kill -9 $$"
    program.write_text(f"#!/bin/sh\n{commands}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{memory_path}:{os.environ['PATH']}")
    with pytest.raises(RuntimeError, match="mounted"):
        debian_image.made([], "none", memory_path)
    assert str(place) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.platform("docker")
def test_a_container_runs_on_the_image_that_tests_build_on() -> None:
    docker = ["docker", "--host", platforms.need("docker")]
    command = [*docker, "run", "--rm", debian_image.image(docker[2]), "cat", "/etc/os-release"]
    assert "VERSION_CODENAME=bookworm" in subprocess.run(command, check=True, capture_output=True, text=True).stdout
