"""A real provider of identities for tests: `oidc-provider` from npm, started by node. Where one of the two is missing, its tests are
left out.

The library is installed once, from the lock file beside this one, into the cache of the engines.
"""

import hashlib
import json
import os
import queue
import shutil
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from terracrew.toolchains import cache
from tests.machine.needs import need

_HERE = Path(__file__).parent
ANSWER_SECONDS = 30.0
INSTALL_SECONDS = 180.0


def library() -> Path:
    """Return the library's own file. A machine without node, or without a way to the registry, leaves the tests out."""
    need(None if shutil.which("node") and shutil.which("npm") else "no node here: oidc-provider was not tried")
    digest = hashlib.sha256((_HERE / "package-lock.json").read_bytes()).hexdigest()[:16]
    made = cache.root() / "test-providers" / f"oidc-provider-{digest}"
    entry = made / "node_modules" / "oidc-provider" / "lib" / "index.js"
    if not entry.exists():
        with cache.locked(f"test-providers-oidc-provider-{digest}", lambda: None) as workplace:
            if not entry.exists():
                _install(workplace, made)
    return entry


def _install(workplace: Path, made: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_HERE / name, workplace / name)
    command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(command, cwd=workplace, capture_output=True, timeout=INSTALL_SECONDS, check=False)
    if done.returncode:
        need(f"npm cannot install oidc-provider: {done.stderr.decode(errors='replace')[-200:]}")
    made.mkdir(parents=True, exist_ok=True)
    (workplace / "node_modules").rename(made / "node_modules")


class OidcProvider:
    """A running provider, whose people a test can change."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._said: queue.Queue[dict[str, Any]] = queue.Queue()
        self.logouts: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.url = self._said.get(timeout=ANSWER_SECONDS)["url"]

    def begin(self, accounts: dict[str, dict[str, Any]]) -> None:
        """Have these people, whom nobody else knows of, and no clients."""
        self._ask({"accounts": accounts, "clients": []})

    def change(self, accounts: dict[str, dict[str, Any]]) -> None:
        """Replace all people. Who is not among them any more does not exist."""
        self._ask({"accounts": accounts})

    def register(self, clients: list[dict[str, Any]]) -> None:
        """Replace all clients."""
        self._ask({"clients": clients})

    def _ask(self, command: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        self._said.get(timeout=ANSWER_SECONDS)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith("{"):
                continue  # the library warns of what is for tests only
            said = json.loads(line)
            (self.logouts if "logout" in said else self._said).put(said)


@contextmanager
def running() -> Generator[OidcProvider]:
    entry = library()
    environment = {**os.environ, "OIDC_PROVIDER_LIBRARY": str(entry), "NODE_ENV": "test"}
    process = subprocess.Popen(
        ["node", str(_HERE / "server.js")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    try:
        yield OidcProvider(process)
    finally:
        process.kill()
        process.wait(10)
