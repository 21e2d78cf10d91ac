"""Asks a repository which commit a branch, a tag or a range of versions means at this moment."""

import re

import msgspec

from terracrew.errors import Invalid, NotFound
from terracrew.executor.sources.git.program import Git
from terracrew.protocol.spec import GitSource
from terracrew.source_rules import version_ranges
from terracrew.source_rules.git import ref_problem
from terracrew.source_rules.version_ranges import Version

COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_TAGS = "refs/tags/"
_PEELED = "^{}"
"""Follows the name of an annotated tag in the line that has its commit."""


class Revision(msgspec.Struct, frozen=True):
    commit: str
    words: str
    """What it is, for people: `tag v1.2.0`. Jobs of a module are compared by this."""
    ref: str = ""
    """The ref that leads to it, for servers that do not give out a commit by its id."""


def named(source: GitSource) -> tuple[str, str] | None:
    """Return the ref that the source names, and the words for it; None if it names a commit or a range."""
    if source.commit or source.version:
        return None
    if source.tag:
        return f"{_TAGS}{source.tag}", f"tag {source.tag}"
    if source.branch:
        return f"refs/heads/{source.branch}", f"branch {source.branch}"
    return "HEAD", "default branch"


def resolve(git: Git, source: GitSource) -> Revision:
    """Return the revision that the source means now."""
    if source.commit:
        return Revision(source.commit, f"commit {source.commit[:12]}")
    if found := named(source):
        return _of_ref(git, source.url, *found)
    return _of_version(git, source)


def of_any_kind(git: Git, url: str, name: str) -> Revision:
    """Return the revision that git itself would choose for a name: a commit, otherwise a tag, otherwise a branch."""
    if COMMIT.fullmatch(name):
        return Revision(name, f"commit {name[:12]}")
    if not name:
        return _of_ref(git, url, "HEAD", "default branch")
    if problem := ref_problem(name):
        raise Invalid(f"the revision of the repository {url} is refused: {problem}")
    try:
        return _of_ref(git, url, f"{_TAGS}{name}", f"tag {name}")
    except NotFound:
        return _of_ref(git, url, f"refs/heads/{name}", f"branch {name}")


def _of_ref(git: Git, url: str, ref: str, words: str) -> Revision:
    found = _refs(git, url, ref, ref + _PEELED)
    commit = found.get(ref + _PEELED) or found.get(ref)
    if commit is None:
        what = "commits yet" if ref == "HEAD" else words
        raise NotFound(f"the repository {url} has no {what}")
    return Revision(commit, words, ref)


def _of_version(git: Git, source: GitSource) -> Revision:
    found = _refs(git, source.url, f"{_TAGS}*")
    tags: dict[Version, str] = {}
    for ref in sorted(found):
        name = ref.removeprefix(_TAGS)
        version = version_ranges.parse_version(name) if ref.startswith(_TAGS) else None
        if version is not None and not ref_problem(name):
            tags[version] = name  # if both 1.2.0 and v1.2.0 exist, the one with the `v` is used
    highest = version_ranges.parse_range(source.version).highest(tags)
    if highest is None:
        known = ", ".join(tags[each] for each in sorted(tags, key=lambda version: version.order)[-5:])
        raise NotFound(
            f"the repository {source.url} has no tag in the range {source.version!r}; "
            + (f"its highest versions are {known}" if known else "none of its tags is a semantic version")
        )
    ref = f"{_TAGS}{tags[highest]}"
    return Revision(found.get(ref + _PEELED) or found[ref], f"tag {tags[highest]}", ref)


def _refs(git: Git, url: str, *patterns: str) -> dict[str, str]:
    """Return the refs of a repository that match, by their full names."""
    output = git.remote("ls-remote", "--quiet", "--", url, *patterns, what=f"asking {url} for its revisions")
    found: dict[str, str] = {}
    for line in output.decode(errors="replace").split("\n"):
        commit, _, ref = line.partition("\t")
        if ref and not COMMIT.fullmatch(commit):
            raise Invalid(
                f"the repository {url} gave {commit[:100]!r} for {ref[:100]!r}, which is not the id of an object"
            )
        found[ref] = commit
    return found
