"""MiniStack: an emulator of AWS that enforces policies and trust, unlike moto. It checks no signature of a web identity.

It pins a version of botocore, so it has an environment of its own in the cache. Each process of the tests starts one, on loopback.
"""

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from terracrew.toolchains import cache

_REQUIREMENTS = Path(__file__).with_name("ministack.txt")
_MAX_START_SECONDS = 60


class MiniStack:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: str | None = None

    def find(self) -> str | None:
        """Return nothing: nobody runs an emulator at a usual place."""

    def missing(self) -> str | None:
        return None if _is_installed() or _uv() else "uv is not installed: `scripts/bootstrap` installs it"

    def prepare(self) -> None:
        with cache.locked("platforms-ministack", lambda: None):
            if not _is_installed():
                _install(_environment())

    def join(self) -> str:
        """Start it, and return its address. The access key `test` may do everything in it."""
        self.prepare()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._folder = tempfile.mkdtemp(prefix="ministack-")
        settings = {"AUTH": "true", "BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "HOME": self._folder}
        usual = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "DOCKER_"))}
        with (Path(self._folder) / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [str(_program())], cwd=self._folder, env=usual | settings, stdout=log, stderr=log
            )
        address = f"http://127.0.0.1:{port}"
        self._wait_until_it_answers(address)
        return address

    def leave(self) -> None:
        assert self._process is not None
        assert self._folder is not None
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait_until_it_answers(self, address: str) -> None:
        assert self._process is not None
        assert self._folder is not None
        until = time.monotonic() + _MAX_START_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"{address}/_ministack/health", timeout=5).close()
                return
            except (urllib.error.URLError, OSError) as error:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError((Path(self._folder) / "log").read_text()[-2000:]) from error
                time.sleep(0.1)


def _environment() -> Path:
    digest = hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()[:16]
    return cache.root() / "platforms" / f"ministack-{sys.version_info.major}.{sys.version_info.minor}-{digest}"


def _program() -> Path:
    return _environment() / "bin" / "ministack"


def _is_installed() -> bool:
    return (_environment() / "complete").exists()


def _uv() -> str | None:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv")


def _install(folder: Path) -> None:
    uv = _uv()
    assert uv is not None
    run = {"check": True, "env": {"UV_SYSTEM_CERTS": "true", "UV_NATIVE_TLS": "true", **os.environ}}
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], **run)  # type: ignore[call-overload]
    install = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), "--require-hashes"]
    subprocess.run([*install, "-r", str(_REQUIREMENTS)], **run)  # type: ignore[call-overload]
    (folder / "complete").touch()
