"""The command line as a process."""

import subprocess
import sys

from tests.e2e.system import System


def terracrew(system: System, *arguments: str, code: int = 0) -> str:
    command = [
        sys.executable,
        "-m",
        "terracrew.cli",
        "--url",
        system.url,
        "--token-file",
        str(system.data / "admin.token"),
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=system.env)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr
