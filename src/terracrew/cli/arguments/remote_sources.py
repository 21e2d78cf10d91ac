"""Options for a source that runners fetch from another machine: a git repository at one revision, or a module of a registry."""

from collections.abc import Callable
from typing import Any, TextIO, TypeVar

import click

from terracrew.errors import Invalid

F = TypeVar("F", bound=Callable[..., Any])
_KEY = "terracrew.remote_sources"
_PREFIX = "source_"
"""Begins the names of these parameters, since commands have others: --tag names tags of runners."""
_REVISIONS = {"branch": "--branch", "tag": "--git-tag", "commit": "--commit", "version": "--version"}
_OPTIONS = {
    "url": "--git",
    "address": "--registry",
    "submodules": "--submodules",
    "credential": "--credential",
    "known_hosts": "--known-hosts",
    **_REVISIONS,
}
_FIELDS = {
    "git": {"url", "submodules", "credential", "known_hosts", *_REVISIONS},
    "registry": {"address", "version"},
}
"""Which options belong to each kind of source."""


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value is not None:
        ctx.meta.setdefault(_KEY, {})[param.name.removeprefix(_PREFIX)] = value


def _keep_content(ctx: click.Context, param: click.Parameter, value: "TextIO | None") -> None:
    _keep(ctx, param, None if value is None else value.read())


def _option(field: str, text: str, metavar: str) -> Callable[[F], F]:
    return click.option(
        _OPTIONS[field], _PREFIX + field, metavar=metavar, expose_value=False, callback=_keep, help=text
    )


_DECORATORS: tuple[Callable[..., Any], ...] = (
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
        expose_value=False,
        callback=_keep_content,
        help="The host keys to expect, for a private key; `-` reads standard input.",
    ),
    click.option(
        "--submodules/--no-submodules",
        _PREFIX + "submodules",
        default=None,
        expose_value=False,
        callback=_keep,
        help="Whether the submodules of the repository are fetched, too (the default).",
    ),
)


def remote_options(command: F) -> F:
    """Add --git, --branch, --git-tag, --commit, --registry, --version and --submodules."""
    for option in reversed(_DECORATORS):
        command = option(command)
    return command


def is_given() -> bool:
    return bool(_given())


def source(subdirectory: str, before: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the source as the API expects it, or None if no option asks for one.

    Without --git and --registry, the options change the source that there is.
    """
    given = _given()
    if "url" in given and "address" in given:
        raise Invalid("--git and --registry exclude each other: give only one of them")
    revisions = [field for field in _REVISIONS if given.get(field)]
    if len(revisions) > 1:
        options = " and ".join(_REVISIONS[field] for field in revisions)
        raise Invalid(f"{options} exclude each other: give only one of them")
    is_new = "url" in given or "address" in given
    kind = "git" if "url" in given else "registry" if "address" in given else (before or {}).get("kind", "")
    unfit = [field for field in given if field not in _FIELDS.get(kind, set[str]())]
    if unfit:
        raise Invalid(
            f"{_OPTIONS[unfit[0]]} is for a git repository: give its address with --git"
            + ("" if unfit[0] != "version" else ", or that of a module of a registry with --registry"),
            hint="--git https://host/path --branch main",
        )
    if is_new:
        return {"kind": kind, "subdirectory": subdirectory} | given
    if before is None or kind not in _FIELDS or not (given or subdirectory):
        return None
    kept = {field: text for field, text in before.items() if not revisions or field not in _REVISIONS}
    return kept | given | ({"subdirectory": subdirectory} if subdirectory else {})


def _given() -> dict[str, Any]:
    context = click.get_current_context(silent=True)
    return dict(context.meta.get(_KEY, {})) if context else {}
