"""The commands of the README, typed as they stand there, in the order in which they stand there."""

import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.client.http import Api
from terracrew.toolchains import cache

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]


def commands() -> list[str]:
    """What is typed after the installation, without the remarks behind it."""
    part = README.partition("## Next steps")[2].partition("## Working on it")[0]
    return [line.strip() for line in re.findall(r"^    (terracrew .*)$", part, re.MULTILINE)]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user who has done nothing yet; only the port is a free one, and OpenTofu need not be fetched again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TERRACREW_", "XDG_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = {"TERRACREW_SERVER_PORT": str(port), "TERRACREW_CACHE": str(cache.root())}
    return kept | settings | {"HOME": str(tmp_path), "PATH": path}


@pytest.fixture
def up(environment: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(["terracrew", "up"], env=environment, cwd=ROOT, stdout=subprocess.DEVNULL)
    api, deadline = Api(f"http://127.0.0.1:{environment['TERRACREW_SERVER_PORT']}"), time.monotonic() + 60
    while not api.is_ready():
        assert process.poll() is None, "the server has ended"
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield
    process.terminate()
    process.wait(60)


@pytest.mark.feature("E1.commands")
@pytest.mark.usefixtures("up")
def test_every_command_of_the_readme_works_when_it_is_typed(environment: dict[str, str]) -> None:
    """`--from ./network` named a folder that does not exist."""
    typed = commands()
    assert "terracrew up" in typed
    assert len(typed) >= 9
    for line in typed:
        if line == "terracrew up":  # it runs already
            continue
        done = subprocess.run(
            shlex.split(line, comments=True),
            env=environment,
            cwd=ROOT,
            input="y\n",  # where it asks
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"


def test_the_first_block_has_exactly_two_commands() -> None:
    part = README.partition("## Two commands")[2].partition("## ")[0]
    assert [line.split()[:2] for line in re.findall(r"^    (.*)$", part, re.MULTILINE)] == [
        ["make", "demo"],
        ["make", "test"],
    ]


def test_the_picture_is_small() -> None:
    assert (ROOT / "docs" / "dashboard.png").stat().st_size < 200_000
