"""Suggests the next command after an error that names none: which command lists what was not found."""

import re

from terracrew.errors import TerracrewError

_LISTS = {
    "module": "terracrew module list",
    "group": "terracrew group list",
    "runner": "terracrew runner list",
    "job": "terracrew job list",
    "organization": "terracrew organization list",
    "user": "terracrew user list",
    "cloud identity": "terracrew cloud-identity list",
    "service account": "terracrew service-account list",
    "token": "terracrew token list",
}
_MISSING = re.compile(rf"there is no ({'|'.join(_LISTS)})\b(?! and)")
_NOT_AN_ID = re.compile(r"is not an id: expected `(\w+)_`")
_OF_IDS = {
    "job": "`terracrew job list` shows the number of each job, which is enough",
    "sec": "`terracrew service-account secrets ACCOUNT` lists the ids of secrets",
    "sta": "`terracrew state list MODULE` lists the states of a module",
    "ses": "`terracrew user sessions NAME` lists the ids of sessions",
}


def of(error: TerracrewError) -> str | None:
    """Return the hint of an error, or one that follows from what it says."""
    if hint := error.details.get("hint"):
        return str(hint)
    if (found := _MISSING.search(error.message)) is not None:
        return f"`{_LISTS[found[1]]}` lists those that you may see"
    if (found := _NOT_AN_ID.search(error.message)) is not None:
        return _OF_IDS.get(found[1])
    return None
