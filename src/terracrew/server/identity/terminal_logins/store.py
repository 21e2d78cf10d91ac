"""The rows of logins at terminals. Codes are stored and looked up as hashes.

The table `engine_logins` has the codes of all command lines; it is called after the first ones that had any.
"""

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.fragments import delete_some
from terracrew.server.db.statements.mapping import to_params
from terracrew.server.db.statements.table import Table
from terracrew.server.identity.terminal_logins.model import DeviceLogin, TerminalLogin

LOGINS = Table("engine_logins", TerminalLogin)
DEVICES = Table("device_logins", DeviceLogin)


async def insert(tx: Tx, login: TerminalLogin) -> None:
    await tx.run(LOGINS.insert(), **to_params(login))


async def find(tx: Tx, code_sha256: str) -> TerminalLogin | None:
    return await LOGINS.find(tx, code_sha256=code_sha256)


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


async def insert_device(tx: Tx, login: DeviceLogin) -> None:
    await tx.run(DEVICES.insert(), **to_params(login))


async def count_waiting(tx: Tx) -> int:
    return await tx.value(
        "SELECT count(*) AS logins FROM device_logins WHERE expires_at > :now AND is_allowed IS NULL", now=tx.now
    )


async def find_device(tx: Tx, device_code_sha256: str) -> DeviceLogin | None:
    return await DEVICES.find(tx, device_code_sha256=device_code_sha256)


async def hold_device(tx: Tx, device_code_sha256: str) -> DeviceLogin | None:
    """Return a login, whose row is locked until the transaction ends: two requests with one code follow each other."""
    return await DEVICES.hold(tx, device_code_sha256=device_code_sha256)


async def find_waiting(tx: Tx, user_code_sha256: str) -> DeviceLogin | None:
    """Return the login that nobody has answered yet, by the code that its person types."""
    return await DEVICES.one(
        tx,
        "FROM device_logins WHERE user_code_sha256 = :sha256 AND expires_at > :now AND is_allowed IS NULL",
        sha256=user_code_sha256,
        now=tx.now,
    )


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
