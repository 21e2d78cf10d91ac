"""A Keycloak of our own, a real provider of identities: its distribution from Maven Central, kept in the cache.

It runs in development mode, on loopback, with its embedded database in memory, and needs Java 17 or later.
"""

import contextlib
import hashlib
import os
import secrets
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import urllib.request
from pathlib import Path

from terracrew.toolchains import cache
from tests.e2e.system import free_port

VERSION = "26.7.3"
SHA256 = "77657f30b7e90d70f727712ce1c967f430fd6a5e9f458d32d8c6df0635345f47"
"""What the repository publishes beside the archive."""
ADMINISTRATOR = "admin"
_NAME = f"keycloak-quarkus-dist-{VERSION}.tar.gz"
_ARCHIVE = f"https://repo1.maven.org/maven2/org/keycloak/keycloak-quarkus-dist/{VERSION}/{_NAME}"
_PIECE_BYTES = 1 << 20
_START_SECONDS = 240.0


class Keycloak:
    def __init__(self) -> None:
        self._running: _Running | None = None

    def find(self) -> str | None:
        """Return nothing: a Keycloak that somebody else runs is not one to change."""

    def missing(self) -> str | None:
        return None if shutil.which("java") else "java is not installed"

    def prepare(self) -> None:
        with cache.locked("platforms-keycloak", lambda: None) as workplace:
            if not home().exists():
                _install(workplace)

    def join(self) -> str:
        """Start it, and return its address and the password of its administrator with a `#` between them."""
        self.prepare()
        password = secrets.token_urlsafe(16)
        self._running = _Running(home(), password)
        self._running.wait()
        return f"{self._running.url}#{password}"

    def leave(self) -> None:
        if self._running is not None:
            self._running.kill()


class _Running:
    """One Keycloak, with an empty database."""

    def __init__(self, folder: Path, password: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = tempfile.NamedTemporaryFile(prefix="keycloak-", suffix=".log")  # noqa: SIM115 (it lasts as long as the process)
        administrator = {"KC_BOOTSTRAP_ADMIN_USERNAME": ADMINISTRATOR, "KC_BOOTSTRAP_ADMIN_PASSWORD": password}
        command = [
            folder / "bin" / "kc.sh",
            "start-dev",
            "--db=dev-mem",
            "--http-host=127.0.0.1",
            f"--http-port={port}",
        ]
        self._process = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, env=_environment() | administrator, start_new_session=True
        )

    def wait(self) -> None:
        """Wait until it answers. It has no other way to say so."""
        end = time.monotonic() + _START_SECONDS
        while self._process.poll() is None and time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"{self.url}/realms/master", timeout=5):
                    return
            except OSError:
                time.sleep(0.2)
        said = Path(self._log.name).read_text(errors="replace")[-2000:]
        self.kill()
        raise RuntimeError(f"keycloak has not started: {said}")

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # a shell, and Java as its child
        self._process.communicate()
        self._log.close()


def home() -> Path:
    """Return the folder of the distribution."""
    return cache.root() / "platforms" / f"keycloak-{VERSION}"


def _install(workplace: Path) -> None:
    archive = workplace / _NAME
    _download(archive)
    with tarfile.open(archive) as opened:
        opened.extractall(workplace, filter="data")
    made = workplace / f"keycloak-{VERSION}"
    first = _Running(made, secrets.token_urlsafe(16))  # the first start builds what later ones use
    try:
        first.wait()
    finally:
        first.kill()
    shutil.rmtree(made / "data", ignore_errors=True)
    home().parent.mkdir(parents=True, exist_ok=True)
    made.replace(home())


def _download(archive: Path) -> None:
    digest = hashlib.sha256()
    with urllib.request.urlopen(_ARCHIVE, timeout=60) as answer, archive.open("wb") as file:
        while piece := answer.read(_PIECE_BYTES):
            digest.update(piece)
            file.write(piece)
    assert digest.hexdigest() == SHA256, f"{_ARCHIVE} is not the file whose checksum is known"


def _environment() -> dict[str, str]:
    found = {name: value for name, value in os.environ.items() if not name.startswith(("KC_", "KEYCLOAK_"))}
    return found | {"JAVA_OPTS_APPEND": "-XX:TieredStopAtLevel=1"}
