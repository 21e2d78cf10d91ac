"""An engine that was started ahead waits at its gate, whatever happens around it."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.executor.engines import engine_user, gate
from terracrew.executor.engines.engine_user import EngineUser
from terracrew.executor.engines.process import EngineProcess
from terracrew.executor.isolation import landlock
from terracrew.executor.isolation.landlock import EVERYTHING, READ_AND_EXECUTE, PathRule, Ruleset
from terracrew.system import procfs

pytestmark = [pytest.mark.feature("J3.ahead"), pytest.mark.engine]
VARIABLE = "TF_CLI_CONFIG_FILE"
_BROKEN = "this is no configuration {\n"
_COMPLAINT = "problems with the CLI configuration"


class Stage:
    """A folder in which engines wait, with the file that they read first."""

    def __init__(self, folder: Path, tofu: str) -> None:
        self.folder, self._tofu = folder, tofu
        self.file, self.output = folder / "tofurc", folder / "output"
        self.file.write_text("# nothing\n")
        self.descriptor = os.open(self.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        self.env = {"HOME": str(folder), "PATH": os.environ["PATH"], VARIABLE: str(self.file)}
        self._numbers = iter(range(100))
        self.started: list[EngineProcess] = []

    def wait_at_gate(self, *arguments: str, ruleset: Ruleset | None = None) -> EngineProcess:
        closed = gate.make(self.folder / f"link-{next(self._numbers)}", VARIABLE, self.env)
        assert closed is not None
        return self.start([self._tofu, *(arguments or ("version",))], ruleset, closed)

    def run(self, *arguments: str, ruleset: Ruleset | None = None) -> EngineProcess:
        return self.start(arguments, ruleset)

    def start(
        self, arguments: list[str] | tuple[str, ...], ruleset: Ruleset | None, closed: gate.Gate | None = None
    ) -> EngineProcess:
        started = EngineProcess(
            arguments, cwd=self.folder, env=self.env, output=self.descriptor, ruleset=ruleset, gate=closed
        )
        self.started.append(started)
        return started

    @property
    def printed(self) -> str:
        return self.output.read_text()


@pytest.fixture
def stage(tmp_path: Path, tofu: str) -> Iterator[Stage]:
    made = Stage(tmp_path, tofu)
    yield made
    for each in made.started:
        if _is_alive(each.pid):
            os.kill(each.pid, signal.SIGKILL)
    os.close(made.descriptor)


def _is_alive(pid: int) -> bool:
    found = procfs.stat(pid)
    return found is not None and found.is_alive


async def _loaded(pid: int) -> None:
    """Until the engine has opened the pipe by its name, besides the end that it inherited."""
    async with asyncio.timeout(30):
        while _ends_of_pipes(pid) < 2:
            await asyncio.sleep(0.01)


def _ends_of_pipes(pid: int) -> int:
    found = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(descriptor).startswith("pipe:")
    return found


async def test_an_engine_does_nothing_until_its_gate_is_open(stage: Stage) -> None:
    waiting = stage.wait_at_gate()
    await _loaded(waiting.pid)
    await asyncio.sleep(0.2)
    assert stage.printed == ""
    assert waiting.go_on()
    assert await asyncio.wait_for(waiting.wait(), 20) == 0
    assert stage.printed.startswith("OpenTofu v")


@pytest.mark.parametrize("is_early", [True, False], ids=["before it has loaded", "after it has loaded"])
async def test_an_engine_reads_the_file_as_it_is_when_the_gate_opens(stage: Stage, is_early: bool) -> None:
    waiting = stage.wait_at_gate()
    if not is_early:
        await _loaded(waiting.pid)
    stage.file.write_text(_BROKEN)
    assert waiting.go_on()
    await asyncio.wait_for(waiting.wait(), 20)
    assert _COMPLAINT in stage.printed


async def test_what_an_engine_starts_finds_the_file_itself(stage: Stage) -> None:
    """Symptom: an engine inside a module would wait for the pipe of the engine that started it, or find an empty file."""
    waiting = stage.wait_at_gate()
    await _loaded(waiting.pid)
    environ = Path(f"/proc/{waiting.pid}/environ").read_bytes().split(b"\0")
    [given] = [os.fsdecode(each.partition(b"=")[2]) for each in environ if each.startswith(VARIABLE.encode())]
    assert waiting.go_on()
    assert Path(given).read_text() == stage.file.read_text()
    assert await asyncio.wait_for(waiting.wait(), 20) == 0


async def test_an_engine_that_ended_at_its_gate_is_not_used(stage: Stage) -> None:
    waiting = stage.wait_at_gate()
    os.kill(waiting.pid, signal.SIGKILL)
    os.waitid(os.P_PID, waiting.pid, os.WEXITED | os.WNOWAIT)
    assert not waiting.go_on()


@pytest.mark.parametrize("harm", ["removed", "too large", "a pipe"])
async def test_an_engine_whose_file_cannot_be_passed_on_is_given_up(stage: Stage, harm: str) -> None:
    waiting = stage.wait_at_gate()
    stage.file.unlink()
    if harm == "too large":
        stage.file.write_text("#" * 5000)
    elif harm == "a pipe":
        os.mkfifo(stage.file)
    assert not waiting.go_on()
    assert procfs.stat(waiting.pid) is None
    assert stage.printed == ""
    assert gate.make(stage.folder / "other", VARIABLE, stage.env) is None


async def test_a_gate_that_cannot_be_made_leaves_nothing_open(stage: Stage) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        gate.make(stage.folder / "nowhere" / "link", VARIABLE, stage.env)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_an_engine_that_is_given_up_is_gone(stage: Stage) -> None:
    waiting = stage.wait_at_gate()
    await _loaded(waiting.pid)
    before = len(os.listdir("/proc/self/fd"))
    waiting.give_up()
    assert procfs.stat(waiting.pid) is None
    assert len(os.listdir("/proc/self/fd")) == before - 1


def test_what_another_engine_leaves_behind_is_ended_and_the_waiting_one_is_not(stage: Stage, tofu: str) -> None:
    """In a process of its own, because an executor ends all of its descendants."""
    left = stage.folder / "left"
    script = (
        f"setsid --fork sh -c 'echo $$ > {left}; sleep 100'; sleep 100 & while ! [ -s {left} ]; do sleep 0.01; done"
    )
    program = textwrap.dedent(f"""
        import asyncio, os, pathlib
        from terracrew import procfs
        from terracrew.executor.engines import gate, process
        from terracrew.executor.engines.process import EngineProcess

        async def run():
            process.adopt_orphans()
            folder, env = pathlib.Path({str(stage.folder)!r}), {stage.env!r}
            closed = gate.make(folder / "link", {VARIABLE!r}, env)
            waiting = EngineProcess([{tofu!r}, "version"], cwd=folder, env=env, output=1, gate=closed)
            other = EngineProcess(["/bin/sh", "-c", {script!r}], cwd=folder, env=env, output=2)
            assert await asyncio.wait_for(other.wait(), 20) == 0
            assert procfs.children(os.getpid()) == [waiting.pid], procfs.descendants(os.getpid())
            assert waiting.go_on()
            assert await asyncio.wait_for(waiting.wait(), 20) == 0

        asyncio.run(run())
    """)
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=60, check=True)
    assert ended.stdout.startswith(b"OpenTofu v")
    assert not _is_alive(int(left.read_text()))


def test_the_engine_of_a_dead_executor_goes_on_and_ends(stage: Stage, tofu: str) -> None:
    """Symptom: an attempt whose executor was killed would wait for this engine forever."""
    program = textwrap.dedent(f"""
        import os, pathlib, signal
        from terracrew.executor.engines import gate
        from terracrew.executor.engines.process import EngineProcess
        env = {stage.env!r}
        closed = gate.make(pathlib.Path({str(stage.folder / "link")!r}), {VARIABLE!r}, env)
        EngineProcess([{tofu!r}, "version"], cwd=pathlib.Path({str(stage.folder)!r}), env=env, output=1, gate=closed)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout.startswith(b"OpenTofu v")  # the pipe of its output is closed when it has ended, and not before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start an engine as another user")
