"""The fields for a dispatcher in the forms of groups and modules: what was typed, and the change that it asks for."""

import msgspec

from terracrew.api.place_settings import DispatcherChange, PlaceChoice
from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.server.dashboard import forms

_PREFIX = "dispatcher_"


class DispatcherFields(msgspec.Struct, frozen=True, kw_only=True):
    """The values as they were typed. An empty one is left to the places above."""

    dispatcher_name: str = ""
    dispatcher_image: str = ""
    dispatcher_memory_mb: str = ""
    dispatcher_cpu: str = ""
    dispatcher_service_account: str = ""
    dispatcher_is_alone: bool = False
    """Whether nothing of the places above applies."""


def to_form(choice: PlaceChoice) -> DispatcherFields:
    """Return a choice as the fields show it."""
    values = {field: getattr(choice, field) for field in DispatcherChoice.__struct_fields__}
    shown = {
        f"{_PREFIX}{field}": "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
        for field, value in values.items()
    }
    return DispatcherFields(**shown, dispatcher_is_alone=not choice.inherits)


def from_form(fields: DispatcherFields) -> DispatcherChange:
    """Return the change that makes the choice of a place what the fields say."""
    names = DispatcherChoice.__struct_fields__
    values = {field: getattr(fields, f"{_PREFIX}{field}").strip() or None for field in names}
    values["inherits"] = not fields.dispatcher_is_alone
    return forms.convert(values, DispatcherChange, {field: f"{_PREFIX}{field}" for field in names})
