"""Commands with which a person makes and restores a backup."""

import os
import subprocess
import sys

from tests.e2e.system import System


def terracrew(system: System, *arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "terracrew.cli", *arguments], env=system.env, capture_output=True, text=True, timeout=90
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def admin_token(system: System) -> str:
    key = system.directory / "master.key"
    url = system.database
    options = ["--data-dir", str(system.data), "--database-url", url, "--master-key-file", str(key)]
    return terracrew(system, "server", *options, "admin-token").strip()


def program(name: str) -> str:
    from tests.machine.postgres_server import find_programs

    folder = find_programs()
    assert folder is not None
    return os.fspath(folder / name)
