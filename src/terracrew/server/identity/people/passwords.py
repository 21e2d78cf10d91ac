"""Passwords of people: argon2, off the event loop and never more than two at a time, since each takes 64 MiB."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from terracrew.errors import Invalid, Unavailable

MIN_CHARACTERS, MAX_CHARACTERS = 10, 1024
MAX_PENDING_HASHES = 40
"""Hashes that run or wait, of everybody together: about two seconds of work. More are refused at once."""
RETRY_AFTER_SECONDS = 2
T = TypeVar("T")


class _Pending:
    count = 0

    def end(self, _: object) -> None:
        self.count -= 1


_hasher = PasswordHasher()
_threads = ThreadPoolExecutor(2, thread_name_prefix="argon2")
_pending = _Pending()


def check_strength(password: str) -> None:
    if not MIN_CHARACTERS <= len(password) <= MAX_CHARACTERS:
        raise Invalid(f"a password has {MIN_CHARACTERS} to {MAX_CHARACTERS} characters; this one has {len(password)}")


async def hashed(password: str) -> str:
    check_strength(password)
    return await _in_thread(lambda: _hasher.hash(password))


async def matches(password: str, password_hash: str | None) -> bool:
    """Compare; without a hash it takes as long and says no, so that the time does not tell who exists."""
    if len(password) > MAX_CHARACTERS:
        return False
    return await _in_thread(lambda: _verify(password, password_hash))


async def _in_thread(work: Callable[[], T]) -> T:
    """Wait for one of the threads; refuse where too many wait already."""
    if _pending.count >= MAX_PENDING_HASHES:
        raise Unavailable("too many people log in at this moment: try again", retry_after=RETRY_AFTER_SECONDS)
    _pending.count += 1
    running = asyncio.get_running_loop().run_in_executor(_threads, work)
    running.add_done_callback(_pending.end)  # called also where the request that waits for it is canceled
    return await running


def _verify(password: str, password_hash: str | None) -> bool:
    try:
        return _hasher.verify(password_hash or _nobodys(), password) and password_hash is not None
    except (VerificationError, InvalidHashError):
        return False


@cache
def _nobodys() -> str:
    return _hasher.hash("nobody has this password")
