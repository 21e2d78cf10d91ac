"""Programs that operators configure: they are given real time, output and children, and they misuse all of them."""

import asyncio
import os
import sys
from pathlib import Path

import psutil
import pytest

from terracrew.errors import ProgramFailed
from terracrew.system import bounded_program
from terracrew.system.bounded_program import ProgramBounds

PURPOSE = "the credential helper"
PATIENT = ProgramBounds(timeout_seconds=120.0)


def script(directory: Path, text: str) -> list[str]:
    file = directory / "program.py"
    file.write_text(text)
    return [sys.executable, "-S", "-E", str(file)]


async def failure(arguments: list[str], bounds: ProgramBounds = PATIENT, **environment: str) -> str:
    with pytest.raises(ProgramFailed) as caught:
        await bounded_program.run(arguments, purpose=PURPOSE, bounds=bounds, environment={**os.environ, **environment})
    return caught.value.message


async def is_gone(pid: int) -> bool:
    """Wait until a process has ended; only a zombie may be left of it."""
    async with asyncio.timeout(60):
        while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            await asyncio.sleep(0.01)
    return True


@pytest.mark.feature("A4.command")
async def test_a_program_gets_its_arguments_as_they_are_and_no_input(tmp_path: Path) -> None:
    arguments = script(tmp_path, "import sys; print(sys.argv[1:], repr(sys.stdin.read()))")
    printed = await bounded_program.run([*arguments, "$HOME; ls", "a b", ""], purpose=PURPOSE, bounds=PATIENT)
    assert printed == b"['$HOME; ls', 'a b', ''] ''\n"


def test_a_thread_without_an_event_loop_can_run_a_program(tmp_path: Path) -> None:
    arguments = script(tmp_path, "import os; print(os.environ['GIVEN'])")
    printed = bounded_program.run_blocking(arguments, purpose=PURPOSE, bounds=PATIENT, environment={"GIVEN": "this"})
    assert printed == b"this\n"


@pytest.mark.feature("A4.errors")
async def test_a_program_that_fails_is_reported_with_its_standard_error(tmp_path: Path) -> None:
    arguments = script(tmp_path, "import sys; print('no role \\x1b[2Jfor this host', file=sys.stderr); sys.exit(3)")
    assert await failure(arguments) == f"{PURPOSE} {sys.executable} ended with exit status 3: no role for this host"
    killed = script(tmp_path, "import os; os.kill(os.getpid(), 11)")
    assert (await failure(killed)).startswith(f"{PURPOSE} {sys.executable} was killed by signal 11")


@pytest.mark.feature("A4.errors")
async def test_the_standard_error_is_shown_without_secrets(tmp_path: Path) -> None:
    token = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
    text = f"""
import os, sys
print('{{"token": "opaque-token-of-the-issuer"}}')
print('got', os.environ['MY_PASSWORD'], '{token}', 'opaque-token-of-the-issuer', 'from the host', file=sys.stderr)
sys.exit(1)
"""
    message = await failure(script(tmp_path, text), MY_PASSWORD="correct-horse-battery")
    assert message.endswith("got *** *** *** from the host")


@pytest.mark.feature("A4.errors")
async def test_only_the_end_of_a_long_standard_error_is_shown(tmp_path: Path) -> None:
    arguments = script(tmp_path, "import sys; sys.stderr.write('noise ' * 50_000 + 'the reason'); sys.exit(1)")
    message = await failure(arguments)
    assert message.endswith("noise the reason")
    assert len(message) < bounded_program.MAX_SHOWN_CHARACTERS + 200


@pytest.mark.feature("A4.errors")
@pytest.mark.parametrize("missing", ["/nonexistent/helper", "/etc/hostname", "/", "a\0b"])
async def test_a_program_that_cannot_be_started_is_named(missing: str) -> None:
    assert (await failure([missing])).startswith(f"{PURPOSE} {missing} could not be started: ")


@pytest.mark.feature("A4.bounded")
async def test_a_program_that_hangs_is_killed() -> None:
    message = await failure(["sleep", "1000"], ProgramBounds(timeout_seconds=0.5))
    assert message == f"{PURPOSE} sleep did not end within 0.5 seconds and was killed"


@pytest.mark.feature("A4.bounded")
async def test_a_call_that_is_cancelled_ends_the_program_with_its_children(tmp_path: Path) -> None:
    fifo = tmp_path / "pids"
    os.mkfifo(fifo)
    text = f"""
import os, signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(['sleep', '1000'])
other = subprocess.Popen(['sleep', '1000'], start_new_session=True)
open({str(fifo)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}} {{other.pid}}')
time.sleep(1000)
"""
    call = asyncio.create_task(bounded_program.run(script(tmp_path, text), purpose=PURPOSE, bounds=PATIENT))
    pids = await asyncio.to_thread(fifo.read_text)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert [await is_gone(int(pid)) for pid in pids.split()] == [True] * 3


@pytest.mark.feature("A4.bounded")
@pytest.mark.parametrize("keywords", ["", "start_new_session=True"])
async def test_children_that_a_program_leaves_delay_nothing_and_are_killed(tmp_path: Path, keywords: str) -> None:
    """Such a child has the program's pipe open, and may have begun a session of its own."""
    text = f"""
import subprocess
child = subprocess.Popen(['sleep', '1000'], {keywords})
print(child.pid)
child.returncode = 0
"""
    printed = await bounded_program.run(script(tmp_path, text), purpose=PURPOSE, bounds=PATIENT)
    assert await is_gone(int(printed))


@pytest.mark.feature("A4.bounded")
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_a_program_that_prints_without_end_is_killed(tmp_path: Path, stream: str) -> None:
    text = f"import sys\nwhile True: sys.{stream}.write('x' * 65536)"
    assert " bytes " in (message := await failure(script(tmp_path, text)))
    assert "and was killed" in message
    assert ("xxxxxxxx" in message) == (stream == "stderr")


@pytest.mark.feature("A4.bounded")
async def test_everything_that_a_program_prints_before_its_end_arrives(tmp_path: Path) -> None:
    arguments = script(tmp_path, "import os; os.write(1, b'x' * 60_000); os._exit(0)")
    assert len(await bounded_program.run(arguments, purpose=PURPOSE, bounds=PATIENT)) == 60_000
