"""Makes a document for hooks from the events that Pulumi writes with `--event-log=FILE`, in the form of `pulumi preview --json`.

The events have no secrets: Pulumi writes the same text in place of each. Secrets that only the executor knows are masked here.
"""

from pathlib import Path
from typing import Any

import msgspec

from terracrew.attempt.engine_directory import read_produced
from terracrew.errors import Invalid
from terracrew.executor.engines import masked_values
from terracrew.executor.engines.pulumi.preview import MAX_EVENTS_BYTES, PropertyDiff
from terracrew.plan_diff import document
from terracrew.plan_diff.values import Mask, is_object

_NO_STATE = msgspec.Raw(b"null")


class _StepEvent(msgspec.Struct, rename="camel"):
    op: str
    urn: str
    provider: str = ""
    old: msgspec.Raw = _NO_STATE
    new: msgspec.Raw = _NO_STATE
    keys: list[str] | None = None
    diffs: list[str] | None = None
    detailed_diff: dict[str, PropertyDiff] | None = None


class _AnnouncedStep(msgspec.Struct):
    metadata: _StepEvent


class _SummaryEvent(msgspec.Struct, rename="camel"):
    resource_changes: dict[str, int] | None = None


class _EventForHooks(msgspec.Struct, rename="camel"):
    resource_pre_event: _AnnouncedStep | None = None
    summary_event: _SummaryEvent | None = None


_event = msgspec.json.Decoder(_EventForHooks)


def masked(events: Path, mask: Mask) -> bytes:
    """Raises Invalid if the events cannot be read."""
    content, mask = read_produced(events, MAX_EVENTS_BYTES), document.remembering(mask)
    steps: list[bytes] = []
    changes: dict[str, int] = {}
    try:
        for event in map(_event.decode, content.splitlines()):
            if event.resource_pre_event and (step := event.resource_pre_event.metadata).op != "refresh":
                steps.append(masked_values.encode(_shown(step, mask)))
            if event.summary_event:
                changes = event.summary_event.resource_changes or {}
    except (ValueError, RecursionError) as error:
        raise Invalid(f"Pulumi described its preview in a way that cannot be read: {error}") from error
    return b'{"steps":[' + b",".join(steps) + b'],"changeSummary":' + msgspec.json.encode(changes) + b"}"


def _shown(step: _StepEvent, mask: Mask) -> dict[str, Any]:
    details = step.detailed_diff or {}
    paths = masked_values.masked(dict.fromkeys(details), mask)
    diff = {
        path: {"kind": each.diff_kind, "inputDiff": each.input_diff}
        for path, each in zip(paths, details.values(), strict=True)
    }
    found = {
        "urn": step.urn,
        "provider": step.provider,
        "replaceReasons": step.keys,
        "diffReasons": step.diffs,
    }
    states = {"oldState": _state(step.old, mask), "newState": _state(step.new, mask)}
    given = {name: masked_values.masked(value, mask) for name, value in found.items() if value}
    given |= {"detailedDiff": diff} if diff else {}
    return {"op": step.op, **given, **{name: value for name, value in states.items() if value is not None}}


def _state(content: msgspec.Raw, mask: Mask) -> Any:
    """Return a resource before or after a step. Its type is never masked, so that a secret does not hide it."""
    found = masked_values.decode(content)
    if not is_object(found):
        return None
    return masked_values.masked(found, mask) | {key: found[key] for key in ("type",) if key in found}
