"""scripts/bootstrap gets uv and the packages as uv.lock says, and trusts the certificates of the system."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Writes down what it was started with, and makes what bootstrap needs of `uv sync`.
RECORDING_UV = """#!/bin/sh
env >>"$RECORD"
mkdir -p .venv/bin
ln -sf "$(command -v python3.11)" .venv/bin/python
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What bootstrap reads of a checkout."""
    folder = tmp_path / "checkout"
    (folder / "scripts").mkdir(parents=True)
    (folder / "src").mkdir()
    for name in ("scripts/bootstrap", "scripts/locked.py", "uv.lock"):
        shutil.copy(ROOT / name, folder / name)
    (programs := tmp_path / "programs").mkdir()
    _write_program(programs / "python3.11", f'#!/bin/sh\nexec "{Path(sys.base_prefix) / "bin" / "python3"}" "$@"\n')
    return folder


def _write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _bootstrap(checkout: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    home = checkout.parent / "home"
    home.mkdir(exist_ok=True)
    bare = {"HOME": str(home), "PATH": f"{checkout.parent}/programs:/usr/bin:/bin", "PIP_CONFIG_FILE": "/dev/null"}
    command = [checkout / "scripts" / "bootstrap"]
    return subprocess.run(command, env=bare | env, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(("told", "expected"), [({}, "true"), ({"UV_SYSTEM_CERTS": "false"}, "false")])
def test_uv_trusts_the_certificates_of_the_system_unless_the_user_says_otherwise(
    checkout: Path, told: dict[str, str], expected: str
) -> None:
    """Symptom: `invalid peer certificate: UnknownIssuer`, where only the system's certificates verify the package index."""
    _write_program(checkout.parent / "programs" / "uv", RECORDING_UV)
    trusted = checkout.parent / "trusted.pem"
    trusted.touch()
    env = {"RECORD": str(checkout.parent / "record"), "SSL_CERT_FILE": str(trusted)}
    done = _bootstrap(checkout, env | told)
    assert done.returncode == 0, done.stderr
    assert f"UV_SYSTEM_CERTS={expected}" in (checkout.parent / "record").read_text().splitlines()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """A package index whose files are not those of uv.lock: `uv` in the version of the lock, and a newer one."""
    locked = next(
        each["version"] for each in tomllib.loads((ROOT / "uv.lock").read_text())["package"] if each["name"] == "uv"
    )
    pages = tmp_path / "index" / "simple" / "uv"
    pages.mkdir(parents=True)
    links = ""
    for version in (locked, "999.0"):
        name = f"uv-{version}-py3-none-any.whl"
        with zipfile.ZipFile(pages / name, "w") as wheel:
            wheel.writestr(f"uv-{version}.data/scripts/uv", f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
            wheel.writestr(f"uv-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: uv\nVersion: {version}\n")
            wheel.writestr(f"uv-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"uv-{version}.dist-info/RECORD", "")
        links += f'<a href="{name}">{name}</a>\n'
    (pages / "index.html").write_text(links)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "index"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()


def test_a_uv_with_another_hash_than_that_of_the_lock_is_not_installed(checkout: Path, index: str) -> None:
    """Symptom: whatever the index called the newest uv was installed and run."""
    done = _bootstrap(checkout, {"PIP_INDEX_URL": index, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not (checkout.parent / "was-run").exists()
    assert not os.access(checkout / "build" / "tools" / "bin" / "uv", os.X_OK)
