"""Terminals and shared memory, by which a module reached the people and the other modules of its runner."""

import errno
import os
import pty
import tty
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from terracrew.executor.isolation import landlock
from terracrew.testing.executor_processes import ExecutorProcesses
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.isolation import hostile

pytestmark = [
    pytest.mark.engine,
    pytest.mark.feature("X4.isolation"),
    pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock"),
]
DENIED = os.strerror(errno.EACCES)


@pytest.fixture(params=["root", "ordinary"])
async def executors(
    request: pytest.FixtureRequest, hub: FakeExecutorHub, tofu: str
) -> AsyncIterator[ExecutorProcesses]:
    with hostile.executors_of(request.param, hub, tofu) as found:
        yield found
        await found.close()


async def test_a_module_cannot_use_the_terminals_of_its_user(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """A module read what was typed into a terminal of the runner's user, and could have asked for a password there."""
    master, slave = pty.openpty()
    try:
        tty.setraw(slave)
        terminal = os.ttyname(slave)
        if executors.uid is not None:
            os.fchown(slave, executors.uid, -1)
        os.write(master, b"what somebody typed")
        found = await hostile.attacked(
            hub,
            executors,
            f"""
def read():
    print("DONE", "typed-" + os.read(os.open({terminal!r}, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK), 99).decode())
attempt("read", read)
attempt("write", lambda: os.write(os.open({terminal!r}, os.O_WRONLY | os.O_NOCTTY), b"password: "))
attempt("list", lambda: os.listdir("/dev/pts"))
attempt("own-terminal", lambda: os.open("/dev/ptmx", os.O_RDWR))
attempt("controlling", lambda: os.open("/dev/tty", os.O_RDWR))
attempt("null", lambda: os.open("/dev/null", os.O_RDWR))
""",
        )
    finally:
        os.close(slave)
        os.close(master)
    denied = dict.fromkeys(("read", "write", "list", "own-terminal", "controlling"), DENIED)
    assert found == {**denied, "null": "DONE"}


async def test_a_module_leaves_nothing_in_shared_memory(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    """A module left a file in /dev/shm for the next one."""
    left = Path("/dev/shm/terracrew-left-behind")
    other = Path("/dev/shm/terracrew-of-another")
    try:
        other.write_text("secret")
        if executors.uid is not None:
            os.chown(other, executors.uid, executors.uid)
        found = await hostile.attacked(
            hub,
            executors,
            f"""
attempt("read", lambda: open({str(other)!r}).close())
try:
    open({str(left)!r}, "w").close()
except OSError as error:
    pass
""",
        )
        assert found["read"] != "DONE"
        assert not left.exists()
    finally:
        left.unlink(missing_ok=True)
        other.unlink()
