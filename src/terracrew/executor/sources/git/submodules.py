"""The submodules of a repository: the same rules apply to their addresses, and each has a mirror of its own.

`git submodule` is not used: it needs a repository in the workspace, and it obeys settings that come with the source.
"""

import os
from pathlib import Path

from terracrew.errors import Invalid
from terracrew.executor.sources.git.mirror import Mirror
from terracrew.executor.sources.git.program import GitFailed
from terracrew.executor.sources.git.tree import Submodule
from terracrew.source_rules import git_urls

MAX_SUBMODULES = 100
"""The most submodules of one source, with the submodules of submodules."""
MAX_LEVELS = 5


def addresses(mirror: Mirror, commit: str, found: list[Submodule]) -> list[tuple[Submodule, str]]:
    """Return the submodules with their addresses. Raises Invalid if one has no address, or one that is not allowed."""
    if not found:
        return []
    known = _configured(mirror, commit)
    checked: list[tuple[Submodule, str]] = []
    for submodule in found:
        url = known.get(submodule.path)
        if url is None:
            raise Invalid(
                f"the repository {mirror.url} has the submodule {submodule.path!r}, but its file .gitmodules has no address "
                "for it"
            )
        whole = git_urls.below(mirror.url, url)
        if problem := git_urls.problem(whole):
            raise Invalid(f"the submodule {submodule.path!r} of the repository {mirror.url} is refused: {problem}")
        checked.append((submodule, whole))
    return checked


def check_limits(count: int, level: int, url: str) -> None:
    """Raise Invalid if a source has too many submodules, or submodules of submodules too many levels deep."""
    if count > MAX_SUBMODULES or level > MAX_LEVELS:
        raise Invalid(
            f"the repository {url} has submodules that make more than {MAX_SUBMODULES} in this source, or lie more than "
            f"{MAX_LEVELS} levels deep"
        )


def folder_of(workspace: Path, submodule: Submodule) -> Path:
    """Return the empty folder of a submodule. Raises Invalid if it is reached through a link."""
    folder = workspace / submodule.path
    if os.path.realpath(folder) != os.path.join(os.path.realpath(workspace), submodule.path):
        raise Invalid(f"the submodule {submodule.path!r} lies behind a symbolic link, so it is refused")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _configured(mirror: Mirror, commit: str) -> dict[str, str]:
    """Return the addresses in the file .gitmodules, by the paths of the submodules."""
    try:
        listed = mirror.run("config", "--blob", f"{commit}:.gitmodules", "--list", "-z")
    except GitFailed:
        return {}
    fields: dict[str, dict[str, str]] = {}
    for each in listed.decode(errors="replace").split("\0"):
        key, _, text = each.partition("\n")
        section, _, rest = key.partition(".")
        name, _, field = rest.rpartition(".")
        if section == "submodule" and name and field in ("path", "url"):
            fields.setdefault(name, {})[field] = text
    return {one["path"]: one["url"] for one in fields.values() if "path" in one and "url" in one}
