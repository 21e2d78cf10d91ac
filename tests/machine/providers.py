"""Real providers for tests: `hashicorp/time`, `terracrew/testing`, whose resources are files (`tests/provider/`), and our own
`terracrew/terracrew` (`provider/`).

They are built once, kept in the cache of the engines, and served to every engine from a directory, so that nothing is
downloaded. `python -m tests.machine.providers` builds them with progress.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from terracrew import __version__
from terracrew.cli.commands.engine import showing_progress
from terracrew.toolchains import cache, go_toolchain, program
from terracrew.toolchains.cache import InstallProgress, Report

_SOURCE = Path(__file__).parent.parent / "provider"
_GO_VERSION = "1.25.0"
_TIME_PACKAGE, _TIME_VERSION = "github.com/hashicorp/terraform-provider-time", "0.13.1"
_TESTING_VERSION = "1.0.0"
_REGISTRIES = ("registry.opentofu.org", "registry.terraform.io")


@dataclass(frozen=True)
class _Package:
    """A provider that is built from the Go module in a folder, and the addresses that it is served at."""

    package: str
    binary: str
    addresses: tuple[str, ...]
    version: str


@dataclass(frozen=True)
class _Mirror:
    """Providers of one Go module, which are built together."""

    name: str
    source: Path
    packages: tuple[_Package, ...]

    def get(self, report: Report) -> Path:
        """Return the directory with the providers. Builds them if the cache does not have them."""
        name = f"{self.name}{self._digest()}"
        made = cache.root() / "test-providers" / name / "_".join(cache.system())
        if not made.exists():
            with cache.locked(
                f"test-providers-{name}", lambda: report(InstallProgress("wait", "waiting for another build"))
            ) as workplace:
                if not made.exists():
                    self._build(workplace, report)
                    made.parent.mkdir(parents=True, exist_ok=True)
                    (workplace / "mirror").rename(made)
        return made

    def _digest(self) -> str:
        """Return a hash of everything that the providers are built from."""
        files = sorted(path for path in self.source.iterdir() if path.suffix in (".go", ".mod", ".sum"))
        return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()[:16]

    def _build(self, workplace: Path, report: Report) -> None:
        go = go_toolchain.get(_GO_VERSION, workplace, report)
        platform = "_".join(cache.system())
        for number, each in enumerate(self.packages):
            step = InstallProgress("build", f"compiling {each.binary}", number, len(self.packages))
            report(step)
            made = workplace / each.binary
            command = [go.path, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(made), each.package]
            program.run(command, cwd=self.source, env=go.env, on_tick=_repeated(report, step))
            for address in each.addresses:
                target = workplace / "mirror" / address / each.version / platform / f"{each.binary}_v{each.version}"
                target.parent.mkdir(parents=True)
                target.hardlink_to(made)


_OF_TESTS = _Mirror(
    "",
    _SOURCE,
    (
        _Package(".", "terraform-provider-testing", ("terracrew.test/terracrew/testing",), _TESTING_VERSION),
        _Package(
            _TIME_PACKAGE,
            "terraform-provider-time",
            tuple(f"{host}/hashicorp/time" for host in _REGISTRIES),
            _TIME_VERSION,
        ),
    ),
)
_OWN = _Mirror(
    "own-",
    Path(__file__).parents[2] / "provider",
    (
        _Package(
            ".",
            "terraform-provider-terracrew",
            tuple(f"{host}/terracrew/terracrew" for host in _REGISTRIES),
            __version__,
        ),
    ),
)


def mirror(report: Report = lambda _: None) -> Path:
    """Return the directory with the providers that exist for tests alone, laid out as a file-system mirror."""
    return _OF_TESTS.get(report)


def own_mirror(report: Report = lambda _: None) -> Path:
    """Return the directory with the provider `terracrew`, laid out as a file-system mirror."""
    return _OWN.get(report)


def configuration(folder: Path, source: Path | None = None) -> Path:
    """Write a configuration file of the engines into a folder, for `TF_CLI_CONFIG_FILE`: every provider comes from the mirror."""
    path = folder / "mirror.tfrc"
    path.write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{source or mirror()}"\n  }}\n}}\n')
    return path


def required(*names: str) -> str:
    """Return the block that a module needs in order to use `testing` or `time`."""
    known = {
        "testing": f'{{ source = "terracrew.test/terracrew/testing", version = "{_TESTING_VERSION}" }}',
        "time": f'{{ source = "hashicorp/time", version = "{_TIME_VERSION}" }}',
    }
    lines = "".join(f"    {name} = {known[name]}\n" for name in names)
    return f"terraform {{\n  required_providers {{\n{lines}  }}\n}}\n"


def _repeated(report: Report, step: InstallProgress) -> Callable[[], None]:
    return lambda: report(step)


if __name__ == "__main__":
    with showing_progress() as show:
        places = f"{mirror(show)} and {own_mirror(show)}"
        show(InstallProgress("ready", f"the providers of the tests are built: {places}"))
