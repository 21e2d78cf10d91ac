"""The literal inputs and the environment of a module itself, as its API shows and replaces them. They are stored as rows of `inputs`."""

from typing import Any

import msgspec

from terracrew.api.inputs import Target
from terracrew.api.modules import Module
from terracrew.server.db.seam import Tx
from terracrew.server.principals.model import SYSTEM, Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.inputs import changes, hidden_values, sealing
from terracrew.server.tree.inputs import store as input_store


class Content(msgspec.Struct, frozen=True):
    inputs: dict[str, Any] = {}
    environment: dict[str, str] = {}

    def __repr__(self) -> str:
        return "Content(…)"


async def load(tx: Tx, keys: Keyring, module_id: str) -> Content:
    found = Content({}, {})
    for each in await input_store.at_place(tx, module_id):
        if each.kind == "literal" and each.sealed is not None and each.target != "file":
            values = found.inputs if each.target == "variable" else found.environment
            values[each.name] = sealing.opened(keys, each)
    return found


async def save(tx: Tx, keys: Keyring, module_id: str, content: Content, who: Principal = SYSTEM) -> None:
    """Make these the only literals of a module. What does not change keeps its version and who set it."""
    wanted: dict[Target, dict[str, Any]] = {"variable": content.inputs, "environment": content.environment}
    await changes.replace_literals(tx, keys, who, module_id, wanted)
    await changes.check_room(tx, module_id)


def shown(module: Module, content: Content) -> Module:
    """Return the module with its inputs and environment as people see them."""
    seen = _shown(content)
    return msgspec.structs.replace(module, inputs=seen.inputs, environment=seen.environment)


def restored(before: Content, inputs: dict[str, Any], environment: dict[str, str]) -> Content:
    """Return what a person sent, with the stored value wherever they sent back what they were shown in its place."""
    seen = _shown(before)
    found = Content(
        hidden_values.restored(inputs, seen.inputs, before.inputs),
        hidden_values.restored(environment, seen.environment, before.environment),
    )
    hidden_values.refuse_hidden("environment", hidden_values.still_hidden(found.environment, is_secret=True))
    hidden_values.refuse_hidden("inputs", hidden_values.still_hidden(found.inputs))
    return found


def _shown(content: Content) -> Content:
    """Return what people see. Both are masked at once, so that a secret of one is not shown in the other."""
    seen = hidden_values.shown_inputs({"inputs": content.inputs, "environment": content.environment})
    return Content(seen["inputs"], seen["environment"])
