"""Builds programs that tests need from their Go modules, inside a copy of the module. Says on standard error how far it is."""

import collections
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

_BUILD_SECONDS = 3600
_REPORT_SECONDS = 10.0


def copied(module: str, version: str, target: Path) -> Path:
    """Copy a module of exactly this version to a new folder, where its go.mod may be changed."""
    listed = run(target.parent, "mod", "download", "-json", f"{module}@{version}")
    shutil.copytree(json.loads(listed)["Dir"], target)
    subprocess.run(["chmod", "-R", "u+w", str(target)], check=True)
    return target


def drop_replacements(source: Path) -> list[str]:
    """Drop replacements by folders that the module does not contain. Returns the modules that were replaced."""
    file = source / "go.mod"
    lines = file.read_text().splitlines(keepends=True)
    dropped = [line for line in lines if re.search(r"=> \.\.?/", line)]
    file.write_text("".join(line for line in lines if line not in dropped))
    return [line.removeprefix("replace").split()[0] for line in dropped]


def build(source: Path, package: str, made: Path, flags: str = "", *, tags: str = "", has_c: bool = False) -> Path:
    """Build a program. `has_c`: parts of it are written in C, so a C compiler is needed."""
    linker = f"-s -w {flags}".strip()
    arguments = ("build", "-v", "-mod=mod", "-trimpath", "-tags", tags, "-ldflags", linker, "-o", str(made), package)
    packages = run(source, "list", "-mod=mod", "-tags", tags, "-deps", package).count("\n")
    # The last lines are enough for a reason. `go build -v` prints a line for each package that it compiles.
    lines: collections.deque[str] = collections.deque(maxlen=40)
    began = reported = time.monotonic()
    compiled = 0
    command = ["timeout", str(_BUILD_SECONDS), "go", *arguments]
    environment = _environment() | {"CGO_ENABLED": str(int(has_c))}
    with subprocess.Popen(command, cwd=source, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for compiled, line in enumerate(process.stderr, start=1):
            lines.append(line)
            if time.monotonic() > reported + _REPORT_SECONDS:
                reported = time.monotonic()
                _say(f"building {made.name}: {compiled} of at most {packages} packages, {reported - began:.0f} s")
    if process.returncode:
        raise RuntimeError(f"go build failed: {''.join(lines)[-2000:]}")
    _say(f"built {made.name}: {compiled} packages in {time.monotonic() - began:.0f} s")
    return made


def run(directory: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["go", *arguments],
        cwd=directory,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"go {arguments[0]} failed: {done.stderr[-2000:]}")
    return done.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
