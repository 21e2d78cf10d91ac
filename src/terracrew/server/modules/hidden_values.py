"""Hides values in a module's inputs and environment, and restores them when a person sends them back hidden.

The values of the environment are write-only. Inputs are hidden if they look like secrets.
"""

from typing import Any

import msgspec

from terracrew.server.inputs import hidden_values
from terracrew.server.inputs.hidden_values import HIDDEN
from terracrew.server.modules.contents import Content
from terracrew.server.modules.model import Module


def shown(module: Module, content: Content) -> Module:
    """Return the module with its inputs and environment as people see them."""
    inputs, environment = hidden_values.shown_inputs(content.inputs), dict.fromkeys(content.environment, HIDDEN)
    return msgspec.structs.replace(module, inputs=inputs, environment=environment)


def restored(before: Content, inputs: dict[str, Any], environment: dict[str, str]) -> Content:
    """Return what a person sent, with the stored value wherever they sent back what they were shown in its place."""
    shown_environment = dict.fromkeys(before.environment, HIDDEN)
    found = Content(
        hidden_values.restored(inputs, hidden_values.shown_inputs(before.inputs), before.inputs),
        hidden_values.restored(environment, shown_environment, before.environment),
    )
    hidden_values.refuse_hidden("environment", hidden_values.still_hidden(found.environment, is_secret=True))
    hidden_values.refuse_hidden("inputs", hidden_values.still_hidden(found.inputs))
    return found
