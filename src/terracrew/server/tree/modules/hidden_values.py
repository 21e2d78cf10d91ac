"""Hides values in a module's inputs and environment that look like secrets, and restores them when a person sends them back hidden."""

from typing import Any

import msgspec

from terracrew.api.modules import Module
from terracrew.server.tree.inputs import hidden_values
from terracrew.server.tree.modules.contents import Content


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
