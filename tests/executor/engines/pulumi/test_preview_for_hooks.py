"""The document of a preview that hooks read, from events as Pulumi 3.255 writes them."""

import json
from pathlib import Path
from typing import Any

import pytest

from terracrew.errors import Invalid
from terracrew.executor.engines.pulumi import preview_for_hooks
from terracrew.masking.redactor import Redactor

pytestmark = pytest.mark.feature("H1.plan", "J4.pulumi")
FILE = "testing:index:File"


def step(op: str, name: str, old: Any, new: Any, **fields: Any) -> dict[str, Any]:
    urn = f"urn:pulumi:dev::project::{FILE}::{name}"
    metadata = {"op": op, "urn": urn, "type": FILE, "provider": "p", "old": old, "new": new, "detailedDiff": None}
    return {"sequence": 1, "resourcePreEvent": {"metadata": metadata | fields, "planning": True}}


def state(**inputs: Any) -> dict[str, Any]:
    return {"type": FILE, "custom": True, "inputs": inputs}


def test_the_steps_of_a_preview_are_those_that_pulumi_prints_and_secrets_are_masked(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = [
        {"sequence": 0, "preludeEvent": {"config": {}}},
        step("refresh", "one", state(), state()),
        step(
            "update",
            "one",
            state(content="before", size=1.50),
            state(content="of-the-server"),
            keys=["name"],
            diffs=["content"],
            detailedDiff={"content": {"diffKind": "update", "inputDiff": True}},
        ),
        step("delete", "two", state(content="[secret]"), None),
        {"sequence": 9, "summaryEvent": {"resourceChanges": {"update": 1, "delete": 1}}},
    ]
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in events))
    mask = Redactor(["of-the-server", "delete", "update", "inputs", "content", FILE]).mask_text
    found = json.loads(preview_for_hooks.masked(path, mask))
    assert found["changeSummary"] == {"update": 1, "delete": 1}
    update, delete = found["steps"]
    assert update == {
        "op": "update",
        "urn": "urn:pulumi:dev::project::***::one",
        "provider": "p",
        "replaceReasons": ["name"],
        "diffReasons": ["***"],
        "detailedDiff": {"content": {"kind": "update", "inputDiff": True}},
        "oldState": {"type": FILE, "custom": True, "inputs": {"content": "before", "size": 1.5}},
        "newState": {"type": FILE, "custom": True, "inputs": {"content": "***"}},
    }
    assert (delete["op"], delete["oldState"]["inputs"], "newState" in delete) == (
        "delete",
        {"content": "[secret]"},
        False,
    )


def test_events_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for content in ("not JSON\n", '{"resourcePreEvent": 1}\n'):
        path.write_text(content)
        with pytest.raises(Invalid):
            preview_for_hooks.masked(path, str)
