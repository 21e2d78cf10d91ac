"""Reads what the configuration files of a commit say: which folders they use as local modules, and which have the blocks of a root.

The last commits are remembered, so that the next look at a repository reads only the files that have changed.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping

import msgspec

from terracrew.server.git import trees
from terracrew.server.git.mirrors import RepositoryMirrors
from terracrew.server.git.source_graph import has_local_sources, has_root_block, local_sources
from terracrew.server.git.trees import TreeEntry

MAX_KEPT_COMMITS = 16


class ConfigurationFile(msgspec.Struct, frozen=True):
    """What a configuration file says that other folders have to know."""

    object_id: str
    uses: frozenset[str]
    """The folders that it uses as local modules."""
    has_root_block: bool
    """Whether it has a backend, a cloud or a provider in it."""


class ConfiguredCommit(msgspec.Struct, frozen=True):
    """A commit with its files, and with what its configuration files say."""

    entries: list[TreeEntry]
    files: dict[str, ConfigurationFile]
    """By their paths, the files that an engine of the family of Terraform reads."""

    @property
    def uses(self) -> dict[str, frozenset[str]]:
        return {path: each.uses for path, each in self.files.items()}


class ConfiguredCommits:
    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], ConfiguredCommit] = OrderedDict()

    async def read(
        self, mirrors: RepositoryMirrors, key: str, commit: str, like: str | None = None
    ) -> ConfiguredCommit:
        """Read a commit of a mirror. `like`: a commit that has most files in common, whose files may be known.

        Raises TooLarge if it has too many files, or too much in them.
        """
        if (known := self._known.get((key, commit))) is not None:
            self._known.move_to_end((key, commit))
            return known
        entries = await trees.entries(mirrors, key, commit)
        wanted = [each for each in entries if each.is_file and has_local_sources(each.path)]
        similar = self._known.get((key, like)) if like else None
        files: dict[str, ConfigurationFile] = {}
        if similar is not None:
            files = {
                each.path: old
                for each in wanted
                if (old := similar.files.get(each.path)) is not None and old.object_id == each.object_id
            }
        contents = await trees.files(mirrors, key, [each for each in wanted if each.path not in files])
        object_ids = {each.path: each.object_id for each in wanted}
        files |= await asyncio.to_thread(_read, contents, object_ids)
        made = ConfiguredCommit(entries, files)
        self._known[key, commit] = made
        while len(self._known) > MAX_KEPT_COMMITS:
            self._known.popitem(last=False)
        return made


def _read(contents: Mapping[str, bytes], object_ids: Mapping[str, str]) -> dict[str, ConfigurationFile]:
    found: dict[str, ConfigurationFile] = {}
    for path, content in contents.items():
        text = content.decode(errors="replace")
        found[path] = ConfigurationFile(object_ids[path], local_sources(path, text), has_root_block(path, text))
    return found
