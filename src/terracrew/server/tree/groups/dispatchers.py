"""What places of the tree ask of dispatchers: how it is changed, and what applies to a job."""

from collections.abc import Iterable

import msgspec
from msgspec import UNSET, UnsetType

from terracrew.protocol.dispatcher_choice import (
    NO_CHOICE,
    AccountName,
    DispatcherChoice,
    DispatcherName,
    ImageName,
    MemoryMegabytes,
    Processors,
)


class PlaceChoice(DispatcherChoice, frozen=True):
    """What a place says. A field that is None is left to the places above it, and to the dispatcher if none of them has one."""

    inherits: bool = True
    """Whether what the places above say applies as well; otherwise a field that is None is left to the dispatcher."""

    def __bool__(self) -> bool:
        return self != NOTHING_CHOSEN


NOTHING_CHOSEN = PlaceChoice()


class DispatcherChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to change; what is left out stays, and null removes it, so that the one of the nearest group above applies."""

    name: DispatcherName | UnsetType | None = UNSET
    """The name or the type of a dispatcher of a runner. Without one, the runner uses its default dispatcher."""
    image: ImageName | UnsetType | None = UNSET
    """The image that executors run in."""
    memory_mb: MemoryMegabytes | UnsetType | None = UNSET
    """The memory of an executor, in units of 1,048,576 bytes."""
    cpu: Processors | UnsetType | None = UNSET
    """The processors of an executor."""
    service_account: AccountName | UnsetType | None = UNSET
    """The service account that executors run as."""
    inherits: bool | UnsetType = UNSET
    """Whether what the groups above say applies as well, which is the default."""


def changed(choice: PlaceChoice, wanted: DispatcherChange) -> PlaceChoice:
    """Return the choice after a change. What runners allow is not checked here: they come and go."""
    given = {field: value for field in wanted.__struct_fields__ if (value := getattr(wanted, field)) is not UNSET}
    return msgspec.structs.replace(choice, **given)


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
