"""Provides an engine: an installed one, otherwise a verified release, otherwise a build from source."""

from collections.abc import Sequence
from pathlib import Path

from terracrew.errors import Invalid, NotFound, Unreachable
from terracrew.toolchains import cache, discovery, go_build, release, specs
from terracrew.toolchains.cache import InstallProgress, Report
from terracrew.toolchains.discovery import FoundEngine


def install(
    engine: str,
    version: str | None = None,
    *,
    report: Report,
    force_build: bool = False,
    extra_paths: Sequence[str] = (),
) -> FoundEngine:
    """Return the engine and install it if it is missing. Without a version, any version on PATH is accepted that is not too old."""
    spec = specs.get(engine)
    wanted = specs.wanted(spec, version)
    if not force_build:
        there = discovery.find_on_path(engine, extra_paths)
        is_enough = there is not None and not specs.is_too_old(spec, there.version)
        if there and (version == there.version or (version is None and is_enough)):
            report(InstallProgress("ready", f"{spec.title} {there.version} is already installed: {there.path}"))
            return there
        if path := cache.binary(spec, wanted):
            return _ready(spec, wanted, path, report)
    waiting = InstallProgress("wait", f"waiting for another install of {spec.title} {wanted}")
    waited = False

    def wait() -> None:
        nonlocal waited
        waited = True
        report(waiting)

    with cache.locked(f"{spec.name}-{wanted}", wait) as workplace:
        path = cache.binary(spec, wanted)
        if path is None or (force_build and not waited):
            made = _make(spec, wanted, workplace, report, force_build=force_build)
            _check(spec, wanted, made[0])
            cache.publish(made, cache.directory(spec.name, wanted))
            path = cache.directory(spec.name, wanted) / made[0].name
    return _ready(spec, wanted, path, report)


def _make(spec: specs.Spec, version: str, workplace: Path, report: Report, *, force_build: bool) -> list[Path]:
    if not force_build and spec.release:
        try:
            return release.fetch(spec, version, workplace, report)
        except (Unreachable, NotFound) as error:
            text = f"{error.message}; building {spec.title} {version} from its Go module instead"
            report(InstallProgress("note", text))
    return go_build.build(spec, version, workplace, report)


def _check(spec: specs.Spec, version: str, path: Path) -> None:
    path.chmod(0o755)
    said = discovery.ask_version(spec, path)
    if said != version:
        problem = f"says it is {said}" if said else f"does not answer `{' '.join(spec.ask)}`"
        raise Invalid(f"the file for {spec.title} {version} {problem}: nothing was installed")


def _ready(spec: specs.Spec, version: str, path: Path, report: Report) -> FoundEngine:
    report(InstallProgress("ready", f"{spec.title} {version} is installed: {path}"))
    return FoundEngine(spec.name, str(path), version)
