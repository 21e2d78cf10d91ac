"""The outputs of modules that are inputs of others: their values when an attempt is claimed, what follows from a change of them, and
what is left of them when their module is deleted."""

from collections.abc import Sequence
from typing import Any

import msgspec

from terracrew.api.jobs import Job
from terracrew.errors import Conflict
from terracrew.masking import names
from terracrew.protocol.events import Output, OutputsRead
from terracrew.protocol.spec import JobType
from terracrew.server.db.seam import Row, Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import service as states
from terracrew.server.state import store as state_store
from terracrew.server.tree.inputs import dependencies, sealing, trigger_store
from terracrew.server.tree.inputs import reads as input_reads
from terracrew.server.tree.inputs import store as input_store
from terracrew.server.tree.inputs.effective import OutputValue
from terracrew.server.tree.inputs.model import PlacedInput
from terracrew.server.tree.modules import service as modules
from terracrew.wording import module_words

_outputs = msgspec.json.Decoder(dict[str, Output])


MAX_EARLIER_OUTPUTS = 10
"""How many earlier outputs of a module are searched for the last value of an output."""


class LastValue(msgspec.Struct, frozen=True):
    """The last value of an output of a module that was deleted, as it is kept with the input that it was."""

    value: Any
    is_sensitive: bool
    sha256: str
    job_id: str

    def __repr__(self) -> str:
        return f"LastValue({self.job_id!r})"


class KeptReference(msgspec.Struct, frozen=True):
    """The sealed content of an input that is an output."""

    module: str
    output: str
    last: LastValue | None = None


async def values(
    tx: Tx, keys: Keyring, inputs: Sequence[PlacedInput], *, destroys: bool
) -> dict[str, OutputValue] | str:
    """Return the values of those inputs that are outputs, by the ids of the inputs, or a sentence that says why one has none.

    A job that only `destroys` is given the last value of an output whose module was destroyed or deleted before it.
    """
    found: dict[str, OutputValue] = {}
    for each in inputs:
        if each.kind == "output":
            value = await _value(tx, keys, each, destroys=destroys)
            if isinstance(value, str):
                return f"{value}, so nothing was started: set {each.name} again (terracrew input set {each.path} {each.name} …)"
            found[each.id] = value
    return found


async def keep_last_values(tx: Tx, keys: Keyring, module_id: str) -> None:
    """Keep the last values of the outputs of a module that is deleted with the inputs of other modules that they are, so that these
    can still be destroyed. A reference that has ended gets none: nothing would end it again once its source is gone."""
    for each in await input_reads.lasting_references(tx, module_id):
        last = await _last(tx, keys, module_id, each.source_output or "")
        if last is not None:
            content = KeptReference(module_id, each.source_output or "", last)
            await input_store.reseal(tx, each, sealing.resealed(keys, each, msgspec.to_builtins(content)))


async def _last(tx: Tx, keys: Keyring, module_id: str, name: str) -> LastValue | None:
    for row in await state_store.last_outputs(tx, module_id, MAX_EARLIER_OUTPUTS):
        if row["object"] is None and (output := _opened(keys, row).get(name)) is not None:
            return LastValue(output.value, output.is_sensitive, row["sha256"], row["job_id"])
    return None


def _opened(keys: Keyring, row: Row) -> dict[str, Output]:
    return _outputs.decode(keys.decrypt(bytes(row["content"]), states.outputs_context(row["job_id"])))


async def sensitive(tx: Tx, keys: Keyring, module_id: str) -> list[str]:
    """Return the values to mask among the latest outputs of a module."""
    row = await state_store.latest_outputs(tx, module_id)
    if row is None or row["object"] is not None:
        return []
    return names.secrets_of({"secret": [each.value for each in _opened(keys, row).values() if each.is_sensitive]})


async def _value(tx: Tx, keys: Keyring, each: PlacedInput, *, destroys: bool) -> OutputValue | str:
    output = each.source_output or ""
    if each.source_path is None:
        kept = msgspec.convert(sealing.opened(keys, each), KeptReference).last if destroys else None
        return _given(kept) or f"the module whose output {output} is the input {each.name} was deleted"
    row = await state_store.latest_outputs(tx, each.source_module_id or "")
    if row is not None and row["object"] is not None:
        return f"the outputs of module `{each.source_path}` are too large to be inputs of other modules"
    if row is not None and (found := _opened(keys, row).get(output)) is not None:
        return _given(LastValue(found.value, found.is_sensitive, row["sha256"], row["job_id"])) or ""
    if destroys and (last := _given(await _last(tx, keys, each.source_module_id or "", output))) is not None:
        return last
    if row is None:
        return f"module `{each.source_path}`, whose output {output} is the input {each.name}, has no outputs"
    return f"module `{each.source_path}` has no output {output}, which is the input {each.name}"


def _given(last: LastValue | None) -> OutputValue | None:
    if last is None:
        return None
    secrets = names.secrets_of({"secret": last.value}) if last.is_sensitive else []
    return OutputValue(last.value, secrets, last.sha256, last.job_id)


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
    # Those that were too large for a row could be no inputs, so all count as new.
    before = {} if row is None or row["object"] is not None else _opened(keys, row)
    changed = {name for name, output in read.outputs.items() if before.get(name) != output}
    found = sorted({module_id for module_id, name in users if name in changed})
    if found:
        await trigger_store.remember(tx, found, job.id)


async def delete_module(tx: Tx, keys: Keyring, who: Principal, reference: str, *, force: bool) -> None:
    """Delete a module. If others use its outputs, or it has jobs or states, `force` is required."""
    module = await modules.find(tx, who, reference, Verb.TREE_WRITE)
    users = await dependencies.users(tx, who, module.id)
    if users and not force:
        raise Conflict(
            f"module `{module.path}` cannot be deleted: {module_words.used_by(users)}. Their jobs would fail: give them other "
            "inputs first, or ask for force=true (--force on the command line)",
            used_by=users,
        )
    if users:
        await keep_last_values(tx, keys, module.id)
    await modules.delete(tx, who, reference, force)
