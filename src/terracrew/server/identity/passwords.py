"""Passwords of people: argon2, off the event loop and never more than two at a time, since each takes 64 MiB."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from terracrew.errors import Invalid

SHORTEST, LONGEST = 10, 1024
_hasher = PasswordHasher()
_threads = ThreadPoolExecutor(2, thread_name_prefix="argon2")


def check_strength(password: str) -> None:
    if not SHORTEST <= len(password) <= LONGEST:
        raise Invalid(f"a password has {SHORTEST} to {LONGEST} characters; this one has {len(password)}")


async def hashed(password: str) -> str:
    check_strength(password)
    return await asyncio.get_running_loop().run_in_executor(_threads, _hasher.hash, password)


async def matches(password: str, password_hash: str | None) -> bool:
    """Compare; without a hash it takes as long and says no, so that the time does not tell who exists."""
    if len(password) > LONGEST:
        return False
    return await asyncio.get_running_loop().run_in_executor(_threads, _verify, password, password_hash)


def _verify(password: str, password_hash: str | None) -> bool:
    try:
        return _hasher.verify(password_hash or _nobodys(), password) and password_hash is not None
    except (VerificationError, InvalidHashError):
        return False


@cache
def _nobodys() -> str:
    return _hasher.hash("nobody has this password")
