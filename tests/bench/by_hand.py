"""Runs the engine as a person does at a prompt: in a fresh folder, with the default environment and the engine's own flags."""

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from terracrew.toolchains import discovery

TAKEN_AWAY = ("TERRACREW_", "TF_", "GOGC", "GOMEMLIMIT", "GOMAXPROCS")


def folder(parent: Path, main: str) -> Path:
    """Return a fresh folder with one module."""
    made = Path(tempfile.mkdtemp(prefix="by-hand-", dir=parent))
    (made / "main.tf").write_text(main)
    return made


def run(workspace: Path, environ: Mapping[str, str], *commands: str) -> None:
    """Run `tofu COMMAND`, one after the other; the output goes to a file."""
    program = discovery.require("tofu", []).path
    env = {name: value for name, value in environ.items() if not name.startswith(TAKEN_AWAY)}
    with (workspace / "output").open("ab") as output:
        for command in commands:
            subprocess.run(
                [program, *command.split()],
                cwd=workspace,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=True,
            )
