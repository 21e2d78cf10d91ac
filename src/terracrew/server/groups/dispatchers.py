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


def changed(choice: DispatcherChoice, wanted: DispatcherChange) -> DispatcherChoice:
    """Return the choice after a change. What runners allow is not checked here: they come and go."""
    given = {field: value for field in wanted.__struct_fields__ if (value := getattr(wanted, field)) is not UNSET}
    return msgspec.structs.replace(choice, **given)


def applying(places: Iterable[DispatcherChoice]) -> DispatcherChoice:
    """Return the choice that applies to a job, from those of all places above it, the nearest place last. Of each field, the
    nearest place that has one decides."""
    found = NO_CHOICE
    for each in places:
        nearer = {field: value for field in each.__struct_fields__ if (value := getattr(each, field)) is not None}
        found = msgspec.structs.replace(found, **nearer)
    return found
