"""What a hostile module cannot ask the kernel for, below a runner of root and of an ordinary user."""

import errno
import os
import re
import struct
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from terracrew.executor.isolation import landlock, seccomp, system_calls
from terracrew.testing.executor_processes import ExecutorProcesses
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.isolation import hostile

pytestmark = [
    pytest.mark.engine,
    pytest.mark.feature("X4.isolation"),
    pytest.mark.skipif(not landlock.abi() or not seccomp.is_available(), reason="this kernel cannot isolate engines"),
]
DENIED = os.strerror(errno.EPERM)
ALLOWED, REFUSED, KILLED = 0x7FFF0000, 0x00050000, 0x80000000
"""The answers of a filter; the number of the error is added to the second one."""
CALLS = system_calls.of_this_machine()
NUMBERS = CALLS.numbers if CALLS else {}


@pytest.fixture(params=["root", "ordinary"])
async def executors(
    request: pytest.FixtureRequest, hub: FakeExecutorHub, tofu: str
) -> AsyncIterator[ExecutorProcesses]:
    with hostile.executors_of(request.param, hub, tofu) as found:
        yield found
        await found.close()


async def test_a_module_sees_no_packets_of_others(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    """A packet socket of a runner of root saw tokens of administrators and hub credentials on loopback."""
    found = await hostile.attacked(
        hub,
        executors,
        """
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300))
attempt("old-packet", lambda: socket.socket(socket.AF_INET, 10, 0x300))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP))
attempt("raw6", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_TCP))
attempt("vsock", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM))
attempt("audit", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9))
attempt("tcp", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
attempt("udp6", lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC))
attempt("unix", lambda: socket.socketpair())
attempt("route", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
""",
    )
    family = "Address family not supported by protocol"
    assert found == {
        "packet": family,
        "old-packet": DENIED,
        "raw": DENIED,
        "raw6": DENIED,
        "vsock": family,
        "audit": "Protocol not supported",
        **dict.fromkeys(("tcp", "udp6", "unix", "route"), "DONE"),
    }


async def test_a_module_does_not_limit_or_slow_other_processes(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """`prlimit` of the server's processor time made the kernel kill it. Priorities and processors were changed likewise."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, user=executors.uid) as victim:
        try:
            found = await hostile.attacked(
                hub,
                executors,
                f"""
pid = {victim.pid}
attempt("prlimit", lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)))
attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
attempt("priority-user", lambda: os.setpriority(os.PRIO_USER, 0, 19))
attempt("affinity", lambda: os.sched_setaffinity(pid, [0]))
attempt("scheduler", lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)))
attempt("io-priority", lambda: call(libc.syscall({NUMBERS["ioprio_set"]}, 1, pid, 3 << 13)))
attempt("attach", lambda: call(libc.ptrace(16, pid, 0, 0)))
attempt("own-limit", lambda: resource.prlimit(0, resource.RLIMIT_CORE, (0, 0)))
attempt("own-priority", lambda: os.nice(1))
attempt("own-affinity", lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)))
""",
            )
            assert re.search(r"^Max cpu time +unlimited", Path(f"/proc/{victim.pid}/limits").read_text(), re.MULTILINE)
            assert os.getpriority(os.PRIO_PROCESS, victim.pid) == os.getpriority(os.PRIO_PROCESS, 0)
            assert os.sched_getscheduler(victim.pid) == os.SCHED_OTHER
        finally:
            victim.kill()
    refused = ("prlimit", "priority", "priority-user", "affinity", "scheduler", "io-priority", "attach")
    own = ("own-limit", "own-priority", "own-affinity")
    assert found == {**dict.fromkeys(refused, DENIED), **dict.fromkeys(own, "DONE")}


async def test_a_module_has_few_capabilities_and_no_namespaces(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """A module of root had `CAP_NET_RAW`, `CAP_NET_ADMIN`, `CAP_SYS_TIME` and others."""
    found = await hostile.attacked(
        hub,
        executors,
        f"""
