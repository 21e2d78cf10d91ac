"""Chooses the environment variables that the zygote and the engines get."""

import re
from collections.abc import Mapping

PREFIX = "TERRACREW_"
_ALLOWED_BESIDE_SERVER = re.compile(
    r"PATH|HOME|LANG|LC_\w+|TZ|TMPDIR|SSL_CERT_\w+|GIT_SSL_CA(INFO|PATH)|\w+_proxy|\w+_PROXY|GOGC|GOMEMLIMIT"
)
"""The only variables of the server's environment that an engine of the built-in runner gets."""
_NEEDED_BY_ZYGOTE = re.compile(r"PYTHON\w+|TERRACREW_CACHE|XDG_CACHE_HOME|TERRACREW_[A-Z]+_(RELEASES|SHA256)")
"""Python reads these when the zygote starts. The search for engines reads the cache directories, and their installation the others."""


def for_engines(environ: Mapping[str, str], *, is_built_in: bool) -> dict[str, str]:
    """Return the base environment of engines: the runner's own without the variables of Terracrew."""
    if is_built_in:
        return {name: value for name, value in environ.items() if _ALLOWED_BESIDE_SERVER.fullmatch(name)}
    return {name: value for name, value in environ.items() if not name.startswith(PREFIX)}


def for_zygote(environ: Mapping[str, str], *, is_built_in: bool) -> dict[str, str]:
    """Return the environment of the zygote. It contains no secret of Terracrew."""
    needed = {name: value for name, value in environ.items() if _NEEDED_BY_ZYGOTE.fullmatch(name)}
    return for_engines(environ, is_built_in=is_built_in) | needed
