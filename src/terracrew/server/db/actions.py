"""Calls what happens in this process when a transaction has ended."""

from collections.abc import Callable, Iterable

from terracrew.logging import get_logger

log = get_logger("terracrew.db")


def call_all(actions: Iterable[Callable[[], None]]) -> None:
    """Call each of them. The outcome of the transaction is decided, so an error is logged and changes nothing for its caller."""
    for action in actions:
        try:
            action()
        except Exception:
            log.exception("an action at the end of a transaction failed")
