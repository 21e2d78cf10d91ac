"""The tutorial about pull requests, typed as it stands there, against a real Gitea and a Terracrew that `terracrew up` starts."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.toolchains import cache
from tests.e2e.system import free_port
from tests.machine import platforms
from tests.machine.platforms import gitea

pytestmark = [pytest.mark.engine, pytest.mark.platform("gitea"), pytest.mark.timeout(240)]
PAGE = (Path(__file__).parents[2] / "docs" / "tutorial-pull-requests.md").read_text()
DOWNLOAD = re.compile(r"curl -sSfLo gitea \S+")
SHOWN = ("1 to add", "applied", "1 to add", "ada, merged")
"""What `terracrew pull-request show` tells after some seconds, each time that it is typed."""


def script(port: int, server_port: int) -> Iterator[str]:
    """Yield all lines that are typed. What a person waits for is waited for; what is left running is started beside the others."""
    shown = iter(SHOWN)
    yield from ("set -euo pipefail", "trap 'kill $(jobs -p)' EXIT")
    typed = "".join(re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    assert DOWNLOAD.search(typed)
    built = DOWNLOAD.sub(f"cp {gitea.home()}/gitea gitea", typed).replace("3000", str(port))
    for line in built.splitlines():
        if line == "[server]":
            yield from (line, f"STATIC_ROOT_PATH = {gitea.home()}")  # the one for everybody has its templates in it
        elif line == "./gitea web":
            yield f"{line} > gitea.log 2>&1 &"
            yield f"until curl -ksf https://localhost:{port}/api/v1/version; do sleep 0.2; done"
        elif line.endswith("terracrew up"):
            yield f"{line} > up.log 2>&1 &"
            yield f"until curl -sf http://127.0.0.1:{server_port}/readyz; do sleep 0.2; done"
        elif line.startswith("terracrew pull-request show"):
            yield f"until {line} 2>&1 | tee shown.txt | grep -q '{next(shown)}'; do sleep 0.2; done; cat shown.txt"
        elif line.startswith("terracrew forge repositories"):
            yield f"until {line} | grep -q enabled; do sleep 0.2; done"
        else:
            yield line
    assert next(shown, None) is None


@pytest.mark.feature("F1.gitea")
def test_every_command_of_the_tutorial_works_when_it_is_typed(tmp_path: Path) -> None:
    platforms.need("gitea")
    port, server_port = free_port(), free_port()
    own = ("TERRACREW_", "XDG_", "TF_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    environment = kept | {
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TERRACREW_SERVER_PORT": str(server_port),
        "TERRACREW_CACHE": str(cache.root()),
        "GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT": "true",
        "USER": "root",
    }
    typed = "\n".join(script(port, server_port))
    done = subprocess.run(
        ["timeout", "200", "bash", "-c", typed],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
