"""Reads and writes the checkpoint of a stack, which is the state of Pulumi: the file that its `file://` backend keeps."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec

from terracrew.errors import Invalid
from terracrew.executor.engines.contract import StateIdentity

_VERSION = 3
_SECRET_MARK = "4dabf18193072939515e22adb298388d"  # noqa: S105  (it is in every state of Pulumi)
_SECRET_VALUE = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105
"""The key and its value by which Pulumi marks an object of its state as an encrypted value."""
STACK_TYPE = "pulumi:pulumi:Stack"
_PROVIDER_PREFIX = "pulumi:providers:"
_MAX_NAMED_OPERATIONS = 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class CheckpointResource(msgspec.Struct, frozen=True):
    urn: str
    type: str = ""
    custom: bool = False
    delete: bool = False
    """Whether it was replaced, and its old version is still to be deleted."""
    external: bool = False
    """Whether it is only read, and not managed."""
    outputs: msgspec.Raw = msgspec.Raw(b"{}")


class _Manifest(msgspec.Struct, frozen=True):
    time: datetime | None = None


class _PendingOperation(msgspec.Struct, frozen=True):
    resource: CheckpointResource
    type: str = ""


class _StackDeployment(msgspec.Struct, frozen=True):
    manifest: _Manifest = _Manifest()
    resources: list[CheckpointResource] | None = None
    pending_operations: list[_PendingOperation] | None = None


class _StackCheckpoint(msgspec.Struct, frozen=True):
    stack: str
    latest: _StackDeployment | None = None


class _StackContent(msgspec.Struct, frozen=True):
    checkpoint: _StackCheckpoint


_content = msgspec.json.Decoder(_StackContent).decode


def _read(content: bytes) -> _StackCheckpoint:
    try:
        return _content(content).checkpoint
    except (ValueError, RecursionError) as error:
        raise Invalid(f"this is not a checkpoint of Pulumi: {error}") from error


def identify(content: bytes) -> StateIdentity:
    """Return the identity of a state. Its serial is the time at which it was written, in microseconds: Pulumi counts nothing."""
    found = _read(content)
    time = found.latest.manifest.time if found.latest else None
    serial = max(0, (time.astimezone(UTC) - _EPOCH) // _MICROSECOND) if time else 0
    is_unfinished = bool(found.latest and found.latest.pending_operations)
    return StateIdentity(serial, found.stack, sum(1 for _ in _managed(found)), is_unfinished)


def initial(project: str, stack: str) -> bytes:
    """Return the state of a stack that was just made."""
    return msgspec.json.encode({"version": _VERSION, "checkpoint": {"stack": name(project, stack)}})


def name(project: str, stack: str) -> str:
    """Return the whole name of a stack in a `file://` backend."""
    return f"organization/{project}/{stack}"


def emptied(content: bytes) -> bytes:
    """Return a later state of the same stack without resources."""
    serial = identify(content).serial + 1
    document: dict[str, Any] = msgspec.json.decode(content)
    latest: dict[str, Any] = document["checkpoint"].get("latest") or {}
    manifest = {**latest.get("manifest", {}), "time": (_EPOCH + serial * _MICROSECOND).isoformat()}
    kept = {key: value for key, value in latest.items() if key not in ("resources", "pending_operations")}
    document["checkpoint"]["latest"] = {**kept, "manifest": manifest}
    return msgspec.json.encode(document)


def addresses(content: bytes) -> list[str]:
    """Return the addresses of the resources that a state manages."""
    return [address(each.urn) for each in _managed(_read(content))]


def _managed(found: _StackCheckpoint) -> Iterator[CheckpointResource]:
    """Yield what exists somewhere. Components, the stack itself and providers exist only in the program."""
    for each in (found.latest.resources if found.latest else None) or []:
        if is_managed(each.type, is_custom=each.custom) and not each.external:
            yield each


def is_managed(kind: str, *, is_custom: bool) -> bool:
    return is_custom and not kind.startswith(_PROVIDER_PREFIX)


def address(urn: str) -> str:
    """Return the part of a URN that tells resources of one stack apart: `<types of its parents and its own>::<name>`."""
    return urn.split("::", 2)[-1]


def pending_warning(content: bytes) -> str:
    """Return what people should know about operations that an earlier update had begun; '' if there are none."""
    latest = _read(content).latest
    pending = (latest.pending_operations if latest else None) or []
    if not pending:
        return ""
    named = [f"{each.type} {address(each.resource.urn)}" for each in pending[:_MAX_NAMED_OPERATIONS]]
    more = f" and {len(pending) - len(named):,} more" if len(pending) > len(named) else ""
    return (
        f"An earlier update was cut short while it was {', '.join(named)}{more}. What it was creating may exist without being in the "
        "state, and would be created again: see `terracrew job lost-resources` of that job"
    )


def secret_outputs(content: bytes) -> set[str]:
    """Return the names of the stack's outputs that are secret, or have a secret in them."""
    found = _read(content)
    for each in (found.latest.resources if found.latest else None) or []:
        if each.type == STACK_TYPE:
            outputs = msgspec.json.decode(each.outputs, type=dict[str, Any])
            return {name for name, value in outputs.items() if _has_secret(value)}
    return set()


def is_secret(value: object) -> bool:
    """Return whether a value of a state or an event stands for a secret."""
    return isinstance(value, dict) and cast("dict[str, object]", value).get(_SECRET_MARK) == _SECRET_VALUE


def _has_secret(value: object) -> bool:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if is_secret(each):
            return True
        if isinstance(each, dict):
            waiting += cast("dict[str, object]", each).values()
        elif isinstance(each, list):
            waiting += cast("list[object]", each)
    return False
