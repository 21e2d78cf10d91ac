"""Builds programs that tests need from their Go modules, inside a copy of the module."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

_BUILD_SECONDS = 3600


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


def build(source: Path, package: str, made: Path, flags: str = "") -> Path:
    linker = f"-s -w {flags}".strip()
    run(source, "build", "-mod=mod", "-trimpath", "-ldflags", linker, "-o", str(made), package)
    return made


def run(directory: Path, *arguments: str) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
    done = subprocess.run(
        ["go", *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"go {arguments[0]} failed: {done.stderr[-2000:]}")
    return done.stdout
