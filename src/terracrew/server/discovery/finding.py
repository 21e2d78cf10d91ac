"""Finds the roots among the folders of a commit: those that an engine is run in, and not the local modules that they use.

A folder is a root if it has a configuration of the engine, and either a backend, a cloud or a provider in it, or no other folder uses
it as a local module. For Pulumi, each folder with a `Pulumi.yaml` is one. Links and submodules are not followed, and hidden folders
are left out.
"""

import posixpath

import msgspec

from terracrew.api.discovery import DiscoveryEngine
from terracrew.errors import TooLarge
from terracrew.server.discovery import patterns
from terracrew.server.git.configured_commits import ConfiguredCommit
from terracrew.source_rules import configurations

MAX_CONFIGURED = 20_000
"""How many folders with a configuration a commit may have."""
MAX_FOLDERS = 5_000
"""How many of them a rule may find."""
MAX_LEVELS = 30
MAX_FOLDER_CHARACTERS = 1_000


class CommitFolders(msgspec.Struct, frozen=True):
    """The folders of a commit that concern one engine."""

    configured: frozenset[str]
    """Those that have a configuration of the engine."""
    roots: list[str]
    """Those that it is run in, ordered."""

    def meant(self, include: list[str], exclude: list[str]) -> list[str]:
        """Return the roots that these patterns mean. Raises TooLarge if there are too many."""
        found = [each for each in self.roots if patterns.is_meant(each, include, exclude)]
        if len(found) > MAX_FOLDERS:
            raise TooLarge(f"{len(found):,} folders match, and at most {MAX_FOLDERS:,} may: narrow the patterns")
        return found


def folders(commit: ConfiguredCommit, engine: DiscoveryEngine) -> CommitFolders:
    """Return the folders of a commit. Raises TooLarge if there are too many."""
    configured = of_engine(commit, engine)
    if len(configured) > MAX_CONFIGURED:
        raise TooLarge(
            f"the commit has {len(configured):,} folders with a configuration, and at most {MAX_CONFIGURED:,} are read"
        )
    if engine == "pulumi":
        return CommitFolders(configured, sorted(filter(_is_considered, configured)))
    used: set[str] = set()
    rooted: set[str] = set()
    for path, file in commit.files.items():
        here = posixpath.dirname(path)
        used |= {each for each in file.uses if each != here}
        if file.has_root_block:
            rooted.add(here)
    roots = [each for each in configured if _is_considered(each) and (each in rooted or each not in used)]
    return CommitFolders(configured, sorted(roots))


def of_engine(commit: ConfiguredCommit, engine: str) -> frozenset[str]:
    """Return the folders of a commit that have a configuration of an engine."""
    names = configurations.PATTERNS[engine]
    split = (posixpath.split(each.path) for each in commit.entries if each.is_file)
    return frozenset(folder for folder, name in split if configurations.is_match(name, names))


def _is_considered(folder: str) -> bool:
    names = folder.split("/")
    return (
        len(folder) <= MAX_FOLDER_CHARACTERS
        and len(names) <= MAX_LEVELS
        and folder.isprintable()
        and not any(each.startswith(".") for each in names)
    )
