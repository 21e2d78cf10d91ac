"""The diff of a plan on the command line: with `job show --diff`, and before a person is asked to approve it."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Terracrew
from tests.cli.job_views import asking, view
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("E1.commands", "J11.diff")
ATTRIBUTES: list[dict[str, Any]] = [
    {"name": "key", "action": "update", "before": '"a"', "after": '"b"', "forces_replacement": True},
    {"name": "password", "action": "update", "is_sensitive": True},
    {"name": "id", "action": "update", "before": '"i-1"', "is_unknown": True},
    {
        "name": "policy",
        "action": "update",
        "kind": "JSON",
        "changed": 1,
        "total": 11,
        "inside": [{"name": "Statement[2].Resource", "action": "create", "after": '"' + "x" * 500 + '"'}],
    },
]
DIFF: dict[str, Any] = {
    "attempt": 3,
    "counts": {"replace": 1},
    "drift": 0,
    "left_out": ["The attributes of 2 resources are left out, because the plan is too large."],
    "outputs": [{"name": "url", "action": "create", "after": '"https://x"'}],
    "outputs_left_out": 0,
    "total": 1,
    "items": [
        {
            "address": "aws_db.\x1b[2Jledger",
            "action": "replace",
            "why": "Replaced because `key` cannot change in place. The old one is destroyed first.",
            "attributes": ATTRIBUTES,
            "changed": 4,
            "unchanged": 41,
        }
    ],
    "next": None,
}


def test_the_diff_says_what_changes_why_and_in_which_order(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/jobs/7", view("SUCCEEDED", plan={"add": 0, "change": 0, "destroy": 0, "replace": 1}))
    server.on("GET /api/v1/jobs/job_1/diff?limit=100", DIFF)
    shown = terracrew("job", "show", "7", "--diff")
    for words in (
        "± aws_db.�[2Jledger  destroyed and created again",
        "Replaced because `key` cannot change in place. The old one is destroyed first.",
        '~ key: "a" → "b"  # forces replacement',
        "~ password: (sensitive, changes)",
        '~ id: "i-1" → (known after apply)',
        "~ policy: JSON, 1 of 11 values changes",
        "… (502 characters)",
        "41 unchanged attributes",
        '+ url: "https://x"',
        "1 to add, 0 to change, 1 to destroy",
    ):
        assert words in shown, words
    assert "\x1b[2J" not in shown
    assert "are left out" in terracrew.err
    assert json.loads(terracrew("job", "show", "7", "--diff", "--json"))["items"][0]["changed"] == 4


def test_a_job_without_a_diff_says_so(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/jobs/7", view("QUEUED"))
    nothing = {"attempt": None, "counts": {}, "items": [], "outputs": [], "left_out": [], "next": None, "total": 0}
    server.on("GET /api/v1/jobs/job_1/diff?limit=100", nothing)
    terracrew("job", "show", "7", "--diff")
    assert (terracrew.code, "job 7 has no diff: it has made no plan with changes" in terracrew.err) == (4, True)


def test_a_search_belongs_to_the_diff(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/jobs/7", view("SUCCEEDED"))
    server.on("GET /api/v1/jobs/job_1/diff?limit=100", DIFF)
    terracrew("job", "show", "7", "--search", "ledger")
    assert (terracrew.code, "use it together with --diff" in terracrew.err) == (2, True)
    terracrew("job", "show", "7", "--diff", "--search", "ledger")
    assert server.asked[-1] == "GET /api/v1/jobs/job_1/diff?q=ledger&limit=100"


def test_approving_shows_the_diff_of_the_same_plan_before_it_asks(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/jobs/7", asking())
    server.on("GET /api/v1/jobs/job_1/diff?limit=100", DIFF)
    terracrew("job", "approve", "7", stdin="n\n")
    before, _, _ = terracrew.err.partition("Approve and destroy")
    assert "forces replacement" in before
    server.on("GET /api/v1/jobs/job_1/diff?limit=100", DIFF | {"attempt": 2})
    terracrew("job", "approve", "7", stdin="n\n")
    assert "forces replacement" not in terracrew.err, "that is the diff of an earlier plan"
