"""Turns what git prints about a repository that it could not fetch into a sentence that says what to do.

What may be over soon becomes Unavailable, which is a transient error: a plan that fails for this reason can be tried again.
"""

import re

from terracrew.errors import EngineMissing, Forbidden, Invalid, NotFound, TerracrewError, Unavailable

_UNKNOWN_HOST_KEY = (
    "the host key of its server is not known to the runner, or has changed: check it, and add it to the known_hosts of "
    "the runner's user"
)
_NO_CREDENTIALS = "the runner has no credentials for it that its server accepts"
_NO_REPOSITORY = "there is no repository at this address, or the runner's credentials may not read it"
_DENIED = (
    "git cannot read or change a file of this machine that it needs. If the file exists, the runner's settings "
    "executor.read_paths and executor.write_paths let git use it"
)
_KNOWN: tuple[tuple[str, type[TerracrewError], str], ...] = (
    (
        r"(unable to access|could not open|cannot open|unable to open|cannot create|unable to create)[^\n;]* '?/[^\n;]*"
        r"Permission denied|error setting certificate",
        Forbidden,
        _DENIED,
    ),
    (r"cannot run .*ssh|ssh: (command )?not found", EngineMissing, "the runner has no program `ssh`: install it there"),
    (
        r"Host key verification failed|host key is known",
        Forbidden,
        _UNKNOWN_HOST_KEY,
    ),
    (
        r"could not read (Username|Password)|Authentication failed|Permission denied|terminal prompts disabled|"
        r"returned error: 40[13]|Access denied",
        Forbidden,
        _NO_CREDENTIALS,
    ),
    (
        r"returned error: 404|[Rr]epository .*not found|does not appear to be a git repository|not found: did you run",
        NotFound,
        _NO_REPOSITORY,
    ),
    (
        r"SSL certificate|certificate verif|server certificate",
        Forbidden,
        "the certificate of its server is not trusted",
    ),
    (
        r"Could not resolve host|[Nn]ame or service not known|Connection refused|Failed to connect|Network is unreachable|"
        r"No route to host|timed out|Couldn't connect",
        Unavailable,
        "its server cannot be reached",
    ),
    (r"returned error: (429|5[0-9]{2})", Unavailable, "its server is overloaded or has a fault"),
    (
        r"Operation too slow|transfer closed|early EOF|hung up|Connection (reset|closed) by",
        Unavailable,
        "its server stopped sending",
    ),
    (
        r"transport '.*' not allowed|protocol .* (not supported|disabled)",
        Invalid,
        "it leads to a protocol that is not allowed",
    ),
    # Over ssh, git adds "make sure you have the correct access rights" to every error, also if the server is away.
    (r"access rights", Forbidden, _NO_CREDENTIALS),
)
_WITH_CREDENTIAL = {
    _UNKNOWN_HOST_KEY: "the host key of its server is not among those that the source has (known_hosts), or has changed: check "
    "it, and give the source the right one",
    _NO_CREDENTIALS: "its server does not accept the credential of the source, or that is not meant for it",
    _NO_REPOSITORY: "there is no repository at this address, or the credential of the source may not read it",
}
"""What is said instead if the source has a credential of its own: those of the runner are not used."""
_MISSING_COMMIT = re.compile(r"not our ref|unadvertised object|no such remote ref", re.IGNORECASE)
_CORRUPT = re.compile(
    r"corrupt|bad object|missing (blob|tree|commit|object)|unable to (read|find|parse)|not a git repository|loose object|"
    r"bad (tree|pack|revision|config)|inflate|packfile .* (cannot|does not)|index file .* (too small|overflow)|"
    r"could not parse|unexpected end of file|invalid (object|sha1 pointer|refspec)|did not send all necessary objects|"
    r"cannot be accessed|File exists|shallow file|reference broken|cannot lock ref|unable to update local ref",
    re.IGNORECASE,
)


def is_missing_commit(error: TerracrewError) -> bool:
    return _MISSING_COMMIT.search(error.message) is not None


def is_corrupt(error: TerracrewError) -> bool:
    """Return whether the mirror is probably damaged, rather than the other machine the reason."""
    return _CORRUPT.search(error.message) is not None


def is_explained(error: TerracrewError) -> bool:
    """Return whether the other machine, or the way to it, is known to be the reason."""
    return any(re.search(pattern, error.message) for pattern, _, _ in _KNOWN)


def explained(error: TerracrewError, url: str, *, has_credential: bool) -> TerracrewError:
    """Return the error that people get if this repository cannot be fetched. `has_credential`: with one of the source."""
    for pattern, kind, reason in _KNOWN:
        if re.search(pattern, error.message):
            reason = _WITH_CREDENTIAL.get(reason, reason) if has_credential else reason
            return kind(f"the repository {url} cannot be fetched: {reason} (git: {error.message})")
    return Unavailable(f"the repository {url} cannot be fetched (git: {error.message})")


def explained_of_new_copy(error: TerracrewError, url: str, *, has_credential: bool) -> TerracrewError:
    """Return the error that people get if a copy that was just made of a repository cannot be used either."""
    if is_corrupt(error) and not is_explained(error):
        return Unavailable(
            f"the repository {url} is damaged on its server, because a new copy of it cannot be used either: run `git fsck` "
            f"there (git: {error.message})"
        )
    return explained(error, url, has_credential=has_credential)
