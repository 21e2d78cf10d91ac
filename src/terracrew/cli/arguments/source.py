"""Options for the source, the inputs and the environment of a module or a job."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
import msgspec

from terracrew.api.groups import Group, GroupView, NewGroup
from terracrew.api.modules import Archive
from terracrew.cli.arguments.options import combine
from terracrew.cli.printing import output, progress
from terracrew.client.address import segment
from terracrew.errors import Invalid, NotFound
from terracrew.protocol.spec import ArchiveSource, GitSource, LocalSource, RegistrySource, Source
from terracrew.wording import module_words, typed_values

if TYPE_CHECKING:
    from terracrew.client.http import Api


@dataclass(frozen=True)
class SourceOptions:
    """What the options of a command say about a source."""

    folder: Path | None
    local_path: str | None
    subdirectory: str
    remote: dict[str, Any]
    """The options of a source that runners fetch from another machine, by the names of the source's fields."""


_PREFIX = "source_"
"""Begins the names of these parameters, since commands have others: --tag names tags of runners."""
_REVISIONS = {field: "--git-tag" if field == "tag" else f"--{field}" for field in module_words.REVISIONS}
_OPTIONS = {
    "url": "--git",
    "address": "--registry",
    "submodules": "--submodules",
    "credential": "--credential",
    "known_hosts": "--known-hosts",
    **_REVISIONS,
}


def _option(field: str, text: str, metavar: str) -> Callable[..., Any]:
    return click.option(_OPTIONS[field], _PREFIX + field, metavar=metavar, help=text)


