"""Real providers for tests: `hashicorp/time`, and `terracrew/testing`, whose resources are files (`tests/provider/`).

Both are built once, kept in the cache of the engines, and served to every engine from a directory, so that nothing is
downloaded. `python -m tests.machine.providers` builds them with progress.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

from terracrew.cli.commands.engine import showing_progress
from terracrew.toolchains import cache, go_toolchain, program
from terracrew.toolchains.cache import InstallProgress, Report

_SOURCE = Path(__file__).parent.parent / "provider"
_GO_VERSION = "1.25.0"
_TIME_PACKAGE, _TIME_VERSION = "github.com/hashicorp/terraform-provider-time", "0.13.1"
_TESTING_VERSION = "1.0.0"
_REGISTRIES = ("registry.opentofu.org", "registry.terraform.io")
_PACKAGES = (
    (".", "terraform-provider-testing", ["terracrew.test/terracrew/testing"], _TESTING_VERSION),
    (_TIME_PACKAGE, "terraform-provider-time", [f"{host}/hashicorp/time" for host in _REGISTRIES], _TIME_VERSION),
)


def mirror(report: Report = lambda _: None) -> Path:
    """Return the directory with both providers, laid out as a file-system mirror. Builds them if the cache does not have them."""
    digest = _digest()
    made = cache.root() / "test-providers" / digest / "_".join(cache.system())
    if not made.exists():
        name = f"test-providers-{digest}"
        with cache.locked(name, lambda: report(InstallProgress("wait", "waiting for another build"))) as workplace:
            if not made.exists():
                _build(workplace, report)
                made.parent.mkdir(parents=True, exist_ok=True)
                (workplace / "mirror").rename(made)
    return made


def configuration(folder: Path) -> Path:
    """Write a configuration file of the engines into a folder, for `TF_CLI_CONFIG_FILE`: every provider comes from the mirror."""
    path = folder / "mirror.tfrc"
    path.write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{mirror()}"\n  }}\n}}\n')
    return path


def required(*names: str) -> str:
    """Return the block that a module needs in order to use `testing` or `time`."""
    known = {
        "testing": f'{{ source = "terracrew.test/terracrew/testing", version = "{_TESTING_VERSION}" }}',
        "time": f'{{ source = "hashicorp/time", version = "{_TIME_VERSION}" }}',
    }
    lines = "".join(f"    {name} = {known[name]}\n" for name in names)
    return f"terraform {{\n  required_providers {{\n{lines}  }}\n}}\n"


def _digest() -> str:
    """Return a hash of everything that the providers are built from."""
    files = sorted(path for path in _SOURCE.iterdir() if path.suffix in (".go", ".mod", ".sum"))
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()[:16]


def _build(workplace: Path, report: Report) -> None:
    go = go_toolchain.get(_GO_VERSION, workplace, report)
    platform = "_".join(cache.system())
    for number, (package, binary, addresses, version) in enumerate(_PACKAGES):
        step = InstallProgress("build", f"compiling {binary}", number, len(_PACKAGES))
        report(step)
        made = workplace / binary
        command = [go.path, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(made), package]
        program.run(command, cwd=_SOURCE, env=go.env, on_tick=_repeated(report, step))
        for address in addresses:
            target = workplace / "mirror" / address / version / platform / f"{binary}_v{version}"
            target.parent.mkdir(parents=True)
            target.hardlink_to(made)


def _repeated(report: Report, step: InstallProgress) -> Callable[[], None]:
    return lambda: report(step)


if __name__ == "__main__":
    with showing_progress() as show:
        place = mirror(show)
        show(InstallProgress("ready", f"the providers of the tests are built: {place}"))
