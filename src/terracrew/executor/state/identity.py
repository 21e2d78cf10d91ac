"""Asks an engine about its states. An engine of another package can raise anything, so every error becomes `Invalid` here.

Otherwise the salvage of a dead attempt would crash on the same state again and again, and the state would never be delivered.
"""

import logging
import traceback

import msgspec

from terracrew.errors import Invalid
from terracrew.executor.engines import contract
from terracrew.executor.engines.contract import StateIdentity
from terracrew.protocol.events import NOT_IN_OWN_BACKEND

_MAX_PROBLEM_CHARACTERS = 500
_logger = logging.getLogger("terracrew.executor")


def read(engine: str, content: bytes) -> StateIdentity:
    """Return the identity of a state. Raises Invalid if the engine cannot read the content, whatever the reason."""
    try:
        found = contract.engine_named(engine).identify_state(content)
        # It is encoded and checked here as on its way to the server, which would refuse it.
        return msgspec.json.decode(msgspec.json.encode(found), type=StateIdentity)
    except Invalid:
        raise
    except Exception as error:  # the code of another package
        _logger.error("the engine %r failed to read a state of %d bytes\n%s", engine, len(content), _traceback())
        raise Invalid(f"the engine {engine!r} failed to read this state: {type(error).__name__}: {error}") from error


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
    try:
        return contract.engine_named(engine).emptied_state(content)
    except Invalid:
        raise
    except Exception as error:  # the code of another package
        _logger.error("the engine %r failed to empty a state of %d bytes\n%s", engine, len(content), _traceback())
        raise Invalid(f"the engine {engine!r} failed to empty its state: {type(error).__name__}: {error}") from error


def sensitive_outputs(engine: str, content: bytes) -> dict[str, object]:
    """Return the values of the sensitive outputs of a state. There are none if the engine cannot tell or fails."""
    found = contract.engine_named(engine)
    try:
        return dict(found.sensitive_outputs(content))
    except Exception:  # the code of another package
        _logger.error("the engine %r failed to read the outputs of a state\n%s", engine, _traceback())
        return {}


def has_lost_changes(engine: str, printed: str) -> bool:
    """Return whether an engine that printed this may have changed something that the state it left does not record."""
    try:
        return contract.engine_named(engine).has_lost_changes(printed)
    except Exception:  # the code of another package
        _logger.error("the engine %r failed to read its output\n%s", engine, _traceback())
        return True


def _traceback() -> str:
    """Return the traceback of the error at hand, without characters that no log file can contain."""
    return traceback.format_exc().encode(errors="backslashreplace").decode()


def _sendable(text: str) -> str:
    """Return a text without the characters that no message can contain: NUL, and halves of surrogate pairs."""
    return text.replace("\0", "")[:_MAX_PROBLEM_CHARACTERS].encode(errors="replace").decode()
