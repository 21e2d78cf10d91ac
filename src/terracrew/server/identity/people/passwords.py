"""Hashes passwords with argon2, outside the event loop and at most two at a time, because each hash takes 64 MiB."""

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
"""The most hashes that may run or wait, which is about two seconds of work. Further ones are refused at once."""
RETRY_AFTER_SECONDS = 2
T = TypeVar("T")


class _Pending:
    count = 0

    def end(self, _: object) -> None:
        self.count -= 1


hasher = PasswordHasher()
_threads = ThreadPoolExecutor(2, thread_name_prefix="argon2")
_pending = _Pending()


def check_strength(password: str) -> None:
    if not MIN_CHARACTERS <= len(password) <= MAX_CHARACTERS:
        raise Invalid(
            f"a password must have {MIN_CHARACTERS} to {MAX_CHARACTERS} characters; this one has {len(password)}"
        )


async def hashed(password: str) -> str:
    check_strength(password)
    return await _in_thread(lambda: hasher.hash(password))


async def matches(password: str, password_hash: str | None) -> bool:
    """Return whether the password matches the hash. Without a hash this takes as long, so the time does not reveal who exists."""
    if len(password) > MAX_CHARACTERS:
        return False
    return await _in_thread(lambda: verify(password, password_hash))


async def _in_thread(work: Callable[[], T]) -> T:
    """Run the work in one of the threads. Raises Unavailable if too many wait already."""
    if _pending.count >= MAX_PENDING_HASHES:
        raise Unavailable("too many people are logging in at this moment: try again", retry_after=RETRY_AFTER_SECONDS)
    _pending.count += 1
    running = asyncio.get_running_loop().run_in_executor(_threads, work)
    running.add_done_callback(_pending.end)  # it is called even if the waiting request is canceled
    return await running


def verify(password: str, password_hash: str | None) -> bool:
    try:
        return hasher.verify(password_hash or _nobodys(), password) and password_hash is not None
    except (VerificationError, InvalidHashError):
        return False


@cache
def _nobodys() -> str:
    return hasher.hash("nobody has this password")
