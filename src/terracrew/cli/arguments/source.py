"""Options for the source, the inputs and the environment of a module or a job."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from terracrew.cli.arguments import remote_sources
from terracrew.cli.printing import output, progress
from terracrew.errors import Invalid, NotFound

if TYPE_CHECKING:
    from terracrew.client.http import Api

F = TypeVar("F", bound=Callable[..., Any])

_folder = click.option(
    "--from",
    "folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Pack and upload this folder (without .git, state files and what .terracrewignore lists).",
)
_path = click.option(
    "--path", "local_path", metavar="PATH", help="A folder on the runner's machine, below one of its allowed roots."
)
_subdirectory = click.option(
    "--subdirectory", default="", metavar="DIR", help="The folder of the module in the source."
)
_variables = click.option(
    "--var",
    "variables",
    multiple=True,
    metavar="K=V",
    help="An input. JSON is a list, a number and so on; anything else is a text, also a number such as `1.30` or `1e3`.",
)
_environment = click.option("--env", "environment", multiple=True, metavar="K=V", help="An environment variable.")

_unset_variables = click.option(
    "--unset-var", "unset_variables", multiple=True, metavar="NAME", help="Remove this input."
)
_unset_environment = click.option(
    "--unset-env", "unset_environment", multiple=True, metavar="NAME", help="Remove this environment variable."
)


def source_options(command: F) -> F:
    """Add --from, --path, the options of a repository or a registry, and --subdirectory."""
    return _folder(_path(remote_sources.remote_options(_subdirectory(command))))


def input_options(command: F) -> F:
    """Add --var and --env, which can be repeated."""
    return _variables(_environment(command))


def removal_options(command: F) -> F:
    """Add --unset-var and --unset-env, which can be repeated."""
    return _unset_variables(_unset_environment(command))


def source(
    api: "Api",
    folder: Path | None,
    local_path: str | None,
    subdirectory: str,
    before: dict[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Return the source as the API expects it, or None if none was given. A folder is uploaded first.

    `before` is the source that the module has: options of a repository or a registry can change a part of it.
    """
    if folder and local_path:
        raise Invalid("--from uploads a folder and --path names one on the runner's machine: give only one of them")
    if (folder or local_path) and remote_sources.is_given():
        raise Invalid(
            "--from and --path name a folder, and --git and --registry name a source elsewhere: give only one of them"
        )
    if not folder and not local_path:
        return remote_sources.source(subdirectory, before)
    if local_path:
        return {"kind": "local", "path": local_path, "subdirectory": subdirectory}
    return {"kind": "archive", "archive_id": upload(api, folder), "subdirectory": subdirectory} if folder else None


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
        return api.upload_in_parts("/archives", data, "application/gzip", target="archive", progress=show)["id"]


def ensure_group(api: "Api", path: str) -> None:
    """Create a group, with those above it, if it does not exist."""
    from terracrew.client.http import segment

    try:
        api.get(f"/groups/{segment(path)}")
    except NotFound:
        api.post("/groups?parents=true", {"path": path})


def inputs(given: Iterable[str]) -> dict[str, Any]:
    """Parse `--var` options."""
    from terracrew.wording import typed_values

    return {name: typed_values.read(text) for name, text in _pairs(given, "--var")}


def environment(given: Iterable[str]) -> dict[str, str]:
    from terracrew.masking import static_keys

    found = dict(_pairs(given, "--env"))
    for name in found:
        if warning := static_keys.warning(name):
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