_source_options = combine(
    click.option(
        "--from",
        "folder",
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Pack and upload this folder (without .git, state files and what .terracrewignore lists).",
    ),
    click.option(
        "--path", "local_path", metavar="PATH", help="A folder on the runner's machine, below one of its allowed roots."
    ),
    _option("url", "A git repository: https://host/path, ssh://user@host/path or user@host:path.", "URL"),
    _option("branch", "The branch of the repository. Without a revision: its default branch.", "NAME"),
    _option("tag", "The tag of the repository.", "NAME"),
    _option("commit", "The commit of the repository, with all digits of its id.", "ID"),
    _option("address", "A module of a registry: [host/]namespace/name/provider.", "ADDRESS"),
    _option("version", "A range such as '~> 1.2': the highest tag or version in it is used.", "RANGE"),
    _option("credential", "The environment variable of the module (a secret) with a token or a private key.", "NAME"),
    click.option(
        "--known-hosts",
        _PREFIX + "known_hosts",
        type=click.File(),
        metavar="FILE",
        help="The host keys to expect, for a private key; `-` reads standard input.",
    ),
    click.option(
        "--submodules/--no-submodules",
        _PREFIX + "submodules",
        default=None,
        help="Whether the submodules of the repository are fetched, too (the default).",
    ),
    click.option("--subdirectory", default="", metavar="DIR", help="The folder of the module in the source."),
)
input_options = combine(
    click.option(
        "--var",
        "variables",
        multiple=True,
        metavar="K=V",
        help="An input. JSON is a list, a number and so on; anything else is a text, also a number such as `1.30` or `1e3`.",
    ),
    click.option("--env", "environment", multiple=True, metavar="K=V", help="An environment variable."),
)
removal_options = combine(
    click.option("--unset-var", "unset_variables", multiple=True, metavar="NAME", help="Remove this input."),
    click.option(
        "--unset-env", "unset_environment", multiple=True, metavar="NAME", help="Remove this environment variable."
    ),
)


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --from, --path, the options of a repository or a registry, and --subdirectory. The command gets them as `source`."""

    @functools.wraps(command)
    def run(*args: Any, folder: Path | None, local_path: str | None, subdirectory: str, **values: Any) -> Any:
        given = {field: values.pop(_PREFIX + field) for field in _OPTIONS}
        hosts: TextIO | None = given["known_hosts"]
        given["known_hosts"] = hosts.read() if hosts else None
        remote = {field: value for field, value in given.items() if value is not None}
        return command(*args, source=SourceOptions(folder, local_path, subdirectory, remote), **values)

    return _source_options(run)


def source(api: "Api", options: SourceOptions, before: Source | None = None) -> Source | None:
    """Return the source as the API expects it, or None if none was given. A folder is uploaded first.

    `before` is the source that the module has: options of a repository or a registry can change a part of it.
    """
    folder, local_path = options.folder, options.local_path
    if folder and local_path:
        raise Invalid("--from uploads a folder and --path names one on the runner's machine: give only one of them")
    if (folder or local_path) and options.remote:
        raise Invalid(
            "--from and --path name a folder, and --git and --registry name a source elsewhere: give only one of them"
        )
    if local_path:
        return LocalSource(local_path, options.subdirectory)
    if folder:
        return ArchiveSource(upload(api, folder), options.subdirectory)
    return _remote_source(options, before)


def _remote_source(options: SourceOptions, before: Source | None) -> Source | None:
    """Return the source as the API expects it, or None if no option asks for one.

    Without --git and --registry, the options change the source that there is.
    """
    given, subdirectory = options.remote, options.subdirectory
    if "url" in given and "address" in given:
        raise Invalid("--git and --registry exclude each other: give only one of them")
    revisions = [field for field in _REVISIONS if given.get(field)]
    if len(revisions) > 1:
        names = " and ".join(_REVISIONS[field] for field in revisions)
        raise Invalid(f"{names} exclude each other: give only one of them")
    new = GitSource if "url" in given else RegistrySource if "address" in given else None
    kind = new or (type(before) if isinstance(before, GitSource | RegistrySource) else None)
    unfit = [field for field in given if kind is None or field not in kind.__struct_fields__]
    if unfit:
        raise Invalid(
            f"{_OPTIONS[unfit[0]]} is for a git repository: give its address with --git"
            + ("" if unfit[0] != "version" else ", or that of a module of a registry with --registry"),
            hint="--git https://host/path --branch main",
        )
    if new is not None:
        return new(subdirectory=subdirectory, **given)
    if isinstance(before, ArchiveSource) and subdirectory and not given:
        return msgspec.structs.replace(before, subdirectory=subdirectory)
    if before is None or kind is None or not (given or subdirectory):
        return None
    dropped = dict.fromkeys(_REVISIONS, "") if revisions and kind is GitSource else {}
    return msgspec.structs.replace(before, **dropped | given | ({"subdirectory": subdirectory} if subdirectory else {}))


def upload(api: "Api", folder: Path) -> str:
    """Pack the folder, upload it, and return the archive's id."""
    from terracrew.source_rules import archive

    if not any(folder.iterdir()):
        raise Invalid(f"{folder} is empty: there is nothing to upload")
    with progress.of_bytes() as report:
        report(f"packing {folder.name}", 0, 0)
        data = archive.pack(folder)

        def show(arrived: int) -> None:
            report("uploading", arrived, len(data))

        show(0)
        return api.upload_in_parts("/archives", data, "application/gzip", Archive, target="archive", progress=show).id


def ensure_group(api: "Api", path: str) -> None:
    """Create a group, with those above it, if it does not exist."""
    try:
        api.get(f"/groups/{segment(path)}", GroupView)
    except NotFound:
        api.post("/groups?parents=true", NewGroup(path=path), Group)


def inputs(given: Iterable[str]) -> dict[str, Any]:
    """Parse `--var` options."""
    return {name: typed_values.read(text) for name, text in _pairs(given, "--var")}


def environment(given: Iterable[str]) -> dict[str, str]:
    from terracrew.masking import names as secret_names

    found = dict(_pairs(given, "--env"))
    for name in found:
        if warning := secret_names.static_key_warning(name):
            output.note(f"warning: {warning}")
    return found


def without(given: dict[str, Any], names: Iterable[str], refusal: str) -> dict[str, Any]:
    """Return the values without the given names. An unknown name is probably misspelt, so it is refused."""
    if unknown := [name for name in names if name not in given]:
        raise Invalid(f"{refusal} {', '.join(unknown)}", hint=f"it has: {', '.join(given) or 'none'}")
    return {name: value for name, value in given.items() if name not in set(names)}


def _pairs(given: Iterable[str], option: str) -> Iterable[tuple[str, str]]:
    for pair in given:
        name, equals, text = pair.partition("=")
        if not name or not equals:
            # The value may be a secret, so it is not part of the message.
            raise Invalid(f"{option} {name or '…'}: expected NAME=VALUE")
        yield name, text
