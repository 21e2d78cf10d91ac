"""Which addresses git may be given: https and ssh, and nothing that git could take for an option, a command or a local file."""

import re

MAX_URL_CHARACTERS = 2_000
_USER = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
_PATH = r"[A-Za-z0-9._~/%+@=,!()-]+"
_FULL = re.compile(rf"(?:https|ssh)://(?:{_USER}@)?(?P<host>{_HOST})(?::[0-9]{{1,5}})?/({_PATH})")
_SHORT = re.compile(rf"(?:{_USER}@)?(?P<host>{_HOST}):(?![-:])({_PATH})")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(::|://)")
_PASSWORD = re.compile(r"[a-z]+://[^/@]*:[^/@]*@", re.IGNORECASE)
_ALLOWED = "use https://host/path, ssh://user@host/path or user@host:path"


def problem(url: str) -> str:
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


def below(parent: str, url: str) -> str:
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
