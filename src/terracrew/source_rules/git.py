"""What a git source may say: an address, at most one revision, and a subdirectory."""

import re

from terracrew.errors import Invalid
from terracrew.protocol.spec import GitSource, MergeResult
from terracrew.source_rules import version_ranges

MAX_REF_CHARACTERS = 240
REVISION_FIELDS = ("branch", "tag", "commit", "version")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
MAX_KNOWN_HOSTS_CHARACTERS = 20_000
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_HOST_KEY = re.compile(r"^[^#\s]\S*\s+(ssh-|ecdsa-|sk-)\S+\s+AAAA\S+", re.MULTILINE)
_NOT_IN_REFS = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")


MAX_URL_CHARACTERS = 2_000
_USER = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
_PATH = r"[A-Za-z0-9._~/%+@=,!()-]+"
_FULL = re.compile(rf"(?:https|ssh)://(?:{_USER}@)?(?P<host>{_HOST})(?::[0-9]{{1,5}})?/({_PATH})")
_SHORT = re.compile(rf"(?:{_USER}@)?(?P<host>{_HOST}):(?![-:])({_PATH})")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(::|://)")
_PASSWORD = re.compile(r"[a-z]+://[^/@]*:[^/@]*@", re.IGNORECASE)
_ALLOWED = "use https://host/path, ssh://user@host/path or user@host:path"


def check(source: GitSource) -> None:
    """Raise Invalid if git must not be given this source, or could not understand it."""
    if problem := url_problem(source.url):
        raise Invalid.in_field("source.url", problem)
    given = [name for name in REVISION_FIELDS if getattr(source, name)]
    if len(given) > 1:
        raise Invalid(
            f"source: {' and '.join(given)} are given, but a source has only one of {', '.join(REVISION_FIELDS)}",
            field=f"source.{given[1]}",
        )
    for name, text in (("branch", source.branch), ("tag", source.tag)):
        if text and (problem := ref_problem(text)):
            raise Invalid.in_field(f"source.{name}", problem)
    if source.commit and not _COMMIT.fullmatch(source.commit):
        raise Invalid.in_field(
            "source.commit",
            f"{source.commit[:100]!r} is not a whole commit id: give all of its 40 (or 64) hexadecimal "
            "digits in lower case, as `git rev-parse` prints them",
        )
    _check_credential(source)
    if source.merge:
        _check_merge(source, source.merge)
    version_ranges.check_of_source(source.version)


def _check_merge(source: GitSource, merge: MergeResult) -> None:
    """Refuse what no server sends. Git is given these texts."""
    is_complete = source.commit and all(_COMMIT.fullmatch(each) for each in (merge.base, merge.head))
    if not is_complete or not merge.base_ref.startswith("refs/") or ref_problem(merge.base_ref) or merge.size < 0:
        raise Invalid.in_field("source.merge", "it is not the result of a merge that a server has made")


def _check_credential(source: GitSource) -> None:
    if source.credential and not _VARIABLE.fullmatch(source.credential):
        raise Invalid.in_field(
            "source.credential", f"{source.credential[:100]!r} is not the name of an environment variable"
        )
    if len(source.known_hosts) > MAX_KNOWN_HOSTS_CHARACTERS or "\0" in source.known_hosts:
        raise Invalid.in_field(
            "source.known_hosts", f"it should have at most {MAX_KNOWN_HOSTS_CHARACTERS:,} characters, and no NUL"
        )
    is_ssh = not is_https(source.url)
    if source.known_hosts and not (is_ssh and source.credential):
        raise Invalid.in_field(
            "source.known_hosts",
            "host keys are used with an ssh address and a credential only; otherwise the known hosts of "
            "the runner's user apply",
        )
    if is_ssh and source.credential and not _HOST_KEY.search(source.known_hosts):
        raise Invalid.in_field(
            "source.known_hosts",
            "a private key is used only with the host keys to expect: give the lines that "
            "`ssh-keyscan HOST` prints, after you have compared them with what the operator of the host publishes",
        )


def ref_problem(name: str) -> str:
    """Return why this cannot be the name of a branch or a tag; '' if it can. The rules are those of `git check-ref-format`."""
    shown = repr(name[:100])
    if len(name) > MAX_REF_CHARACTERS:
        return f"{shown}… is longer than {MAX_REF_CHARACTERS} characters"
    if name.startswith("-"):
        return f"{shown} begins with `-`, so that git would take it for an option"
    parts = name.split("/")
    is_named = all(part and not part.startswith(".") and not part.endswith(".lock") for part in parts)
    if not is_named or name.endswith(".") or name == "@" or _NOT_IN_REFS.search(name) or not name.isprintable():
        return f"{shown} cannot be the name of a branch or a tag (see `git check-ref-format`)"
    return ""


def url_problem(url: str) -> str:
    """Return why this is not the address of a repository that may be fetched; '' if it may."""
    if _PASSWORD.match(url):
        return f"it has a password in it, which everybody who can read the module would see: {_ALLOWED}"
    shown = repr(url[:200])
    if len(url) > MAX_URL_CHARACTERS:
        return f"{shown}… is longer than {MAX_URL_CHARACTERS:,} characters"
    found = _parsed(url)
    if found is None:
        scheme = _SCHEME.match(url)
        if scheme and scheme[0] not in ("https://", "ssh://"):
            return f"{shown} would use {scheme[1]!r}, which is not allowed: {_ALLOWED}"
        is_path = url.startswith(("/", "./", "../", "~"))
        advice = "; a folder of this machine is given with `--from`" if is_path else ""
        return f"{shown} is not the address of a repository: {_ALLOWED}{advice}"
    if ".." in url.split("/"):
        return f"{shown} has `..` in its path: {_ALLOWED}"
    return ""


def host(url: str) -> str:
    """Return the host of an allowed address, in lower case."""
    found = _parsed(url)
    return "" if found is None else found["host"].lower()


def is_https(url: str) -> bool:
    """Return whether an allowed address is used over https; otherwise it is used over ssh."""
    return url.startswith("https://")


def url_below(parent: str, url: str) -> str:
    """Return the whole address of a submodule. One that begins with `./` or `../` is relative to the address of its parent."""
    if not url.startswith(("./", "../")):
        return url
    prefix, path = _split(parent)
    parts = path.strip("/").split("/")
    for part in url.split("/"):
        if part == ".." and not parts:
            return url  # it leads out of the host; `problem` refuses it as it is
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return prefix + ("/" if path.startswith("/") else "") + "/".join(parts)


def _split(url: str) -> tuple[str, str]:
    found = _parsed(url)
    path = found[found.lastindex or 0] if found else ""
    return url.removesuffix(path), path


def _parsed(url: str) -> re.Match[str] | None:
    """Return the parts of an allowed address; the last one is its path. What has a scheme is never the short form of ssh."""
    return _FULL.fullmatch(url) if "://" in url else _SHORT.fullmatch(url)
