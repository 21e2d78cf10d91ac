"""Jobs as the API shows them to the command line."""

from typing import Any

from terracrew.api.job_views import JobView
from tests.cli import api_answers

JOB: dict[str, Any] = {
    "id": "job_1",
    "number": 7,
    "type": "APPLY",
    "status": "QUEUED",
    "message": "",
    "created_at": "2024-01-02T03:04:05Z",
    "started_at": None,
    "finished_at": None,
    "engine_version": "1.12.6",
    "plan": None,
}

PLAN = {"add": 1, "change": 0, "destroy": 2, "resources": [{"action": "delete", "address": "aws_vpc.main"}]}


def view(status: str, **job: Any) -> dict[str, Any]:
    given = {"status": status, "module_path": "a/m", "engine": "tofu", "runner_path": "shared", **job}
    return api_answers.complete(JobView, JOB | given)


def known(attempt: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "job_id": "job_1",
        "number": 7,
        "attempt": attempt,
        "runner_path": "platform/net",
        "instance_name": "net-a",
        "claimed_at": "2024-01-02T03:04:05Z",
        "started_at": None,
        "begun_at": "2024-01-02T03:04:06Z",
        "may_have_begun": False,
        "heard_at": "2024-01-02T03:04:07Z",
        "lost_at": None,
        "ended_at": None,
        "outcome": None,
        "reason": "",
        "is_gone": False,
        "is_in_doubt": False,
        "lines": 3,
        "states": 2,
        "serial": 9,
        "state_at": "2024-01-02T03:04:07Z",
        "step": "apply",
        "last_line": "rule[4]: Creating...",
        "may_miss_state": True,
        "made": [],
        "is_made_cut": False,
        "is_complete": True,
        "gap": None,
        "module_state": None,
        **changes,
    }


def asking(**changes: Any) -> dict[str, Any]:
    kept = {"attempt": 3, "decide_by": "2024-01-09T03:04:05Z", "decision": None}
    return view(
        "AWAITING_APPROVAL",
        plan=PLAN,
        plan_attempt=3,
        kept_plan=kept,
        is_plan_stale=False,
        doubts=[],
        attempt=3,
        **changes,
    )
