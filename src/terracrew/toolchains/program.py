"""Runs a program to its end, passes on each line of its standard error, and calls back regularly while it prints nothing."""

import os
import selectors
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from terracrew.errors import EngineMissing

_PROGRESS_SECONDS = 1.0
_MAX_LINES_KEPT = 30


def run(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    is_expected: Callable[[str], bool] = lambda _: False,
    on_tick: Callable[[], None] = lambda: None,
    may_fail: bool = False,
) -> bytes:
    """Return the standard output. The error of a failure quotes the lines of standard error that `is_expected` does not expect."""
    unexpected: deque[str] = deque(maxlen=_MAX_LINES_KEPT)
    with tempfile.TemporaryFile() as stdout:  # a file, so that only one pipe has to be read
        process = subprocess.Popen(
            arguments, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE
        )
        try:
            for line in _lines(process, on_tick):
                if not is_expected(line):
                    unexpected.append(line)
            code = process.wait()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        stdout.seek(0)
        output = stdout.read()
    if code and not may_fail:
        quoted = "\n".join(unexpected) or output.decode(errors="replace")[-2000:]
        raise EngineMissing(f"`{' '.join(arguments[:3])} …` failed with exit code {code}:\n{quoted}")
    return output


def _lines(process: subprocess.Popen[bytes], on_tick: Callable[[], None]) -> Iterator[str]:
    assert process.stderr is not None
    rest = b""
    with process.stderr as pipe, selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if not selector.select(_PROGRESS_SECONDS):
                on_tick()
                continue
            chunk = os.read(pipe.fileno(), 65536)
            if not chunk:
                break
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in whole)
    if rest:
        yield rest.decode(errors="replace")
