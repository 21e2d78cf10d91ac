"""AWS's own mock of the instance metadata of EC2: built from its Go module and kept in the cache."""

import shutil
from pathlib import Path

from terracrew.toolchains import cache
from tests.machine.platforms import go_modules

MODULE, VERSION = "github.com/aws/amazon-ec2-metadata-mock", "v1.12.0"


class Ec2MetadataMock:
    def find(self) -> str | None:
        """Return the program if an earlier run has built it: it runs nowhere else than in the tests that start it."""
        return str(_binary()) if _binary().exists() else None

    def missing(self) -> str | None:
        return None if _binary().exists() or shutil.which("go") else "go is not installed"

    def prepare(self) -> None:
        with cache.locked("platforms-ec2-metadata", lambda: None) as workplace:
            if not _binary().exists():
                source = go_modules.copied(MODULE, VERSION, workplace / "source")
                made = go_modules.build(source, "./cmd", workplace / "built")
                _binary().parent.mkdir(parents=True, exist_ok=True)
                made.replace(_binary())

    def join(self) -> str:
        """Return the path of the program."""
        self.prepare()
        return str(_binary())

    def leave(self) -> None:
        """There is no daemon to end."""


def _binary() -> Path:
    return cache.root() / "platforms" / f"ec2-metadata-mock-{VERSION}"
