"""What an entry of the audit log says in words."""

import ast
from pathlib import Path
from typing import Any

import pytest

from terracrew.wording.audit_words import SENTENCES, sentence

SERVER = Path(__file__).parents[2] / "src" / "terracrew" / "server"
KINDS = {name.partition(".")[0] for name in SENTENCES}
NOT_ACTIONS = {"input.json", "outputs.content", "outputs.created_at", "outputs.module_id", "runner.capacity"}
"""Texts of the same form: the names of a file, of columns and of a setting."""


def entry(action: str, details: dict[str, Any], path: str | None = None) -> dict[str, Any]:
    kind = action.partition(".")[0]
    return {"action": action, "target_kind": kind, "target_id": f"{kind}_1", "details": details, "path": path}


@pytest.mark.feature("E1.commands", "X3.audit")
@pytest.mark.parametrize(
    ("action", "details", "path", "words"),
    [
        ("job.run", {"type": "APPLY", "job": 12}, "app/web", "queued job #12 of app/web: apply"),
        (
            "job.run",
            {"type": "APPLY", "job": 12, "targets": ["module.a", "b.c"]},
            "a",
            "queued job #12 of a: apply, only module.a, b.c",
        ),
        ("fleet_job.create", {"type": "DEPLOY_WORKER", "job": 3}, "a/r", "queued job #3 of a/r: deploy worker"),
        ("group.run", {"type": "DESTROY"}, "app", "began the destroy of all modules of app"),
        ("job.approve", {"job": 3, "comment": "go"}, "a", "approved the plan of job #3 of a: go"),
        ("job.decline", {"job": 3, "reason": "too much"}, "a", "declined the plan of job #3 of a: too much"),
        ("job.cancel", {"mode": "kill"}, "a/b", "canceled job job_1 of a/b (kill)"),
        ("job.change_priority", {"job": 3, "from": 0, "to": 5}, "a", "changed the priority of job #3 of a from 0 to 5"),
        ("role.grant", {"name": "bo", "role": "owner"}, "", "made bo owner of the organization"),
        ("role.revoke", {"name": "bo", "role": "viewer"}, "a/b", "took the role viewer of a/b from bo"),
        ("runner.change", {"path": "a/r", "is_disabled": True}, "a/r", "disabled the runner a/r"),
        ("runner.change", {"path": "a/r", "is_draining": False}, "a/r", "undrained the runner a/r"),
        ("runner.change", {"path": "a/r", "max_jobs": 3, "tags": []}, "a/r", "changed the runner a/r: max jobs, tags"),
        (
            "runner.assign",
            {"path": "r", "kind": "group", "place": ""},
            "r",
            "assigned the runner r to the organization",
        ),
        ("runner.delete", {"path": "a/r", "is_forced": True}, "a/r", "removed the runner a/r, by force"),
        ("rollout.start", {"version": "1.5.0", "paths": ["a", "b"]}, None, "began the roll-out of 1.5.0, to a, b"),
        (
            "rollout.end",
            {"version": "1.5.0", "status": "stopped", "reason": "no engine"},
            None,
            "ended the roll-out of 1.5.0: stopped, no engine",
        ),
        (
            "rollout.end",
            {"version": "1.5.0", "status": "done", "reason": ""},
            None,
            "ended the roll-out of 1.5.0: done",
        ),
        ("service_account.create", {"name": "bot", "group": "a"}, "a", "created the service account a/bot"),
        ("module.change", {"changed": ["inputs", "tags"]}, "a/m", "changed the module a/m: inputs, tags"),
        ("login.fail", {"count": 3}, None, "failed to log in, 3 times"),
        ("login.fail", {"count": 1}, None, "failed to log in"),
        ("role.expire", {}, "a", "ended the role a of a in a: it had expired"),
        ("comet.launch", {"name": "halley"}, None, "comet.launch comet halley"),
        ("job.decline", {"job": 3, "reason": "x" * 500}, "a", f"declined the plan of job #3 of a: {'x' * 120}…"),
        ("group.create", {"name": "{0.__class__}"}, None, "created the group {0.__class__}"),
    ],
)
def test_an_entry_is_a_sentence(action: str, details: dict[str, Any], path: str | None, words: str) -> None:
    assert sentence(entry(action, details, path)) == words


def test_every_action_that_the_server_records_has_a_sentence() -> None:
    found: set[str] = set()
    for file in SERVER.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                arguments = [each for argument in node.args for each in ast.walk(argument)]
                texts = {each.value for each in arguments if isinstance(each, ast.Constant)}
                found |= {text for text in texts if isinstance(text, str) and _is_action(text)}
    assert len(found) > 40
    assert found - NOT_ACTIONS <= set(SENTENCES)


def _is_action(text: str) -> bool:
    kind, dot, verb = text.partition(".")
    return bool(dot) and kind in KINDS and verb.replace("_", "").isalpha()
