"""An engine that runs out of memory: the job says so, whether the kernel killed it or it gave up by itself."""

import contextlib
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from terracrew.executor.engines import error_summary
from terracrew.executor.engines.hcl import failure
from terracrew.executor.engines.memory import OomKills
from terracrew.protocol.events import StepStatus, Stream
from terracrew.protocol.spec import JobType
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import ended, wrapped

HUNGRY = """
resource "terraform_data" "count" { input = 1000 }
locals { n = range(terraform_data.count.output) } # not known before the apply
resource "terraform_data" "hungry" {
  input = length([for i in local.n : [for j in local.n : format("%04000d", j)]])
}
"""
LIMIT_BYTES = 256 << 20


@contextlib.contextmanager
def inside_memory_cgroup(limit: int) -> Generator[Path]:
    """This process, and what it starts, is in a memory cgroup of version 1 with this limit."""
    root = Path("/sys/fs/cgroup/memory")
    own = next(
        (line.split(":", 2)[2] for line in Path("/proc/self/cgroup").read_text().splitlines() if ":memory:" in line),
        None,
    )
    group = root / f"terracrew-test-{os.getpid()}"
    try:
        if own is None:
            raise OSError("this process is in no memory cgroup of version 1")
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit))
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"no memory cgroup can be made on this machine: {error}")
    try:
        yield group
    finally:
        (root / own.lstrip("/") / "cgroup.procs").write_text(str(os.getpid()))


@pytest.mark.engine
async def test_an_engine_that_the_kernel_killed_for_memory_is_said_to_have_run_out_of_it(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """The job said `ended by signal 9` and nothing else."""
    with inside_memory_cgroup(LIMIT_BYTES) as group:
        executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=HUNGRY)))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.message == "apply failed: the engine ran out of memory and was killed (signal 9)"
    assert ended(hub) == StepStatus("apply", "FAILED", -9, is_cut_short=True)
    group.rmdir()


@pytest.mark.engine
@pytest.mark.feature("O3.doubt")
async def test_a_change_below_which_the_kernel_killed_a_process_is_cut_short_though_the_engine_ended_by_itself(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """The kernel kills the largest process, which usually is a provider. What it had made counted as recorded."""
    hungry = f"{sys.executable} -c 'bytearray(1 << 30)'"
    main = f'resource "terraform_data" "a" {{\n  provisioner "local-exec" {{ command = "{hungry}" }}\n}}\n'
    with inside_memory_cgroup(LIMIT_BYTES) as group:
        executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=main)))
    assert await executor.exit_code() == 0, executor.said
    assert ended(hub) == StepStatus("apply", "FAILED", 1, is_cut_short=True)
    assert hub.result.failure_kind == "out_of_memory"
    assert b"may be in no state" in hub.log(Stream.SYSTEM)
    group.rmdir()


@pytest.mark.engine
async def test_an_engine_that_gets_no_memory_is_said_to_have_run_out_of_it(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tofu: str
) -> None:
    """The job said `exit code 2`, and the reason stood before 30 KB of goroutine traces."""
    program = wrapped(executors, tofu, 'case "$1" in apply) ulimit -v 1300000;; esac')
    source = module(executors.folder / "source", main=HUNGRY)
    executor = await executors.run(executors.spec(JobType.APPLY, source), engine_paths=[program])
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.message.startswith("apply failed: the engine ran out of memory (exit code 2: "), hub.result
    assert ended(hub) == StepStatus("apply", "FAILED", 2, is_cut_short=True)


TRACE = "goroutine 1 [running]:\nruntime.throw({0x1, 0x2})\n" * 6000


@pytest.mark.parametrize(
    ("code", "text", "kills", "said"),
    [
        (-9, "", 1, "the engine ran out of memory and was killed (signal 9)"),
        (137, "", 2, "the engine ran out of memory and was killed (signal 9)"),
        (-9, "", 0, "ended by signal 9"),
        (
            2,
            f"fatal error: runtime: out of memory\n\n{TRACE}",
            0,
            "the engine ran out of memory (exit code 2: fatal error: runtime: out of memory)",
        ),
        (
            2,
            f"{TRACE}runtime: out of memory: cannot allocate 4194304-byte block\n",
            0,
            "the engine ran out of memory (exit code 2: runtime: out of memory: cannot allocate 4194304-byte block)",
        ),
        (2, "fatal error: all goroutines are asleep", 0, "exit code 2"),
        (
            1,
            "│ Error: Plugin did not respond\n",
            1,
            "exit code 1: Plugin did not respond (memory ran out: the kernel killed 1 processes of this cgroup during the step)",
        ),
        (
            1,
            "│ Error: Plugin crashed\nfatal error: runtime: cannot allocate memory\n",
            0,
            "exit code 1: Plugin crashed (memory ran out: fatal error: runtime: cannot allocate memory)",
        ),
    ],
)
def test_memory_is_named_as_the_cause_where_something_shows_it(code: int, text: str, kills: int, said: str) -> None:
    found = error_summary.failure(code, failure.details(text), kills)
    assert found.text == said
    assert found.failure_kind == ("out_of_memory" if "memory" in said else "")


@pytest.mark.parametrize(
    ("groups", "mounts", "file"),
    [
        ("4:memory:/a/b\n0::/x\n", "30 1 0:2 / {root} rw - cgroup cgroup rw,memory", "a/b/memory.oom_control"),
        ("0::/a/b\n", "30 1 0:2 / {root} rw - cgroup2 cgroup2 rw", "a/b/memory.events"),
        ("0::/a/b/job_1.1\n", "30 1 0:2 / {root} rw - cgroup2 cgroup2 rw", "a/memory.events"),
        ("0::/\n", "30 1 0:2 / {root} rw - cgroup2 cgroup2 rw", "memory.events"),
        ("4:memory:/docker/7\n", "30 1 0:2 /docker/7 {root} ro - cgroup cgroup rw,memory", "memory.oom_control"),
    ],
    ids=[
        "version 1",
        "version 2",
        "a cgroup without a controller",
        "a namespace of its own",
        "a container that sees its own cgroup alone",
    ],
)
def test_the_kills_of_the_own_cgroup_are_found(tmp_path: Path, groups: str, mounts: str, file: str) -> None:
    (tmp_path / "cgroup").write_text(groups)
    (tmp_path / "mountinfo").write_text(mounts.format(root=tmp_path / "fs") + "\n")
    counting = OomKills(tmp_path)
    assert counting.count() == 0
    (tmp_path / "fs" / file).parent.mkdir(parents=True)
    (tmp_path / "fs" / file).write_text("oom 9\noom_kill_disable 0\noom_kill 3\n")
    assert counting.count() == 3
