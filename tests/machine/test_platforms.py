"""The platforms of the tests: who starts their daemons, who ends them, and what a run says that leaves their tests out."""

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
    monkeypatch.setattr(registry, "_found", lambda name: None)
    assert platforms.why_left_out(["docker"]) == "docker: `make test-platforms` runs these tests"
    monkeypatch.setenv(platforms.CHOICE, "docker")
    assert platforms.why_left_out(["docker"]) is None


@pytest.mark.platform("docker")
def test_a_container_runs_on_the_image_that_tests_build_on() -> None:
    docker = ["docker", "--host", platforms.need("docker")]
    command = [*docker, "run", "--rm", debian_image.image(docker[2]), "cat", "/etc/os-release"]
    assert "VERSION_CODENAME=bookworm" in subprocess.run(command, check=True, capture_output=True, text=True).stdout
