"""A real Pulumi provider for tests: `testing`, whose resources are files (`tests/provider/pulumi/`).

It is built once and kept in the cache of the engines. Pulumi finds it on PATH, so that nothing is downloaded.
`python -m tests.machine.pulumi_provider` builds it with progress.
"""

import hashlib
import os
from pathlib import Path

import pytest

from terracrew.cli.commands.engine import showing_progress
from terracrew.toolchains import cache, go_toolchain, program
from terracrew.toolchains.cache import InstallProgress, Report
from tests.machine import engines

_SOURCE = Path(__file__).parent.parent / "provider" / "pulumi"
_GO_VERSION = "1.25.11"
_BINARY = "pulumi-resource-testing"


def required() -> Path:
    """Return the directory with the provider, in a run of `make test-engines`. Another run leaves its tests out, because each
    command of Pulumi takes a second."""
    if not os.environ.get(engines.MUST_EXIST):
        pytest.skip("the tests with a provider of Pulumi run with `make test-engines`")
    return folder()


def folder(report: Report = lambda _: None) -> Path:
    """Return the directory with the provider, for PATH. Builds it if the cache does not have it."""
    digest = _digest()
    made = cache.root() / "test-providers" / f"pulumi-{digest}" / "_".join(cache.system())
    if not (made / _BINARY).exists():
        name = f"test-providers-pulumi-{digest}"
        with cache.locked(name, lambda: report(InstallProgress("wait", "waiting for another build"))) as workplace:
            if not (made / _BINARY).exists():
                made.mkdir(parents=True, exist_ok=True)
                _build(workplace, report).rename(made / _BINARY)
    return made


def _digest() -> str:
    """Return a hash of everything that the provider is built from."""
    files = sorted(path for path in _SOURCE.iterdir() if path.suffix in (".go", ".mod", ".sum"))
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()[:16]


def _build(workplace: Path, report: Report) -> Path:
    go = go_toolchain.get(_GO_VERSION, workplace, report)
    step = InstallProgress("build", f"compiling {_BINARY}")
    report(step)
    made = workplace / _BINARY
    command = [go.path, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(made), "."]
    program.run(command, cwd=_SOURCE, env=go.env, on_tick=lambda: report(step))
    return made


if __name__ == "__main__":
    with showing_progress() as show:
        place = folder(show)
        show(InstallProgress("ready", f"the Pulumi provider of the tests is built: {place}"))
