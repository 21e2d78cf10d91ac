"""A Vault of our own: `tests/machine/vault_server/main.go`, built from Vault's Go module and kept in the cache.

A build takes minutes, once. Version 1.13.0 is the last under the MPL that builds this way.
"""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from terracrew.toolchains import cache

MODULE, VERSION = "github.com/hashicorp/vault", "v1.13.0"
_SOURCE = Path(__file__).parents[1] / "vault_server" / "main.go"
_BUILD_SECONDS = 3600


class Vault:
    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def find(self) -> str | None:
        """Return nothing: a Vault that somebody else runs is not one to change."""

    def missing(self) -> str | None:
        return None if _binary().exists() or shutil.which("go") else "go is not installed"

    def join(self) -> str:
        """Start it, and return its address and its root token with a `#` between them."""
        with cache.locked("platforms-vault", lambda: None) as workplace:
            if not _binary().exists():
                _build(workplace)
        self._process = subprocess.Popen(
            [str(_binary()), "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def leave(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()


def _binary() -> Path:
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    return cache.root() / "platforms" / f"vault-{VERSION}-{digest}"


def _build(workplace: Path) -> None:
    """Build inside a copy of the module, because its go.mod has replacements by folders that the module does not contain."""
    listed = _go(workplace, "mod", "download", "-json", f"{MODULE}@{VERSION}")
    source = workplace / "vault"
    shutil.copytree(json.loads(listed)["Dir"], source)
    subprocess.run(["chmod", "-R", "u+w", str(source)], check=True)
    lines = (source / "go.mod").read_text().splitlines(keepends=True)
    (source / "go.mod").write_text("".join(line for line in lines if "=> ./" not in line))
    program = source / "terracrew_test_vault"
    program.mkdir()
    shutil.copy(_SOURCE, program / "main.go")
    made = workplace / "built"
    _go(source, "build", "-mod=mod", "-trimpath", "-ldflags", "-s -w", "-o", str(made), f"./{program.name}")
    _binary().parent.mkdir(parents=True, exist_ok=True)
    made.replace(_binary())


def _go(directory: Path, *arguments: str) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": ""}
    done = subprocess.run(
        ["go", *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"go {arguments[0]} failed: {done.stderr[-2000:]}")
    return done.stdout
