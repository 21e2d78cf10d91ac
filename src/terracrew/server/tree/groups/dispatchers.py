"""What places of the tree ask of dispatchers: what applies, and which place says it to a job."""

from collections.abc import Iterable

import msgspec

from terracrew.api.place_settings import PlaceChoice
from terracrew.protocol.dispatcher_choice import (
    NO_CHOICE,
    DispatcherChoice,
)


def inherited(own: PlaceChoice, above: Iterable[tuple[str, PlaceChoice]]) -> dict[str, str]:
    """Return by field which place above a module decides, from the paths and choices of all of them, the nearest place first.
    Fields that the module has itself are left out."""
    found: dict[str, str] = {}
    nearer = own
    for path, each in above:
        if not nearer.inherits:
            break
        for field in DispatcherChoice.__struct_fields__:
            if getattr(own, field) is None and getattr(each, field) is not None:
                found.setdefault(field, path)
        nearer = each
    return found


def applying(places: Iterable[PlaceChoice]) -> DispatcherChoice:
    """Return the choice that applies to a job, from those of all places above it, the nearest place last. Of each field, the
    nearest place that has one decides, unless a place below it inherits nothing."""
    found = NO_CHOICE
    for each in places:
        fields = DispatcherChoice.__struct_fields__
        nearer = {field: value for field in fields if (value := getattr(each, field)) is not None}
        found = msgspec.structs.replace(found if each.inherits else NO_CHOICE, **nearer)
    return found