numbers = {NUMBERS}
values = dict(line.split(":") for line in open("/proc/self/status").read().splitlines() if line.startswith("Cap"))
print("DONE", "capabilities=" + ",".join(values[f"Cap{{name}}"].strip().lstrip("0") for name in ("Inh", "Prm", "Eff", "Amb")))
attempt("user-namespace", lambda: call(libc.unshare(0x10000000)))
attempt("clone", lambda: call(libc.syscall(numbers["clone"], 0x10000000 | 17, None, None, None, None)))
attempt("mount", lambda: call(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)))
attempt("key", lambda: call(libc.syscall(numbers["add_key"], b"user", b"a", b"b", 1, -3)))
attempt("memory", lambda: call(libc.shmget(77, 4096, 0o1600)))
attempt("ring", lambda: call(libc.syscall(numbers["io_uring_setup"], 1, ctypes.create_string_buffer(120))))
attempt("later-kernel", lambda: call(libc.syscall(1000)))
attempt("thread", lambda: __import__("threading").Thread(target=int).start())
attempt("process", lambda: __import__("subprocess").run(["true"], check=True))
""",
    )
    few = "b" if executors.uid is None and os.geteuid() == 0 else ""
    assert found == {
        f"capabilities=,{few},{few},": "DONE",
        **dict.fromkeys(("user-namespace", "clone", "mount", "key", "memory", "ring"), DENIED),
        "later-kernel": os.strerror(errno.ENOSYS),
        "thread": "DONE",
        "process": "DONE",
    }


async def test_a_module_leaves_no_program_that_gives_its_user_to_others(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """A module of root left a shell with the set-user-ID bit, with which any user of the machine became root."""
    found = await hostile.attacked(
        hub,
        executors,
        f"""
