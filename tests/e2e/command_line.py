"""The command line as a process."""

from tests.e2e.system import System
from tests.machine.forks import process


def terracrew(system: System, *arguments: str, code: int = 0) -> str:
    command = ["--url", system.url, "--token-file", str(system.data / "admin.token"), *arguments]
    ended, out, err = process.run(command, system.env)
    assert ended == code, out + err
    return out + err
