"""The first two tutorials, typed one after the other as they stand there, against a Terracrew that a user starts with `terracrew up`."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.toolchains import cache
from tests.e2e.system import free_port
from tests.thoroughness import thorough

pytestmark = [pytest.mark.engine, pytest.mark.timeout(120)]
DOCS = Path(__file__).parents[2] / "docs"


def script(page: str, server_port: int) -> Iterator[str]:
    """Yield all lines that are typed. What is left running is started beside the others, and waited for until it is ready."""
    yield from ("set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null' EXIT")
    up = ["terracrew up > up.log 2>&1 &", f"until curl -sf http://127.0.0.1:{server_port}/readyz; do sleep 0.1; done"]
    typed = "".join(re.findall(r"^```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)).splitlines()
    for line in typed:
        if line == "terracrew up":
            yield from up
        elif line.startswith("set -a;"):
            yield "("
            yield line
        elif line == "terracrew runner start":
            yield f"exec {line}"
            yield ") > runner.log 2>&1 & runner=$!"
            yield "until terracrew runner list | grep -q ONLINE.*edge || terracrew runner list | grep -q edge.*ONLINE; do sleep 0.2; done"
        else:
            yield line


@pytest.mark.feature("P6.tutorials")
@thorough
def test_every_command_of_the_first_tutorials_works_when_it_is_typed(tmp_path: Path) -> None:
    """The second one showed job 1 of a server on which the first one had run jobs."""
    server_port = free_port()
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("TERRACREW_", "XDG_", "TF_"))}
    environment = kept | {
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TERRACREW_SERVER_PORT": str(server_port),
        "TERRACREW_CACHE": str(cache.root()),
    }
    pages = "".join((DOCS / f"tutorial-first-{name}.md").read_text() for name in ("module", "runner"))
    typed = "\n".join(script(pages, server_port))
    typed += '\nfor _ in $(seq 100); do kill -0 "$runner" 2>/dev/null || exit 0; sleep 0.1; done; echo "the runner goes on"; exit 1\n'
    done = subprocess.run(
        ["timeout", "100", "bash", "-c", typed],
        env=environment,
        cwd=tmp_path,
        input="y\n",  # where it asks
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    shown = ["hello", "good morning", "it waits for an approval", "deleted group tutorial", "OFFLINE", "on edge"]
    assert [words for words in shown if words not in done.stdout] == []
    assert re.search(r"SUCCEEDED +crew/site +edge", done.stdout)