numbers = {NUMBERS}
made = os.open("made", os.O_CREAT | os.O_RDWR, 0o755)
attempt("chmod", lambda: os.chmod("made", 0o4755))
attempt("chmod-group", lambda: os.chmod("made", 0o2755))
attempt("fchmod", lambda: os.fchmod(made, 0o6755))
attempt("fchmodat", lambda: os.chmod("made", 0o4755, dir_fd=os.open(".", os.O_RDONLY)))
attempt("fchmodat2", lambda: call(libc.syscall(numbers["fchmodat2"], -100, b"made", 0o4755, 0)))
attempt("mknod", lambda: os.mknod("node", 0o104755))
attempt("open", lambda: os.open("opened", os.O_CREAT | os.O_RDWR, 0o4755))
attempt("unnamed", lambda: os.open(".", os.O_TMPFILE | os.O_RDWR, 0o4755))
attempt("creat", lambda: call(libc.creat(b"created", 0o4755)))
attempt("openat2", lambda: call(libc.syscall(numbers["openat2"], -100, b"two", (ctypes.c_uint64 * 3)(0o102, 0o4755, 0), 24)))
attempt("sticky", lambda: os.chmod("made", 0o1700))
attempt("node", lambda: os.mknod("plain", 0o100644))
attempt("existing", lambda: os.open("made", os.O_RDWR, 0o4755))
attempt("directory", lambda: os.open(".", os.O_RDONLY | os.O_DIRECTORY, 0o4755))
""",
    )
    refused = ("chmod", "chmod-group", "fchmod", "fchmodat", "fchmodat2", "mknod", "open", "unnamed", "creat")
    assert found == {
        **dict.fromkeys(refused, DENIED),
        "openat2": os.strerror(errno.ENOSYS),
        **dict.fromkeys(("sticky", "node", "existing", "directory"), "DONE"),
    }


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_numbers_are_those_of_the_headers_of_the_kernel(machine: str) -> None:
    """A wrong number would refuse a system call that modules need, and allow another one."""
    path = Path(
        "/usr/include/x86_64-linux-gnu/asm/unistd_64.h" if machine == "x86_64" else "/usr/include/asm-generic/unistd.h"
    )
    if not path.exists():
        pytest.skip(f"there is no {path}")
    defined = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)", path.read_text(), re.MULTILINE)
    known = {name: int(number) for name, number in reversed(defined)}
    calls = system_calls.of(machine)
    assert calls is not None
    assert {name: known.get(name, number) for name, number in calls.numbers.items()} == calls.numbers
    assert len(calls.numbers.keys() & known.keys()) > 60
    assert max(calls.numbers.values()) <= system_calls.NEWEST_NUMBER


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_answers_the_same_on_every_machine(machine: str) -> None:
    calls = system_calls.of(machine)
    assert calls is not None
    code = seccomp.code(calls)
    numbers = calls.numbers

    def answer(name: str, *arguments: int) -> int:
        return evaluated(code, numbers[name], calls.architecture, *arguments)

    assert evaluated(code, 0, calls.architecture) == ALLOWED  # `read`, `io_setup`
    assert evaluated(code, 0, 0x40000003) == KILLED, "a program for 32 bits"
    assert evaluated(code, 0x40000000 + 41, calls.architecture) == REFUSED | errno.ENOSYS, "x32"
    assert all(evaluated(code, number, calls.architecture) == REFUSED | errno.EPERM for number in calls.refused)
    assert answer("clone", 17) == ALLOWED
    assert answer("clone", 0x20000) == REFUSED | errno.EPERM
    assert answer("clone3") == REFUSED | errno.ENOSYS
    assert answer("prlimit64", 0, 7) == answer("setpriority", 0, 0) == answer("ioprio_set", 1, 0) == ALLOWED
    for name in (*system_calls.OF_OWN_PROCESS, "setpriority"):
        assert answer(name, 1, 0) == REFUSED | errno.EPERM
    assert answer("ioprio_set", 1, 7) == answer("ioprio_set", 2, 0) == REFUSED | errno.EPERM
    assert answer("socket", 1, 5) == answer("socket", 2, 1 | 0x80000) == answer("socket", 16, 3, 0) == ALLOWED
    assert answer("socket", 10, 3) == answer("socket", 2, 10) == REFUSED | errno.EPERM
    assert answer("socket", 17, 2) == answer("socketpair", 30, 1) == REFUSED | errno.EAFNOSUPPORT
    assert answer("ioctl", 0, 0x5412) == answer("ioctl", 0, 0x541C) == REFUSED | errno.EPERM
    assert answer("ioctl", 0, 0x5413) == answer("socketpair", 1, 1) == ALLOWED
    assert answer("openat", 3, 0, 0o101, 0o644) == answer("openat", 3, 0, 0, 0o4755) == ALLOWED
    assert answer("openat", 3, 0, 0o101, 0o4755) == answer("openat", 3, 0, 0o20200002, 0o2755) == REFUSED | errno.EPERM
    assert answer("openat2") == REFUSED | errno.ENOSYS
    for name in system_calls.MODE_ARGUMENTS.keys() & numbers.keys():
        before = [0o6000] * system_calls.MODE_ARGUMENTS[name]
        assert answer(name, *before, 0o1777) == ALLOWED
        assert answer(name, *before, 0o4755) == answer(name, *before, 0o2755) == REFUSED | errno.EPERM


def evaluated(code: bytes, number: int, architecture: int, *arguments: int) -> int:
    """Run the filter as the kernel does, for a machine that this one is not."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    program = [struct.unpack_from("=HBBI", code, offset) for offset in range(0, len(code), 8)]
    loaded = position = 0
    while True:
        operation, if_true, if_false, value = program[position]
        position += 1
        match operation:
            case 0x20:
                [loaded] = struct.unpack_from("=I", data, value)
            case 0x54:
                loaded &= value
            case 0x05:
                position += value
            case 0x06:
                return value
            case _:
                met = {0x15: loaded == value, 0x25: loaded > value, 0x45: bool(loaded & value)}[operation]
                position += if_true if met else if_false
