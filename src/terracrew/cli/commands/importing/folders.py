"""Finds states in a tree of folders beside their configurations, and makes modules of those folders."""

import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from terracrew.api.modules import NewModule
from terracrew.cli.arguments import source as sources
from terracrew.cli.commands import adopt
from terracrew.cli.commands.importing import spelling, states
from terracrew.cli.commands.importing.model import ImportedGroup, ImportedModule, ImportPlan, StateOrigin
from terracrew.errors import Invalid
from terracrew.protocol.events import MAX_STATE_BYTES
from terracrew.protocol.spec import ArchiveSource, GitSource, LocalSource, Source
from terracrew.source_rules import configurations, git

if TYPE_CHECKING:
    from terracrew.client.http import Api

SourceKind = Literal["git", "archive", "local"]
MAX_FOLDERS = 100_000
"""A tree with more folders is probably not the one that was meant."""
MAX_STATES = 10_000
_WORKSPACES = "terraform.tfstate.d"
_STATE = "terraform.tfstate"
_SKIPPED = {".git", ".terraform", ".terragrunt-cache", "node_modules", ".venv"}
_GIT_SECONDS = 20.0


_KINDS: dict[str, SourceKind] = {"git": "git", "archive": "archive", "local": "local"}


class FoundState(NamedTuple):
    file: Path
    folder: Path
    """The folder of the configuration."""
    name: str
    """The workspace, or the name of the file if it has another one than engines give it; empty otherwise."""
    is_workspace: bool


class RemoteCheckout(NamedTuple):
    """A checkout of a git repository."""

    root: Path
    url: str
    branch: str


def kind_of(word: str) -> SourceKind:
    """Return the kind of source that an option names."""
    return _KINDS[word]


def common_folder(paths: Sequence[Path]) -> Path:
    """Return the folder below which the paths of modules begin: the one that is named, or that all of them are in."""
    folders = [each.resolve() if each.is_dir() else each.resolve().parent for each in paths]
    return Path(os.path.commonpath(folders))


def find(paths: Sequence[Path]) -> list[FoundState]:
    """Return the states in these folders and below, and the files that are named themselves. Links are not followed."""
    found: dict[Path, FoundState] = {}
    for path in paths:
        files = _walk(path) if path.is_dir() else [path]
        for file in files:
            found[file.resolve()] = _placed(file.resolve())
            if len(found) > MAX_STATES:
                raise Invalid(f"there are more than {MAX_STATES:,} states below {path}: import a part of them")
    return [found[each] for each in sorted(found)]


def _walk(top: Path) -> Iterator[Path]:
    for number, (folder, names, files) in enumerate(os.walk(top)):
        if number >= MAX_FOLDERS:
            raise Invalid(f"{top} has more than {MAX_FOLDERS:,} folders: import a part of them")
        names[:] = sorted(set(names) - _SKIPPED)
        for name in files:
            file = Path(folder, name)
            if name.endswith(".tfstate") and not name.startswith(".") and not file.is_symlink() and file.is_file():
                yield file


def _placed(file: Path) -> FoundState:
    if file.parent.parent.name == _WORKSPACES and file.name == _STATE:
        return FoundState(file, file.parent.parent.parent, file.parent.name, True)
    name = "" if file.name == _STATE else file.name.removesuffix(".tfstate")
    return FoundState(file, file.parent, name, False)


def plan(found: Sequence[FoundState], top: Path, into: str, kind: SourceKind, engine: str | None) -> ImportPlan:
    """Return what is made of states: one module for each. Paths are those of the folders below `top`."""
    modules = [_module(each, top, into, kind, engine) for each in found]
    modules = _without_copies(spelling.without_collisions(modules, [into] if into else []))
    parents = sorted({each.path.rpartition("/")[0] for each in modules if not each.problem} - {""})
    return ImportPlan(
        f"{len(found)} states in {top}",
        tuple(ImportedGroup(each) for each in parents),
        modules,
        next_steps=(
            "`terracrew group plan GROUP` plans the modules. They should find nothing to change",
            "let nobody apply in the folders any more: their states stay as they are",
        ),
    )


def _without_copies(modules: Sequence[ImportedModule]) -> tuple[ImportedModule, ...]:
    """Return the modules. Those whose states are copies of one state say so and are not made: each would change the same resources."""
    by_lineage: defaultdict[str, list[str]] = defaultdict(list)
    for each in modules:
        if each.state is not None and not each.problem:
            by_lineage[each.state.lineage].append(each.origin)
    return tuple(_unless_copied(each, by_lineage[each.state.lineage]) if each.state else each for each in modules)


