"""The values of inputs that are outputs of other modules, when an attempt is claimed."""

from collections.abc import Sequence

import msgspec

from terracrew.masking import names
from terracrew.protocol.events import Output
from terracrew.server.db.seam import Tx
from terracrew.server.inputs.effective import OutputValue
from terracrew.server.inputs.model import PlacedInput
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import service as states
from terracrew.server.state import store as state_store

_outputs = msgspec.json.Decoder(dict[str, Output])


async def values(tx: Tx, keys: Keyring, inputs: Sequence[PlacedInput]) -> dict[str, OutputValue] | str:
    """Return the values of those inputs that are outputs, by the ids of the inputs, or a sentence that says why one has none."""
    found: dict[str, OutputValue] = {}
    for each in inputs:
        if each.kind == "output":
            value = await _value(tx, keys, each)
            if isinstance(value, str):
                return f"{value}, so nothing was started: set {each.name} again (terracrew input set {each.path} {each.name} …)"
            found[each.id] = value
    return found


async def sensitive(tx: Tx, keys: Keyring, module_id: str) -> list[str]:
    """Return the values to mask among the latest outputs of a module."""
    row = await state_store.latest_outputs(tx, module_id)
    if row is None or row["object"] is not None:
        return []
    outputs = _outputs.decode(keys.decrypt(bytes(row["content"]), states.outputs_context(row["job_id"])))
    return names.secrets_of({"secret": [each.value for each in outputs.values() if each.is_sensitive]})


async def _value(tx: Tx, keys: Keyring, each: PlacedInput) -> OutputValue | str:
    if each.source_path is None:
        return f"the module whose output {each.source_output} is the input {each.name} was deleted"
    row = await state_store.latest_outputs(tx, each.source_module_id or "")
    if row is None:
        return (
            f"module `{each.source_path}`, whose output {each.source_output} is the input {each.name}, has no outputs"
        )
    if row["object"] is not None:
        return f"the outputs of module `{each.source_path}` are too large to be inputs of other modules"
    outputs = _outputs.decode(keys.decrypt(bytes(row["content"]), states.outputs_context(row["job_id"])))
    output = outputs.get(each.source_output or "")
    if output is None:
        return f"module `{each.source_path}` has no output {each.source_output}, which is the input {each.name}"
    secrets = names.secrets_of({"secret": output.value}) if output.is_sensitive else []
    return OutputValue(output.value, secrets, row["sha256"], row["job_id"])
