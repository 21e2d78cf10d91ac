"""Finds the reason of a failure in what the engine printed.

The text of the terminal is searched, not JSON, because it has the same form in every step and in every version.
"""

import re
from collections.abc import Sequence

from terracrew.executor.engines import error_summary
from terracrew.executor.engines.contract import FailureDetails

_MAX_ERROR_CHARACTERS = 500
_ERROR = re.compile(
    r"^[│|]?[ ]?Error: (?P<what>.+)$(?:\n[│|]?[ ]*)?(?:\n[│|]?[ ]*on (?P<file>\S+) line (?P<line>\d+))?", re.M
)
_OUT_OF_MEMORY = re.compile(
    r"^(?:[│|] ?)?(fatal error: .*(?:cannot allocate memory|out of memory).*|runtime: out of memory.*)$", re.M
)
"""What the Go runtime prints when it gets no memory; tens of kilobytes of goroutine traces follow it."""
_LOCK_ERROR = re.compile(
    r"^[│|]?[ ]?Error: Error acquiring the state lock$"
    r"(?P<reason>(?:\n(?![│|]?[ ]?(?:Lock Info:|Error: )).*){0,40})"
    r"\n[│|]?[ ]?Lock Info:$(?P<info>(?:\n[│|]?[ ]+\w+:.*){1,10})",
    re.M,
)
_LOCK_FIELD = re.compile(r"^[│|]?[ ]+(?P<name>ID|Who|Created):[ ]*(?P<value>\S.*)$", re.M)
_MAX_FIELD_CHARACTERS = 100
_LOST_CHANGES = re.compile(
    r"^(?:[│|] ?)?(?:Two interrupts received\.|Error: (?:Failed to create local state file|Plugin did not respond|Plugin error"
    r"|Request cancelled|The \S+ plugin crashed!))"
    r"|^[│|] .*(?:failed to respond to the plugin|error reading from server: |rpc error: code = Unavailable)",
    re.M,
)
"""The engine prints this and ends with exit code 1 when resources that it made may be in no state: it was interrupted a second
time and did not wait for them, it could save its state neither in its backend nor in a file, or a plug-in ended without an answer
(it was killed, or it crashed), so that nobody knows what it had made by then."""


_ANNOUNCED = re.compile(r"^(?P<address>\S.*): Preparing import\.\.\. \[id=", re.M)
_READ = re.compile(r"^(?P<address>\S.*): Refreshing state\.\.\. \[id=", re.M)
_BEFORE_ADDRESS = ("import ", "import target ", "resource address ", '"to" address of ')
"""What precedes the address in the messages of OpenTofu and Terraform about an import."""
_AFTER_ADDRESS = (" ", ". ", ", ")
_LINE_END = re.compile(r"\s*\n[│|]?\s*")


def details(text: str) -> FailureDetails:
    return FailureDetails(first_error(text), out_of_memory(text), held_lock(text))


def first_error(text: str) -> str:
    """Return the first error in the text, with its place; '' if there is none."""
    if not (match := _ERROR.search(text)):
        return ""
    what = match["what"].strip()[:_MAX_ERROR_CHARACTERS]
    return f"{what} ({match['file']}:{match['line']})" if match["file"] else what


def has_lost_changes(text: str) -> bool:
    """Return whether the output of a failed apply says that the engine does not know how some of its changes ended."""
    return _LOST_CHANGES.search(text) is not None


def out_of_memory(text: str) -> str:
    """Return the line with which a Go program ended because it got no memory; '' if there is none."""
    match = _OUT_OF_MEMORY.search(text)
    return match[1].strip()[:_MAX_ERROR_CHARACTERS] if match else ""


def held_lock(text: str) -> str:
    """Return who holds the lock of the state; '' if the engine does not say that another run holds it.

    Some backends print the information about the lock that they tried to get when their server is away, so the reason that they
    give counts, too.
    """
    match = _LOCK_ERROR.search(text)
    if match is None or error_summary.is_network_error(match["reason"]):
        return ""
    fields = {
        each["name"]: each["value"].strip()[:_MAX_FIELD_CHARACTERS] for each in _LOCK_FIELD.finditer(match["info"])
    }
    if "ID" not in fields:
        return ""
    since = f" since {fields['Created']}" if "Created" in fields else ""
    return f"locked by {fields.get('Who', 'another run')}{since} (lock ID {fields['ID']})"


def refused_imports(printed: str, addresses: Sequence[str]) -> list[str]:
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
