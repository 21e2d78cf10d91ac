"""A Vault of our own: `tests/machine/vault_server/main.go`, built from Vault's Go module and kept in the cache.

A build takes minutes, once. Version 1.13.0 is the last under the MPL that builds this way.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path

from terracrew.toolchains import cache
from tests.machine.platforms import go_modules

MODULE, VERSION = "github.com/hashicorp/vault", "v1.13.0"
_SOURCE = Path(__file__).parents[1] / "vault_server" / "main.go"


class Vault:
    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def find(self) -> str | None:
        """Return nothing: a Vault that somebody else runs is not one to change."""

    def missing(self) -> str | None:
        return None if _binary().exists() or shutil.which("go") else "go is not installed"

    def prepare(self) -> None:
        with cache.locked("platforms-vault", lambda: None) as workplace:
            if not _binary().exists():
                _build(workplace)

    def join(self) -> str:
        """Start it, and return its address and its root token with a `#` between them."""
        self.prepare()
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
    source = go_modules.copied(MODULE, VERSION, workplace / "vault")
    go_modules.drop_replacements(source)
    program = source / "terracrew_test_vault"
    program.mkdir()
    shutil.copy(_SOURCE, program / "main.go")
    made = go_modules.build(source, f"./{program.name}", workplace / "vault-built")
    _binary().parent.mkdir(parents=True, exist_ok=True)
    made.replace(_binary())
