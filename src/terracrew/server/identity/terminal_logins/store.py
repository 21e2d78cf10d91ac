"""The rows of logins at terminals. Codes are stored and looked up as hashes.

The table `engine_logins` has the codes of all command lines; it is called after the first ones that had any.
"""

import msgspec

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.fragments import delete_some
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.identity.terminal_logins.model import LoginRequest, TerminalLogin


class DeviceLogin(msgspec.Struct, frozen=True):
    """A row: a command line that waits for a person who answers on another machine, and what became of it."""

    device_code_sha256: str
    machine: str
    address: str
    """From where the command line asked: its address, or its network for IPv6."""
    interval_seconds: float
    created_at: float
    expires_at: float
    polled_at: float | None
    is_allowed: bool | None
    """The answer; None while nobody has answered."""
    user_id: str | None
    session_id: str | None
    name: str | None
    days: int | None
    used_at: float | None
    token_id: str | None


async def insert(
    tx: Tx,
    code_sha256: str,
    user_id: str,
    session_id: str,
    request: LoginRequest,
    name: str,
    days: int | None,
    expires_at: float,
) -> None:
    await tx.run(
        "INSERT INTO engine_logins (code_sha256, user_id, session_id, client_id, redirect_uri, challenge, name, days,"
        " created_at, expires_at) VALUES (:code_sha256, :user_id, :session_id, :client_id, :redirect_uri, :challenge, :name, :days, :now,"
        " :expires_at)",
        code_sha256=code_sha256,
        user_id=user_id,
        session_id=session_id,
        client_id=request.client.id,
        redirect_uri=request.redirect_uri,
        challenge=request.challenge,
        name=name,
        days=days,
        now=tx.now,
        expires_at=expires_at,
    )


async def find(tx: Tx, code_sha256: str) -> TerminalLogin | None:
    row = await tx.one("SELECT * FROM engine_logins WHERE code_sha256 = :sha256", sha256=code_sha256)
    return None if row is None else row_to(TerminalLogin, row)


async def take(tx: Tx, code_sha256: str) -> bool:
    """Use a code up. Returns False if another request has already used it."""
    taken = await tx.run(
        "UPDATE engine_logins SET used_at = :now WHERE code_sha256 = :sha256 AND used_at IS NULL",
        now=tx.now,
        sha256=code_sha256,
    )
    return taken == 1


async def note_token(tx: Tx, code_sha256: str, token_id: str) -> None:
    await tx.run(
        "UPDATE engine_logins SET token_id = :token_id WHERE code_sha256 = :sha256",
        token_id=token_id,
        sha256=code_sha256,
    )


async def prune(tx: Tx, before: float, count: int) -> int:
    """Remove the codes that expired before this time. Until then, a second use of one is recognized."""
    condition = "expires_at < :before ORDER BY expires_at"
    return await delete_some(tx, "engine_logins", condition, before, count, key="code_sha256")


# Machines without a browser


async def insert_device(
    tx: Tx,
    device_code_sha256: str,
    user_code_sha256: str,
    machine: str,
    address: str,
    interval_seconds: float,
    expires_at: float,
) -> None:
    await tx.run(
        "INSERT INTO device_logins (device_code_sha256, user_code_sha256, machine, address, interval_seconds, created_at,"
        " expires_at) VALUES (:device_code_sha256, :user_code_sha256, :machine, :address, :interval_seconds, :now,"
        " :expires_at)",
        device_code_sha256=device_code_sha256,
        user_code_sha256=user_code_sha256,
        machine=machine,
        address=address,
        interval_seconds=interval_seconds,
        now=tx.now,
        expires_at=expires_at,
    )


async def count_waiting(tx: Tx) -> int:
    return await tx.value(
        "SELECT count(*) AS logins FROM device_logins WHERE expires_at > :now AND is_allowed IS NULL", now=tx.now
    )


async def find_device(tx: Tx, device_code_sha256: str) -> DeviceLogin | None:
    row = await tx.one("SELECT * FROM device_logins WHERE device_code_sha256 = :sha256", sha256=device_code_sha256)
    return None if row is None else row_to(DeviceLogin, row)


async def hold_device(tx: Tx, device_code_sha256: str) -> DeviceLogin | None:
    """Return a login, whose row is locked until the transaction ends: two requests with one code follow each other."""
    row = await tx.one(
        "SELECT * FROM device_logins WHERE device_code_sha256 = :sha256 FOR UPDATE", sha256=device_code_sha256
    )
    return None if row is None else row_to(DeviceLogin, row)


async def find_waiting(tx: Tx, user_code_sha256: str) -> DeviceLogin | None:
    """Return the login that nobody has answered yet, by the code that its person types."""
    row = await tx.one(
        "SELECT * FROM device_logins WHERE user_code_sha256 = :sha256 AND expires_at > :now AND is_allowed IS NULL",
        sha256=user_code_sha256,
        now=tx.now,
    )
    return None if row is None else row_to(DeviceLogin, row)


async def answer(
    tx: Tx,
    device_code_sha256: str,
    user_id: str,
    session_id: str,
    name: str,
    days: int | None,
    *,
    is_allowed: bool,
) -> bool:
    """Store the answer to a login. Returns False if it has one already, or has expired."""
    answered = await tx.run(
        "UPDATE device_logins SET is_allowed = :is_allowed, user_id = :user_id, session_id = :session_id, name = :name,"
        " days = :days WHERE device_code_sha256 = :sha256 AND is_allowed IS NULL AND expires_at > :now",
        is_allowed=is_allowed,
        user_id=user_id,
        session_id=session_id,
        name=name,
        days=days,
        sha256=device_code_sha256,
        now=tx.now,
    )
    return answered == 1


async def note_poll(tx: Tx, device_code_sha256: str, interval_seconds: float) -> None:
    await tx.run(
        "UPDATE device_logins SET polled_at = :now, interval_seconds = :interval_seconds"
        " WHERE device_code_sha256 = :sha256",
        now=tx.now,
        interval_seconds=interval_seconds,
        sha256=device_code_sha256,
    )


async def take_device(tx: Tx, device_code_sha256: str) -> None:
    """Use a device code up, whose row is held."""
    await tx.run(
        "UPDATE device_logins SET used_at = :now WHERE device_code_sha256 = :sha256",
        now=tx.now,
        sha256=device_code_sha256,
    )


async def note_device_token(tx: Tx, device_code_sha256: str, token_id: str) -> None:
    await tx.run(
        "UPDATE device_logins SET token_id = :token_id WHERE device_code_sha256 = :sha256",
        token_id=token_id,
        sha256=device_code_sha256,
    )


async def prune_devices(tx: Tx, before: float, count: int) -> int:
    """Remove the logins that expired before this time. Until then, a second use of one is recognized."""
    condition = "expires_at < :before ORDER BY expires_at"
    return await delete_some(tx, "device_logins", condition, before, count, key="device_code_sha256")
