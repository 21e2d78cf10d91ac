"""Finds the reason of a failure in what Pulumi printed."""

import re

from terracrew.executor.engines.contract import FailureDetails

_MAX_ERROR_CHARACTERS = 500
_ERROR = re.compile(r"^[ ]*(?:\d+ )?[Ee]rror: (?P<what>\S.*)$", re.M)
_GENERAL = re.compile(r"(update|preview|refresh|destroy|import) (failed|canceled|cancelled)\b")
"""What Pulumi says about the command as a whole; its reason is in another line."""
_PLACE = re.compile(r"^  (?P<type>\S+:\S+) \((?P<name>[^)]+)\):$", re.M)
_OUT_OF_MEMORY = re.compile(
    r"^\s*(fatal error: .*(?:cannot allocate memory|out of memory).*|runtime: out of memory.*)$", re.M
)
INTERRUPTED = re.compile(r"^(\^C|SIGTERM) received; cancelling", re.M)
GAVE_UP = re.compile(r"(\^C|SIGTERM) received; terminating|^panic: |^fatal error: |^goroutine \d+ \[running\]", re.M)
"""Pulumi prints this and ends at once: it did not wait for the changes that it was making."""
_LOST_CHANGES = re.compile(
    r"Detected that .+ exited prematurely"
    r"|\berror: .*(?:error reading from server: |transport is closing|code = Unavailable|failed to save snapshot: )"
)
"""Pulumi prints this and ends by itself when something that it made may be in no state: a plug-in ended without an answer, and
Pulumi takes the operation out of its state as one that failed, or its backend did not take the state."""
_HELD_LOCK = re.compile(
    r"^[ ]*error: the stack is currently locked by \d+ lock\(s\)\..*$"
    r"(?:\n[ ]+\S+: created by (?P<who>\S+ \(pid \d+\)) at (?P<since>\S+)$)?",
    re.M,
)


def details(text: str) -> FailureDetails:
    memory = _OUT_OF_MEMORY.search(text)
    memory_error = memory[1].strip()[:_MAX_ERROR_CHARACTERS] if memory else ""
    return FailureDetails(first_error(text), memory_error, held_lock(text))


def has_lost_changes(text: str) -> bool:
    """Return whether the output of a failed update says that Pulumi does not know how some of its changes ended."""
    return GAVE_UP.search(text) is not None or _LOST_CHANGES.search(text) is not None


def held_lock(text: str) -> str:
    """Return who holds the lock of the stack, the first if there are several; '' if Pulumi does not say that it is held."""
    if not (match := _HELD_LOCK.search(text)):
        return ""
    if not match["who"]:
        return "locked by another run"
    return f"locked by {match['who']} since {match['since']}"[:_MAX_ERROR_CHARACTERS]


def first_error(text: str) -> str:
    """Return the first error that names a reason, with the resource that it is about; '' if there is none."""
    general = ""
    for match in _ERROR.finditer(text):
        what = match["what"].strip()[:_MAX_ERROR_CHARACTERS]
        if _GENERAL.match(what):
            general = general or what
            continue
        place = _place_before(text, match.start())
        return f"{what} ({place})" if place else what
    return general


def _place_before(text: str, position: int) -> str:
    """Return the resource of the section of the diagnostics that this position is in."""
    start = text.rfind("Diagnostics:", 0, position)
    if start < 0:
        return ""
    places = list(_PLACE.finditer(text, start, position))
    return places[-1]["name"] if places and places[-1]["type"] != "pulumi:pulumi:Stack" else ""
