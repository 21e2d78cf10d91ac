"""`terracrew adopt`: moves a configuration that a person has run with the bare engine until now into a module, with its state."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from terracrew.api.inputs import InputView, NewInput
from terracrew.api.modules import Module, NewModule
from terracrew.api.states import State
from terracrew.cli.arguments import source as sources
from terracrew.cli.commands import state as state_files
from terracrew.cli.commands.job import follow
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.errors import Invalid, TerracrewError

if TYPE_CHECKING:
    from terracrew.client.http import Api
import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Generator

from terracrew.protocol.spec import ArchiveSource
from terracrew.source_rules import configurations

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command(
    "adopt",
    epilog=output.examples(
        "terracrew adopt ./live/prod --as shop/prod",
        "terracrew adopt ./live/prod --as shop/prod --root . --var-file prod.tfvars",
        "terracrew adopt ./live/prod --as shop/prod --state state.json --no-plan",
    ),
)
@click.argument("folder", type=_FOLDER)
@click.option("--as", "new_path", required=True, metavar="GROUP/NAME", help="The path of the new module.")
@click.option("--root", type=_FOLDER, help="Upload this folder, which FOLDER is in, if FOLDER uses modules beside it.")
@click.option("--engine", type=click.Choice(["tofu", "terraform"]), help="By default the one that the lock file names.")
@click.option("--state", "state_file", type=click.File("rb"), help="The state. By default the engine here pulls it.")
@click.option(
    "--var-file",
    "var_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with values of variables, as for the engine. Can be repeated.",
)
@sources.input_options
@click.option("--no-plan", is_flag=True, help="Do not plan afterwards.")
@output.with_target
def adopt(
    target: Target,
    folder: Path,
    new_path: str,
    root: Path | None,
    engine: str | None,
    state_file: BinaryIO | None,
    var_files: tuple[Path, ...],
    variables: tuple[str, ...],
    environment: tuple[str, ...],
    no_plan: bool,
) -> output.CommandResult:
    """Make a module of FOLDER, which OpenTofu or Terraform has run until now: with its source, its state and its values.

    A `backend` or `cloud` block is left out of the copy that is uploaded. Files such as terraform.tfvars are part of it. Then the
    module is planned, and should have nothing to change. FOLDER and its state stay as they are: let nobody apply there any more.
    """
    folder = folder.resolve()
    whole = (root or folder).resolve()
    if not folder.is_relative_to(whole):
        raise Invalid(f"{folder} is not in {whole}, which --root names")
    chosen = engine or engine_of(folder)
    files = _read(var_files)
    api = target.api()
    state = state_of(folder, chosen, state_file)
    with without_backend(whole, folder, chosen) as (copy, changed):
        archive_id = sources.upload(api, copy)
    subdirectory = "" if folder == whole else folder.relative_to(whole).as_posix()
    group = new_path.rpartition("/")[0]
    if group:
        sources.ensure_group(api, group)
    new = NewModule(
        path=new_path,
        engine=chosen,
        inputs=sources.inputs(variables),
        environment=sources.environment(environment),
        source=ArchiveSource(archive_id, subdirectory),
    )
    module = api.post("/modules", new, Module)
    brought = _bring(api, module.path, state, files)
    is_json = output.wants_json()
    if not is_json:
        click.echo(f"created module {module.path} with the state of {folder} (serial {brought.serial})")
        _remark(changed, variables)
    job = None if no_plan else follow.run(api, module.path, is_silent=is_json)
    value = {"module": module, "state": brought, "job": job}
    return output.CommandResult(value, lambda: None, 0 if job is None or follow.has_no_changes(job) else 1)


def _read(var_files: tuple[Path, ...]) -> dict[str, str]:
    """Return the contents of files with values by the names that they get in the module.

    Engines read these files in the order of their names, and later values count.
    """
    found: dict[str, str] = {}
    for number, file in enumerate(var_files):
        ending = "auto.tfvars.json" if file.suffix == ".json" else "auto.tfvars"
        try:
            found[f"~adopted-{number:03}-{file.name.partition('.')[0]}.{ending}"] = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Invalid(f"{file} cannot be read as a file with values of variables: {error}") from None
    return found


def _bring(api: "Api", path: str, state: bytes, files: dict[str, str]) -> State:
    """Give the new module its state and its files. If that does not succeed, the module is deleted: without its state, a job would
    create everything again."""
    try:
        for name, content in files.items():
            api.post("/inputs", NewInput(name, path, "file", content), InputView)
        return state_files.upload(api, path, state, force=False)
    except BaseException:  # also if a person interrupts it
        try:
            api.delete(f"/modules/{segment(path)}?force=true")
        except TerracrewError as error:
            output.note(
                f"module {path} exists without its state and could not be deleted ({error}). An apply would create everything "
                f"again: delete it first (`terracrew module delete {path} --force`)"
            )
        raise


def _remark(changed: list[str], variables: tuple[str, ...]) -> None:
    if changed:
        output.note(f"the backend block of {', '.join(changed)} is not in the copy: remove it before the next upload")
    given = {each.partition("=")[0] for each in variables}
    shell = sorted(
        name.removeprefix("TF_VAR_")
        for name in os.environ
        if name.startswith("TF_VAR_") and name.removeprefix("TF_VAR_") not in given
    )
    if shell:
        output.note(
            f"this shell has values for {', '.join(shell)} (TF_VAR_…), which are not brought: give them with --var"
        )
    if os.environ.get("TF_WORKSPACE", "default") not in ("", "default"):
        output.note(
            "TF_WORKSPACE chose the state, and jobs do not have it: use a variable instead of `terraform.workspace`"
        )


_LEFT_OUT = shutil.ignore_patterns(".terraform", ".git")
_REGISTRIES = {"registry.opentofu.org": "tofu", "registry.terraform.io": "terraform"}
_LOCK_FILE = ".terraform.lock.hcl"
_PULL_SECONDS = 300.0


def engine_of(folder: Path) -> str:
    """Return the engine that has run a configuration, as its lock file tells; OpenTofu if nothing tells it."""
    with contextlib.suppress(OSError):
        locked = (folder / _LOCK_FILE).read_text(errors="replace")
        for registry, engine in _REGISTRIES.items():
            if f'"{registry}/' in locked:
                return engine
    return "tofu"


@contextlib.contextmanager
def without_backend(root: Path, folder: Path, engine: str) -> Generator[tuple[Path, list[str]]]:
    """Yield a copy of `root` in which the configuration in `folder`, which is in it, does not say where its state is, and the names
    of the files from which that was left out."""
    from terracrew.executor.engines.hcl import blocks

    patterns = configurations.PATTERNS[engine]
    if not any(configurations.is_match(each.name, patterns) for each in folder.iterdir()):
        raise Invalid(configurations.missing("", engine, patterns))
    with tempfile.TemporaryDirectory(prefix="terracrew-") as made:
        copy = Path(made) / "source"
        shutil.copytree(root, copy, symlinks=True, ignore=_LEFT_OUT)
        changed: list[str] = []
        for path in blocks.configuration_files(copy / folder.relative_to(root), patterns):
            text = path.read_bytes().decode(errors="surrogateescape")
            left = blocks.without_backend(text, is_json=path.suffix == ".json")
            if left != text and not path.is_symlink():
                path.write_bytes(left.encode(errors="surrogateescape"))
                changed.append(path.name)
        yield copy, changed


def state_of(folder: Path, engine: str, given: BinaryIO | None) -> bytes:
    """Return the state of a configuration: that of a file, or what the engine on this machine finds in its backend."""
    if given is not None:
        return given.read()
    found = _pulled(folder, engine)
    if not found.strip():
        raise Invalid(
            f"{folder} has no state, so there is nothing to bring",
            hint="`terracrew module create` makes a module without one; --state FILE names one",
        )
    return found


def _pulled(folder: Path, engine: str) -> bytes:
    from terracrew.toolchains import discovery

    program = discovery.find(engine)
    if program is None:
        raise Invalid(
            f"{engine} is not on this machine, so it cannot be asked for the state of {folder}",
            hint="run `state pull` where it is, and give the state with --state FILE; or choose another one with --engine",
        )
    environment = {**os.environ, "TF_IN_AUTOMATION": "1", "TF_INPUT": "0"}
    try:
        ended = subprocess.run(
            [program.path, "state", "pull"],
            cwd=folder,
            env=environment,
            capture_output=True,
            check=False,
            timeout=_PULL_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise Invalid(f"`{engine} state pull` in {folder} did not end within {_PULL_SECONDS:g} seconds") from None
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip()
        raise Invalid(
            f"`{engine} state pull` in {folder} failed: {said[-1000:]}",
            hint=f"run `{engine} init` there first, or give the state with --state FILE",
        )
    # The engine prints warnings about its own configuration before the state.
    return ended.stdout[max(0, ended.stdout.find(b"{")) :] if b"{" in ended.stdout else b""
