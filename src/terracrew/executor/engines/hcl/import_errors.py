"""Finds in the output of a failed plan which resources could not be imported: the message of a provider does not name them."""

import re
from collections.abc import Sequence

_ANNOUNCED = re.compile(r"^(?P<address>\S.*): Preparing import\.\.\. \[id=", re.M)
_READ = re.compile(r"^(?P<address>\S.*): Refreshing state\.\.\. \[id=", re.M)
_BEFORE_ADDRESS = ("import ", "import target ", "resource address ", '"to" address of ')
"""What precedes the address in the messages of OpenTofu and Terraform about an import."""
_AFTER_ADDRESS = (" ", ". ", ", ")
_LINE_END = re.compile(r"\s*\n[│|]?\s*")


def refused(printed: str, addresses: Sequence[str]) -> list[str]:
    """Return those of these addresses that the engine began to import and did not read, or names in an error."""
    announced = {match["address"] for match in _ANNOUNCED.finditer(printed)}
    unread = announced - {match["address"] for match in _READ.finditer(printed)}
    errors = _LINE_END.sub(" ", printed[max(0, printed.find("Error: ")) :])
    return [each for each in addresses if each in unread or _is_named(errors, each)]


def _is_named(errors: str, address: str) -> bool:
    """Return whether an error is about the import of this resource. Other errors name the resource that they are about, too."""
    resource = address.rpartition("[")[0] if address.endswith("]") else address
    return any(
        f"{before}{each}{after}" in errors
        for before in _BEFORE_ADDRESS
        for each in (address, resource)
        for after in _AFTER_ADDRESS
    )