def _unless_copied(module: ImportedModule, same: Sequence[str]) -> ImportedModule:
    if len(same) < 2 or module.problem:
        return module
    words = f"{', '.join(same[:10])} have the same lineage, so they are copies of one state: name the one that counts"
    return msgspec.structs.replace(module, problem=words)


def _module(found: FoundState, top: Path, into: str, kind: SourceKind, engine: str | None) -> ImportedModule:
    chosen = engine or adopt.engine_of(found.folder)
    try:
        head = states.read(_content(found.file), str(found.file))
        path = _path(found, top, into)
        label = spelling.label(f"state/{head.lineage}")
        source = _source(found.folder, kind, chosen)
    except (Invalid, OSError) as error:
        words = _words(error) if isinstance(error, Invalid) else f"{found.file} cannot be read: {error.strerror}"
        empty = NewModule(path="", source=ArchiveSource(""))
        return ImportedModule(origin=str(found.file), new=empty, problem=words)
    return ImportedModule(
        origin=str(found.file),
        new=NewModule(path=path, source=source, engine=chosen, labels=[label]),
        state=StateOrigin(str(found.file), head.serial, head.lineage),
        remarks=tuple(_remarks(found, kind, chosen)),
        archive=str(found.folder) if kind == "archive" else "",
    )


def _words(error: Invalid) -> str:
    hint = error.details.get("hint", "")
    return f"{error.message} ({hint})" if hint else error.message


def _path(found: FoundState, top: Path, into: str) -> str:
    below = found.folder.relative_to(top).parts if found.folder.is_relative_to(top) else ()
    names = [spelling.name(each) for each in below] or [spelling.name(found.folder.name)]
    if found.name and found.name != "default":
        names[-1] = spelling.name(f"{names[-1]}-{found.name}")
    return spelling.join(into, *names)


def _remarks(found: FoundState, kind: SourceKind, engine: str) -> Iterator[str]:
    from terracrew.executor.engines.hcl import blocks

    if found.is_workspace:
        yield (
            f"its state is that of the workspace {found.name}, and states here have no workspaces: `terraform.workspace` is "
            "`default`, so use a variable instead of it"
        )
    if kind == "archive":
        return
    for block in blocks.backend_blocks(found.folder, configurations.PATTERNS[engine]):
        yield f"{block.file} has a {block.block} block: remove it, so that jobs use the state that is kept here"


def _source(folder: Path, kind: SourceKind, engine: str) -> Source:
    patterns = configurations.PATTERNS[engine]
    if not any(configurations.is_match(each.name, patterns) for each in folder.iterdir()):
        raise Invalid(f"{folder} has a state and no configuration of {engine} ({' or '.join(patterns[:2])} files)")
    if kind == "local":
        return LocalSource(str(folder))
    if kind == "archive":
        return ArchiveSource("")
    checkout = checkout_of(folder)
    below = folder.relative_to(checkout.root).as_posix()
    return GitSource(url=checkout.url, branch=checkout.branch, subdirectory="" if below == "." else below)


def checkout_of(folder: Path) -> RemoteCheckout:
    """Return the repository that a folder is a checkout of, with its remote `origin` and the branch that is checked out."""
    root = _git(folder, "rev-parse", "--show-toplevel")
    url = _git(folder, "remote", "get-url", "origin") if root else ""
    if not root or not url:
        raise Invalid(
            f"{folder} is no checkout of a git repository with a remote `origin`",
            hint="`--source archive` uploads the folders; `--source local` lets runners on this machine use them",
        )
    if problem := git.url_problem(url):
        raise Invalid(f"the remote `origin` of {folder} cannot be the source of a module: {problem}")
    return RemoteCheckout(Path(root), url, _git(folder, "symbolic-ref", "--short", "-q", "HEAD"))


def _git(folder: Path, *words: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        ended = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            check=False,
            timeout=_GIT_SECONDS,
            stdin=subprocess.DEVNULL,
            env=environment | {"LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout.decode(errors="replace").strip() if ended.returncode == 0 else ""


def upload(api: "Api", module: ImportedModule) -> ArchiveSource:
    """Upload the folder of a module without the block that says where its state is."""
    folder = Path(module.archive)
    with adopt.without_backend(folder, folder, module.new.engine) as (copy, _):
        return ArchiveSource(sources.upload(api, copy))


def read_state(origin: StateOrigin) -> bytes:
    """Read the state of a file, which must still be the one that was found."""
    content = _content(Path(origin.reference))
    states.check(content, origin.reference, serial=origin.serial)
    return content


def _content(file: Path) -> bytes:
    try:
        if file.stat().st_size > MAX_STATE_BYTES:
            raise Invalid(f"{file} has more than {MAX_STATE_BYTES:,} bytes, and a state has at most that many")
        return file.read_bytes()
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}") from None
