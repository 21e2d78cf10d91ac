"""Decides what becomes of the folders that a rule has found. All functions are pure."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from terracrew.api.discovery import DiscoveredFolder
from terracrew.errors import Invalid
from terracrew.server.discovery import naming
from terracrew.server.discovery.model import DiscoveryRule, FolderPlan
from terracrew.server.tree.modules import checks

MAX_NEW_MODULES = 500
"""How many modules a rule makes of one commit. If there are more, a person has most likely forgotten a pattern."""
MAX_MODULES = 2_000
"""How many modules of a rule there may be. Many commits with a few folders each make no more than that."""


class KnownModule(msgspec.Struct, frozen=True):
    """A module of the rule's group or below that has a folder of the repository's branch as its source."""

    id: str
    path: str


class KnownFolders(msgspec.Struct, frozen=True):
    """What is known besides the folders of the commit."""

    rows: Mapping[str, DiscoveredFolder] = {}
    """What the rule has stored of folders, by their paths."""
    modules: Mapping[str, KnownModule] = {}
    """The modules of the group, by their folders."""
    existing: frozenset[str] = frozenset()
    """Which of the modules that the rule has made exist, by their ids."""
    taken: Mapping[str, str] = {}
    """What has the paths that modules of these folders would have, and those above them: `module` or `group`."""


def wanted_paths(rule: DiscoveryRule, folders: Iterable[str], repository: str) -> dict[str, str]:
    """Return the path that the module of each folder would have; '' for one whose name cannot be a path."""
    found: dict[str, str] = {}
    for folder in folders:
        try:
            found[folder] = naming.module_path(rule.module_path, rule.group, folder, repository)
        except Invalid:
            found[folder] = ""
    return found


def plan(
    rule: DiscoveryRule, folders: Sequence[str], configured: Container[str], repository: str, known: KnownFolders
) -> FolderPlan:
    """Return what becomes of each folder that was found, and of those whose modules the rule has made before.

    `configured` has all folders of the commit that have a configuration, also those that the patterns do not mean.
    """
    wanted = wanted_paths(rule, folders, repository)
    counts = Counter(wanted.values())
    of_new = {wanted[each] for each in folders if each not in known.rows and each not in known.modules}
    found = [_folder(rule, each, wanted, counts, of_new, repository, known) for each in folders]
    left = [each for each in known.rows.values() if each.folder not in wanted and is_made(each)]
    found += [_left(each, configured) for each in left if each.module_id in known.existing]
    found += [_deleted(each) for each in left if each.module_id not in known.existing and each.folder in configured]
    new = sum(each.state == "new" for each in found)
    problem = ""
    if new and new + len(known.existing) > MAX_MODULES:
        problem = (
            f"it has made {len(known.existing):,} modules and would make {new:,} more, and a rule makes at most {MAX_MODULES:,}: narrow "
            "its patterns, or divide the repository among several rules"
        )
    elif new > MAX_NEW_MODULES:
        problem = (
            f"it would make {new:,} modules at once, and at most {MAX_NEW_MODULES} are made: narrow its patterns, or divide the "
            "repository among several rules"
        )
    return FolderPlan(sorted(found, key=lambda each: each.folder), problem)


def is_made(row: DiscoveredFolder) -> bool:
    """Return whether the rule has made a module of a folder that is stored."""
    return row.module_id is not None and row.state in ("made", "gone", "deleted")


def kept(folder: str, module_id: str, path: str) -> DiscoveredFolder:
    """Return a folder that has a module which the rule has not made of it."""
    reason = "this module has it as its source already"
    return DiscoveredFolder(folder=folder, path=path, state="kept", module_id=module_id, reason=reason)


def _left(row: DiscoveredFolder, configured: Container[str]) -> DiscoveredFolder:
    """Return a folder that has a module and is not found any more."""
    is_gone = row.folder not in configured
    reason = (
        "its module stays, and nothing is destroyed" if is_gone else "it is no root any more, or no pattern means it"
    )
    return replace(_plain(row), state="gone" if is_gone else "made", reason=reason)


def _deleted(row: DiscoveredFolder) -> DiscoveredFolder:
    """Return a folder whose module somebody has deleted. It is remembered until the commit has no such folder any more."""
    return replace(
        _plain(row), state="deleted", reason="its module was deleted: it is made again after the folder was gone"
    )


def _plain(row: DiscoveredFolder) -> DiscoveredFolder:
    return DiscoveredFolder(folder=row.folder, path=row.path, state=row.state, module_id=row.module_id)


def _folder(
    rule: DiscoveryRule,
    folder: str,
    wanted: Mapping[str, str],
    counts: Mapping[str, int],
    of_new: set[str],
    repository: str,
    known: KnownFolders,
) -> DiscoveredFolder:
    row, path = known.rows.get(folder), wanted[folder]
    if row is not None and is_made(row):
        if row.module_id in known.existing:
            return replace(_plain(row), state="made")
        return _deleted(row)
    if (module := known.modules.get(folder)) is not None:
        return kept(folder, module.id, module.path)
    if problem := _invalid(rule, folder, repository):
        return DiscoveredFolder(folder=folder, path="", state="invalid", reason=problem)
    reason = _conflict(path, counts, of_new, known.taken)
    return DiscoveredFolder(folder=folder, path=path, state="conflict" if reason else "new", reason=reason)


def _invalid(rule: DiscoveryRule, folder: str, repository: str) -> str:
    try:
        checks.check_subdirectory(folder)
        naming.module_path(rule.module_path, rule.group, folder, repository)
    except Invalid as error:
        return error.message
    return ""


def _conflict(path: str, counts: Mapping[str, int], of_new: set[str], taken: Mapping[str, str]) -> str:
    if (what := taken.get(path)) is not None:
        return f"there is a {what} `{path}` already, which this rule has not made"
    if counts[path] > 1:
        return f"{counts[path]} folders would be the module `{path}`: let the template use more of their paths"
    for above in _above(path):
        if taken.get(above) == "module" or above in of_new:
            return (
                f"it needs the group `{above}`, which is the path of another module: a path is either a group or a module. The "
                "template {flat} needs no groups"
            )
    return ""


def all_paths(wanted: Iterable[str]) -> list[str]:
    """Return these paths and all above them, for looking up what has them."""
    return sorted({each for path in wanted if path for each in (path, *_above(path))})


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
