"""Which names variables and environment variables of groups, modules and jobs may have."""

import re

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,254}\Z")
_ENVIRONMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}\Z")
# The executor itself sets these. A module that could set them could redirect its state. TF_TOKEN_<host> is a token of the module
# for a registry; the executor replaces the one for the server itself.
_RESERVED = re.compile(r"(TERRACREW_|TF_HTTP_).*|TF_CLI_CONFIG_FILE\Z|TF_DATA_DIR\Z", re.DOTALL)


def problem_of_variable(name: str) -> str:
    """Return why a variable, or an output, cannot have this name; '' if it can."""
    if _VARIABLE.match(name):
        return ""
    return f"{name[:300]!r} is not a valid name: use letters, digits, _ and -, and no digit first"


def problem_of_environment(name: str) -> str:
    """Return why an environment variable cannot have this name; '' if it can."""
    if not _ENVIRONMENT.match(name):
        return f"{name[:300]!r} is not a valid name: use letters, digits and _, and no digit first"
    return f"{name} is set by Terracrew itself and cannot be set here" if _RESERVED.match(name) else ""
