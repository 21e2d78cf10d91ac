"""Which part of a process's environment goes on to the helper process and to the engines."""

import re
from collections.abc import Mapping

OURS = "TERRACREW_"
# For a runner inside the server: what an engine needs to run at all, and nothing that the server was given.
_ALLOWED = re.compile(r"PATH|HOME|LANG|LC_\w+|TZ|TMPDIR|SSL_CERT_\w+|\w+_proxy|\w+_PROXY")
# What Python itself, and the search for engines, must find again in the helper process.
_HELPERS = re.compile(r"PYTHON\w+|TERRACREW_CACHE|XDG_CACHE_HOME")


def of_engines(environ: Mapping[str, str], *, is_built_in: bool) -> dict[str, str]:
    """The base environment of an engine: the runner's less everything that is Terracrew's own."""
    if is_built_in:
        return {name: value for name, value in environ.items() if _ALLOWED.fullmatch(name)}
    return {name: value for name, value in environ.items() if not name.startswith(OURS)}


def of_helper(environ: Mapping[str, str], *, is_built_in: bool) -> dict[str, str]:
    """The environment of the process that executors are forked from: it holds no secret of ours."""
    kept = {name: value for name, value in environ.items() if _HELPERS.fullmatch(name)}
    return of_engines(environ, is_built_in=is_built_in) | kept
