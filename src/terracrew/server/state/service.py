"""Rows of a module's states and outputs as they change: the current state is replaced, a new one is added."""

from typing import TypeAlias

import msgspec

from terracrew import ids
from terracrew.api import fields
from terracrew.api.states import State
from terracrew.protocol.events import OutputsRead
from terracrew.server.db.seam import Row, Tx
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import store
from terracrew.server.state.model import Received
from terracrew.server.state.store import StoredState
from terracrew.server.tree.modules import store as modules

KeptState: TypeAlias = StoredState
"""A state with its content, as it is stored."""


async def kept(tx: Tx, module_id: str) -> StoredState | None:
    """Return the current state with its content, as it is stored."""
    return await store.current(tx, module_id)


async def current(tx: Tx, module_id: str) -> State | None:
    found = await store.current(tx, module_id)
    return None if found is None else found.state


async def resource_count(tx: Tx, state_id: str) -> int | None:
    """Return how many resources a state holds; None if its executor did not count them."""
    return await store.resources(tx, state_id)


async def latest_outputs(tx: Tx, module_id: str) -> Row | None:
    """Return the encrypted outputs that a job of the module read last, unless everything was destroyed since."""
    return await store.latest_outputs(tx, module_id)


async def is_replaced(tx: Tx, module_id: str) -> bool:
    """Return whether a person replaced the state of a module, and no job has written one since."""
    return (await store.version_facts(tx, module_id)).is_replaced


async def hold(tx: Tx, module_id: str) -> None:
    """Lock the module: until the transaction ends, no other permit is given for it and no other state of it is stored."""
    await modules.lock(tx, module_id)


async def is_locked(tx: Tx, module_id: str) -> bool:
    """Return whether a person holds the lock of a module."""
    return (await store.version_facts(tx, module_id)).is_locked


async def end_lock_doubt(tx: Tx, module_id: str) -> None:
    """Note that a state was written after a lock that did not end in order."""
    await modules.end_doubt(tx, module_id)


async def insert(
    tx: Tx, module_id: str, job_id: str, attempt: int, event: int, received: Received, version: int | None
) -> None:
    """Add a state. With a version, it is the current one; without, it is in quarantine."""
    state = fields.created(
        State,
        received.fact,
        id=ids.new("sta"),
        module_id=module_id,
        version=version,
        status="quarantined" if version is None else "current",
        job_id=job_id,
        attempt=attempt,
        event=event,
        problem=received.problem,
        created_at=tx.moment,
    )
    await store.insert(tx, state, received)


def outputs_context(job_id: str) -> str:
    return f"outputs:{job_id}"


def outputs_checksum(keys: Keyring, row: Row) -> str:
    """Return the checksum of stored outputs for people. Equal outputs of a module have the same one.

    Their plain hash is not shown: who may not read sensitive outputs could compare it with those of guessed values, and so could
    somebody who gives guessed values to another module.
    """
    return keys.checksum(row["sha256"].encode(), f"outputs of {row['module_id']}")


async def keep_outputs(
    tx: Tx, module_id: str, job_id: str, outputs: OutputsRead, keys: Keyring, object_name: str | None = None
) -> None:
    """Store the outputs of a job, in the row or, if they came by HTTP, in the object that holds them."""
    content = b"" if object_name else keys.encrypt(msgspec.json.encode(outputs.outputs), outputs_context(job_id))
    await store.save_outputs(tx, job_id, module_id, outputs.sha256, content, object_name)
