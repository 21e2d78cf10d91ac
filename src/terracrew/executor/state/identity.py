"""Asks an engine about its states. An engine of another package can raise anything, so every error becomes `Invalid` here.

Otherwise the salvage of a dead attempt would crash on the same state again and again, and the state would never be delivered.
"""

import logging
import traceback
from collections.abc import Generator
from contextlib import contextmanager

import msgspec

from terracrew.errors import Invalid
from terracrew.executor.engines import contract
from terracrew.executor.engines.contract import StateIdentity
from terracrew.protocol.events import NOT_IN_OWN_BACKEND

_MAX_PROBLEM_CHARACTERS = 500
_logger = logging.getLogger("terracrew.executor")


def read(engine: str, content: bytes) -> StateIdentity:
    """Return the identity of a state. Raises Invalid if the engine cannot read the content, whatever the reason."""
    with _translated(engine, "to read this state"):
        found = contract.engine_named(engine).identify_state(content)
        # It is encoded and checked here as on its way to the server, which would refuse it.
        return msgspec.json.decode(msgspec.json.encode(found), type=StateIdentity)


def read_leftover(engine: str, content: bytes, *, is_kept_here: bool) -> tuple[StateIdentity, str]:
    """Read the identity of what an engine left, which is kept in any case. If that fails: an empty identity, and the problem.

    The next plan of a module with a backend of its own does not read what is kept here: that is a problem as well.
    """
    try:
        return read(engine, content), "" if is_kept_here else NOT_IN_OWN_BACKEND
    except Invalid as error:
        return StateIdentity(0, ""), _sendable(error.message)


def emptied(engine: str, content: bytes) -> bytes:
    """Return the state that replaces this one when the engine deletes its state. Raises Invalid if the engine fails."""
    with _translated(engine, "to empty its state"):
        return contract.engine_named(engine).emptied_state(content)


def sensitive_outputs(engine: str, content: bytes) -> dict[str, object]:
    """Return the values of the sensitive outputs of a state. There are none if the engine cannot tell or fails."""
    try:
        with _translated(engine, "to read the outputs of a state"):
            return dict(contract.engine_named(engine).sensitive_outputs(content))
    except Invalid:
        return {}


def has_lost_changes(engine: str, printed: str) -> bool:
    """Return whether an engine that printed this may have changed something that the state it left does not record."""
    try:
        with _translated(engine, "to read its output"):
            return contract.engine_named(engine).has_lost_changes(printed)
    except Invalid:
        return True


@contextmanager
def _translated(engine: str, task: str) -> Generator[None]:
    """Raise Invalid for every error of the engine, and log those that are not Invalid already."""
    try:
        yield
    except Invalid:
        raise
    except Exception as error:  # the code of another package
        _logger.error("the engine %r failed %s\n%s", engine, task, _traceback())
        raise Invalid(f"the engine {engine!r} failed {task}: {type(error).__name__}: {error}") from error


def _traceback() -> str:
    """Return the traceback of the error at hand, without characters that no log file can contain."""
    return traceback.format_exc().encode(errors="backslashreplace").decode()


def _sendable(text: str) -> str:
    """Return a text without the characters that no message can contain: NUL, and halves of surrogate pairs."""
    return text.replace("\0", "")[:_MAX_PROBLEM_CHARACTERS].encode(errors="replace").decode()
