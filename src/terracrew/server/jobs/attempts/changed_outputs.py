"""Finds the modules that use an output which an apply has changed, and remembers that they have to be applied."""

import msgspec

from terracrew.api.jobs import Job
from terracrew.protocol.events import Output, OutputsRead
from terracrew.protocol.spec import JobType
from terracrew.server.db.seam import Row, Tx
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import service as states
from terracrew.server.state import store as state_store
from terracrew.server.tree.inputs import trigger_store

_outputs = msgspec.json.Decoder(dict[str, Output])


async def trigger(tx: Tx, keys: Keyring, job: Job, read: OutputsRead) -> None:
    """Remember the modules with automatic triggers whose inputs change with these outputs, which are not stored yet.

    It is one transaction with storing the outputs, so no change is forgotten and none counts twice. An output that has
    vanished triggers nothing: the jobs of the modules that use it could only fail.
    """
    if job.type is not JobType.APPLY:
        return
    users = await trigger_store.users(tx, job.module_id)
    if not users:
        return
    row = await state_store.latest_outputs(tx, job.module_id)
    before = {} if row is None else _stored(keys, row)
    changed = {name for name, output in read.outputs.items() if before.get(name) != output}
    found = sorted({module_id for module_id, name in users if name in changed})
    if found:
        await trigger_store.remember(tx, found, job.id)


def _stored(keys: Keyring, row: Row) -> dict[str, Output]:
    """Return outputs as they were stored. Those that were too large for a row could be no inputs, so all count as new."""
    if row["object"] is not None:
        return {}
    return _outputs.decode(keys.decrypt(bytes(row["content"]), states.outputs_context(row["job_id"])))