async def test_a_program_of_another_user_waits_too(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = EngineDirectory(tmp_path / "engine-files")
    made.make()
    (tmp_path / "attempt").mkdir()
    monkeypatch.setattr(engine_user, "_chosen", EngineUser(23471, 23471, tmp_path / "attempt", made))
    for folder in (stage.folder, *stage.folder.parents):
        folder.chmod(folder.stat().st_mode | 0o011)
    stage.file.chmod(0o644)
    closed = gate.make(tmp_path / "link", VARIABLE, stage.env)
    waiting = stage.start(["/bin/sh", "-c", f': < "${VARIABLE}"; echo opened; cat "${VARIABLE}"'], None, closed)
    async with asyncio.timeout(20):
        while stage.printed != "opened\n":
            await asyncio.sleep(0.01)
    stage.file.write_text("as it is now\n")
    assert waiting.go_on()
    assert await asyncio.wait_for(waiting.wait(), 20) == 0
    assert stage.printed == "opened\nas it is now\n"
    stage.file.chmod(0o600)
    assert gate.make(tmp_path / "other", VARIABLE, stage.env) is None, "an engine is not told what it may not read"


@pytest.mark.skipif(landlock.abi() < 6, reason="this kernel's Landlock does not scope signals")
@pytest.mark.feature("X4.isolation")
async def test_the_code_of_a_module_can_neither_open_the_gate_nor_change_the_engine(stage: Stage, tofu: str) -> None:
    """A hostile provider could otherwise show a person another diff than that of its plan."""
    readable = ("/bin", "/lib", "/lib64", "/usr", "/etc", "/proc", str(Path(tofu).resolve().parent))
    system = [PathRule(path, READ_AND_EXECUTE) for path in readable]
    ruleset = Ruleset([*system, PathRule(str(stage.folder), EVERYTHING), PathRule("/dev", EVERYTHING)])
    waiting = stage.wait_at_gate(ruleset=ruleset)
    await _loaded(waiting.pid)
    pid = waiting.pid
    attack = f"""
        for number in $(seq 3 40); do echo open > /proc/{pid}/fd/$number; done
        echo over > /proc/{pid}/mem
        kill -KILL {pid}; kill -CONT {pid}; kill -INT {pid}
        echo attacked
    """
    other = stage.run("/bin/sh", "-c", attack, ruleset=ruleset)
    await asyncio.wait_for(other.wait(), 20)
    assert "attacked" in stage.printed
    assert "OpenTofu v" not in stage.printed
    assert waiting.go_on()
    assert await asyncio.wait_for(waiting.wait(), 20) == 0
    assert "OpenTofu v" in stage.printed
    ruleset.close()
