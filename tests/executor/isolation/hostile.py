"""Runs a hostile module with the real engine below executors of root and of an ordinary user."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import terracrew
from terracrew.protocol.spec import JobType
from terracrew.protocol.start import EngineAccount, IsolationSettings
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub

ORDINARY_UID = 23460
_SYSTEM_PYTHON = "/usr/bin/python3"
_MAIN = """
resource "terraform_data" "thief" {
  provisioner "local-exec" {
    command = "/usr/bin/python3 attack.py"
  }
}
"""
_PRELUDE = """
import ctypes, os, resource, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
def attempt(name, attack):
    try:
        attack()
    except OSError as error:
        print("REFUSED", name, os.strerror(error.errno), flush=True)
    else:
        print("DONE", name, flush=True)
"""


@contextmanager
def executors_of(who: str, hub: FakeExecutorHub, tofu: str) -> Generator[ExecutorProcesses]:
    """Yield executors of root, or of an ordinary user, in a directory that every user can enter. They are to be closed."""
    if os.geteuid() != 0 and who == "root":
        pytest.skip("this is not root")
    directory = Path(tempfile.mkdtemp(prefix="terracrew-hostile-", dir="/tmp"))
    try:
        (directory / "bin").mkdir()
        shutil.copy2(tofu, directory / "bin" / "tofu")
        (directory / "tmp").mkdir()
        executors = ExecutorProcesses(hub, directory)
        if os.geteuid() == 0 and who == "ordinary":
            _use_system_python(executors)
            executors.uid = ORDINARY_UID
            for path in (directory, directory / "tmp"):
                os.chown(path, ORDINARY_UID, ORDINARY_UID)
        yield executors
    finally:
        shutil.rmtree(directory)


def _use_system_python(executors: ExecutorProcesses) -> None:
    """The Python of the tests may be in a directory of root."""
    asked = "import sys; print(sys.version_info[:2])"
    if subprocess.run([_SYSTEM_PYTHON, "-c", asked], capture_output=True, text=True).stdout.strip() != str(
        sys.version_info[:2]
    ):
        pytest.skip(f"{_SYSTEM_PYTHON} has another version than the Python of the tests")
    executors.python = _SYSTEM_PYTHON
    executors.python_path = os.pathsep.join((str(Path(terracrew.__file__).parents[1]), sysconfig.get_path("platlib")))


async def attacked(
    hub: FakeExecutorHub,
    executors: ExecutorProcesses,
    attack: str,
    *,
    private: tuple[Path, ...] = (),
    has_view: bool = False,
    account: EngineAccount | None = None,
) -> dict[str, str]:
    """Run a module with this attack in Python. Returns what each attempt ended with: DONE, or why it was refused."""
    folder = executors.folder
    (folder / "m").mkdir()
    (folder / "m" / "attack.py").write_text(_PRELUDE + attack)
    spec = executors.spec(JobType.APPLY, module(folder / "m", main=_MAIN))
    executors.environment = {"TMPDIR": str(folder / "tmp"), "PATH": "/usr/bin:/bin"}
    isolation = IsolationSettings(
        write_paths=[str(folder / "tmp")],
        private_paths=[str(executors.directory), str(executors.cache), str(executors.workspaces), *map(str, private)],
        has_view=has_view,
    )
    if account is not None:
        os.chown(folder / "tmp", account.uid, account.gid)
    executor = await executors.run(
        spec, isolation=isolation, engine_paths=[str(folder / "bin")], engine_account=account
    )
    assert await executor.exit_code() == 0, executor.said
    printed = re.sub(r"\x1b\[[0-9;]*m", "", hub.log().decode())
    assert hub.result.status == "SUCCEEDED", printed
    found = re.findall(r"\): (DONE|REFUSED) (\S+) ?(.*)", printed)
    return {name: reason if outcome == "REFUSED" else outcome for outcome, name, reason in found}
