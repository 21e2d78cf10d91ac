"""Builds an engine from a copy of its Go module's source, because `go install` refuses a module with replacements."""

import shutil
from pathlib import Path

import msgspec

from terracrew.errors import EngineMissing, Invalid
from terracrew.toolchains import go_toolchain, program, specs
from terracrew.toolchains.cache import InstallProgress, Report
from terracrew.toolchains.go_toolchain import Go


class _Module(msgspec.Struct, rename="pascal"):
    dir: str = ""
    sum: str = ""
    error: str = ""


def build(spec: specs.Spec, version: str, workplace: Path, report: Report) -> list[Path]:
    """Compile every program of the engine into the workplace, the engine itself first."""
    go = go_toolchain.get(spec.go, workplace, report)
    return [_build_one(go, one, version, workplace, report) for one in spec.programs]


def _build_one(go: Go, one: specs.GoProgram, version: str, workplace: Path, report: Report) -> Path:
    source = _source(go, one, version, workplace, report)
    if one.edits:
        edits = [edit.format(version=version) for edit in one.edits]
        program.run([go.path, "mod", "edit", *edits], cwd=source, env=go.env)
    variables = [f"-X {variable.format(version=version)}" for variable in one.variables]
    flags = [*one.flags, "-trimpath", "-ldflags", " ".join(["-s", "-w", *variables])]
    to_compile = _stale_packages(go, one, flags, source, report)
    result = workplace / one.binary
    _compile(go, one, flags, source, result, to_compile, report)
    shutil.rmtree(source)
    return result


def _source(go: Go, one: specs.GoProgram, version: str, workplace: Path, report: Report) -> Path:
    """Return a writable copy of the module's source, because the module cache is read-only and shared."""
    wanted = f"{one.module}@v{one.version.format(version=version)}"
    fetching = InstallProgress("modules", f"fetching the source {wanted}")
    report(fetching)
    command = [go.path, "mod", "download", "-json", wanted]
    answer = program.run(command, cwd=workplace, env=go.env, on_tick=lambda: report(fetching), may_fail=True)
    module = msgspec.json.decode(answer or b"{}", type=_Module)
    if not module.dir:
        raise EngineMissing(f"{wanted} cannot be downloaded: {module.error}")
    pinned = specs.GO_MODULES.get(wanted)
    if pinned and module.sum != pinned:
        raise Invalid(
            f"the source of {wanted} has changed: its hash is {module.sum or 'unknown'}, not {pinned}. Nothing was built"
        )
    source = workplace / f"{one.binary}.source"
    shutil.copytree(module.dir, source, copy_function=shutil.copyfile)
    for path in (source, *source.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    return source


def _stale_packages(go: Go, one: specs.GoProgram, flags: list[str], source: Path, report: Report) -> set[str]:
    """Return the packages that remain to be compiled, for the progress. With go's build cache, there may be none."""
    fetched: list[str] = []

    def report_progress() -> None:
        latest = fetched[-1] if fetched else f"the modules of {one.binary}"
        report(InstallProgress("modules", f"fetching {latest}", len(fetched)))

    def is_expected(line: str) -> bool:
        if not line.startswith("go: downloading "):
            return False
        fetched.append(line.removeprefix("go: downloading "))
        report_progress()
        return True

    command = [go.path, "list", *flags, "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", one.package]
    return set(
        program.run(command, cwd=source, env=go.env, is_expected=is_expected, on_tick=report_progress).decode().split()
    )


def _compile(
    go: Go, one: specs.GoProgram, flags: list[str], source: Path, result: Path, to_compile: set[str], report: Report
) -> None:
    compiled: set[str] = set()

    def report_progress(what: str = "") -> None:
        # The package with `main` is named when its compilation begins; linking follows and names nothing.
        text = f"compiling {what}" if what and len(compiled) < len(to_compile) else f"linking {one.binary}"
        report(InstallProgress("build", text, len(compiled), len(to_compile)))

    latest = ""

    def is_expected(line: str) -> bool:
        nonlocal latest
        if line not in to_compile:
            return line.startswith("go: downloading ")
        compiled.add(line)
        latest = line
        report_progress(latest)
        return True

    report_progress(one.binary)
    command = [go.path, "build", *flags, "-v", "-o", str(result), one.package]
    program.run(command, cwd=source, env=go.env, is_expected=is_expected, on_tick=lambda: report_progress(latest))
    report(InstallProgress("build", f"built {one.binary}", len(to_compile), len(to_compile)))
