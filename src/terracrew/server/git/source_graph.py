"""Which folders of a repository belong to a module: its own, and those whose local modules it uses, without an engine.

Each file belongs to the nearest folder above it that has a configuration, so a template beside a module belongs to the module. What
the files of a folder are is one digest. Two commits in which all folders of a module have the same digests mean the same to it.
"""

import hashlib
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from pathspec import GitIgnoreSpec

MAX_FOLDERS = 5_000
"""The most folders that the local modules of one module may be in."""
_CONFIGURATION = re.compile(r"(\.tf|\.tofu|\.tf\.json|\.tofu\.json)\Z|(\A|/)Pulumi(\.[^/]+)?\.ya?ml\Z")
_ENGINE_FILE = re.compile(r"\.(tf|tofu)(\.json)?\Z")
_NO_CODE = re.compile(r"\A\.|/\.(?!terraform\.lock\.hcl\Z)|\.md\Z")
"""Files that no engine reads by itself: hidden ones, except the lock file, and documentation."""
_TOKENS = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\\n])*(?:"|$|\\?\Z))|(?P<comment>\#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<root>\b(?:(?:backend|provider)[ \t]+"[^"\n]*"|cloud)[ \t]*\{)|(?P<word>\bsource\s*(?:=|:))""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
"""What is not closed ends with its line or with the file, so that no file takes longer than its length."""
_JSON_ROOT = re.compile(r'"(?:backend|cloud|provider)"\s*:\s*[\[{]')
_JSON_KEY = re.compile(r'"source"\s*:\s*("(?:\\.|[^"\\\n])*")')


class CommitFile(Protocol):
    """A file of a commit."""

    @property
    def path(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def object_id(self) -> str: ...


class Root(NamedTuple):
    """What a module says about its files."""

    folder: str
    """The folder that its engine runs in; empty for the top of the repository."""
    watch: Sequence[str] = ()
    """Patterns of paths, like those of `.gitignore`, that count instead of what the graph finds."""


def is_configuration(path: str) -> bool:
    """Return whether a folder with this file is one that an engine can run in, or that others use as a local module."""
    return _CONFIGURATION.search(path) is not None


def has_local_sources(path: str) -> bool:
    """Return whether a file can name local modules."""
    return _ENGINE_FILE.search(path) is not None


def local_sources(path: str, content: str) -> frozenset[str]:
    """Return the folders that a configuration file uses as local modules.

    Too many do no harm: a plan more is made. The file may be of a stranger, so nothing of it is trusted to be well-formed.
    """
    texts = _JSON_KEY.findall(content) if path.endswith(".json") else _texts_after_source(content)
    here = posixpath.dirname(path)
    found = {
        posixpath.normpath(posixpath.join(here, text)) for text in (each[1:-1] for each in texts) if _is_local(text)
    }
    return frozenset("" if each == "." else each for each in found if not each.startswith(("..", "/")))


def has_root_block(path: str, content: str) -> bool:
    """Return whether a configuration file has a block that belongs into a root: a backend, a cloud or a provider.

    A folder with such a file is a root also if another one uses it as a local module. Like `local_sources`, this is no whole parser:
    a text of several lines (`<<EOT`) that looks like such a block is taken for one.
    """
    if path.endswith(".json"):
        return _JSON_ROOT.search(content) is not None
    return any(match["root"] is not None for match in _TOKENS.finditer(content))


def _texts_after_source(content: str) -> list[str]:
    found: list[str] = []
    is_next = False
    for match in _TOKENS.finditer(content):
        if match["comment"] is not None:
            continue
        if is_next and match["text"] is not None:
            found.append(match["text"])
        is_next = match["word"] is not None
    return found


def _is_local(text: str) -> bool:
    return text.startswith(("./", "../")) or text in (".", "..")


class SourceGraph:
    """The folders of one commit, with what is in them and which ones their configurations use."""

    def __init__(
        self, entries: Iterable[CommitFile], uses: Mapping[str, frozenset[str]], roots: Iterable[str] = ()
    ) -> None:
        """`uses` has the folders that each configuration file uses. `roots` are folders of modules, whatever is in them."""
        self._entries = [each for each in entries if _NO_CODE.search(each.path) is None]
        self.folders = {posixpath.dirname(each.path) for each in self._entries if is_configuration(each.path)}
        self._known = self.folders | set(roots)
        self._uses: dict[str, set[str]] = {}
        for path, used in uses.items():
            self._uses.setdefault(posixpath.dirname(path), set()).update(used)
        self._digests = self._of_folders()

    def _of_folders(self) -> dict[str, str]:
        lines: dict[str, list[str]] = {}
        for each in self._entries:
            lines.setdefault(self._owner(posixpath.dirname(each.path)), []).append(_line(each))
        return {folder: _digest(found) for folder, found in lines.items()}

    def _owner(self, folder: str) -> str:
        while folder and folder not in self._known:
            folder = posixpath.dirname(folder)
        return folder

    def closure(self, folder: str) -> frozenset[str]:
        """Return the folder and all folders whose local modules it uses, directly or through others."""
        found, pending = {folder}, [folder]
        while pending and len(found) < MAX_FOLDERS:
            for used in self._uses.get(pending.pop(), ()):
                if used not in found:
                    found.add(used)
                    pending.append(used)
        return frozenset(found)

    def digest(self, root: Root) -> str:
        """Return what identifies everything that a module reads of the commit. It is '' if the module's folder has no file."""
        if not self._has(root.folder):
            return ""
        if root.watch:
            patterns = GitIgnoreSpec.from_lines(root.watch)
            return _digest(_line(each) for each in self._entries if patterns.match_file(each.path))
        return _digest(f"{folder}\0{self._digests.get(folder, '')}" for folder in self.closure(root.folder))

    def _has(self, folder: str) -> bool:
        return folder in self._digests or (not folder and bool(self._digests))


def _line(entry: CommitFile) -> str:
    return f"{entry.mode} {entry.object_id} {entry.path}"


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(lines)).encode(errors="surrogateescape")).hexdigest()
