"""What only people decide, on the command line: shown first, asked, and refused if it is no longer what was shown."""

import json
import re
from typing import Any

import pytest

from tests.cli.conftest import Terracrew
from tests.cli.job_views import asking, known, view
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("E1.commands")
HEARD = {"job_id": "job_1", "number": 7, "attempt": 2, "since": "2024-01-02T03:04:05Z", "lost_at": None}


@pytest.mark.feature("J8.same")
def test_approving_shows_the_plan_asks_and_names_the_plan_that_was_shown(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    server.on("GET /api/v1/jobs/7", asking())
    server.on("POST /api/v1/jobs/job_1/approve", view("QUEUED"))
    terracrew("job", "approve", "7", stdin="n\n")
    assert (terracrew.code, [each.method for each in server.asked]) == (1, ["GET", "GET"])
    assert terracrew.err.endswith("Not approved.\n")
    for words in (
        "Approve and destroy 2 in a/m?",
        "1 to add, 0 to change, 2 to destroy",
        "delete   aws_vpc.main",
        "the time is up",
    ):
        assert words in terracrew.err
    assert terracrew("job", "approve", "7", stdin="y\n") == "approved: job 7 continues with the plan of attempt 3\n"
    assert server.asked[-1].json() == {"plan": 3}
    assert json.loads(terracrew("job", "approve", "7", "--yes", "--json"))["status"] == "QUEUED"


@pytest.mark.feature("J11.checks")
def test_approving_shows_which_checks_failed_and_what_is_only_forgotten(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    """A resource that the plan forgets was shown as "destroyed because it is no longer in the configuration"."""
    dropped = {"action": "forget", "address": "aws_vpc.old", "detail": "delete_because_no_resource_config"}
    checks = [{"address": "check.health", "message": "the certificate ends in 3 days"}]
    plan = {"add": 0, "change": 0, "destroy": 0, "forgets": 1, "resources": [dropped], "checks": checks}
    server.on("GET /api/v1/jobs/7", asking() | {"plan": plan})
    terracrew("job", "approve", "7", stdin="n\n")
    assert "0 to destroy, 1 to forget, 1 check failed" in terracrew.err
    assert "check.health: the certificate ends in 3 days" in terracrew.err
    assert "aws_vpc.old  (no longer managed, not destroyed)" in terracrew.err
    assert "check.health: the certificate ends in 3 days" in terracrew("job", "show", "7")


@pytest.mark.feature("J8.same")
def test_a_plan_that_is_no_longer_the_one_that_was_looked_at_is_not_approved(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    server.on("GET /api/v1/jobs/7", asking())
    terracrew("job", "approve", "7", "--plan", "2", "--yes")
    assert (terracrew.code, len(server.asked)) == (5, 1)
    assert "the plan of attempt 3, not with that of attempt 2" in terracrew.err
    server.routes["POST /api/v1/jobs/job_1/approve"] = lambda asked: asked.problem(
        409, "conflict", "look at the new one"
    )
    terracrew("job", "approve", "7", "--yes")
    assert terracrew.code == 5
    server.on("GET /api/v1/jobs/7", view("PROCESSING"))
    terracrew("job", "approve", "7", "--yes")
    assert (terracrew.code, "is not waiting for approval: it is PROCESSING" in terracrew.err) == (5, True)


@pytest.mark.feature("J8.needed", "O3.doubt")
def test_in_doubt_what_is_known_of_the_lost_attempt_comes_before_the_plan(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    made = [{"address": "a.b", "action": "created", "id": "i-1"}, {"address": "a.c", "action": "creating", "id": ""}]
    state = {"version": 4, "serial": 9, "created_at": "2024-01-02T03:04:05Z", "resources": 2, "is_own": True}
    doubt = known(reason="ada said that it is gone", job_id="job_0", made=made, module_state=state)
    server.on("GET /api/v1/jobs/7", asking() | {"doubts": [doubt]})
    server.on("POST /api/v1/jobs/job_1/approve", view("QUEUED"))
    terracrew("job", "approve", "7", stdin="y\n")
    before, _, after = terracrew.err.partition("1 to add")
    assert after
    for words in (
        "An earlier change was cut short",
        "rule[4]: Creating...",
        "perhaps",
        "ada said that it is gone",
        "version 4, serial 9, 2 resources, written by this attempt",
        "created              a.b  [id=i-1]",
        "had begun to create  a.c",
    ):
        assert words in before, words
    assert server.asked[-1].json() == {"plan": 3, "doubts": [{"job_id": "job_0", "attempt": doubt["attempt"]}]}
    assert "Approve in doubt and destroy 2 in a/m?" in after
    assert "You also confirm that you have compared this plan with the resources that exist." in after


@pytest.mark.feature("J8.threshold")
def test_the_first_of_two_approvals_says_that_nothing_is_changed_yet(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    """The question was "Approve and apply" for each of two people."""
    two = {"approvals_needed": 2, "approvals_counted": 0, "approvers": ["ada", "grace"]}
    server.on("GET /api/v1/jobs/7", asking() | two)
    server.on("POST /api/v1/jobs/job_1/approve", view("AWAITING_APPROVAL") | two | {"approvals_counted": 1})
    out = terracrew("job", "approve", "7", "--comment", "the snapshot is taken", stdin="y\n")
    assert "Approve (1 of 2) in a/m?" in terracrew.err
    assert "Nothing is changed yet: 1 more person must approve it after you." in terracrew.err
    assert out == "approved: 1 of 2 approvals; job 7 still waits: 1 more person must approve it\n"
    assert server.asked[-1].json() == {"plan": 3, "comment": "the snapshot is taken"}


@pytest.mark.feature("J8.threshold")
def test_a_job_shows_everybody_who_has_approved_it_and_who_could(terracrew: Terracrew, server: ScriptedServer) -> None:
    """Only the last approver was named."""
    ada: dict[str, Any] = {
        "by": "ada",
        "by_id": "usr_1",
        "at": "2024-01-02T03:04:05Z",
        "doubts": [],
        "comment": "the snapshot is taken",
    }
    grace: dict[str, Any] = {
        "by": "grace",
        "by_id": "usr_2",
        "at": "2024-01-02T03:09:05Z",
        "doubts": [{"job_id": "job_0", "attempt": 1}],
    }
    found = asking(approvals_needed=3, approvals_counted=2, approvers=["olga", "otto"])
    found["kept_plan"] |= {"approvals": [ada, grace]}
    server.on("GET /api/v1/jobs/7", found)
    shown = terracrew("job", "show", "7")
    for words in (
        r"approved by +ada, .*: the snapshot is taken\n",
        r"approved by +grace, .*, in doubt\n",
        r"approvals +2 of 3: 1 more person must approve it\n",
        r"can approve +olga and otto\n",
    ):
        assert re.search(words, shown), words
    assert "declined" not in shown


@pytest.mark.feature("J8.same")
def test_a_stale_plan_is_not_approved_but_made_again(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/jobs/7", asking(approvals_needed=2, approvals_counted=0) | {"is_plan_stale": True})
    server.on("POST /api/v1/jobs/job_1/replan", view("QUEUED"))
    terracrew("job", "approve", "7", "--yes")
    assert (terracrew.code, "terracrew job replan 7" in terracrew.err) == (5, True)
    assert not re.search(r"can approve|must approve", terracrew("job", "show", "7"))
    assert terracrew("job", "replan", "7").startswith("replanning: job 7")
    assert server.asked[-1].json() == {"plan": 3}


@pytest.mark.feature("J8.decline")
def test_declining_says_why(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/jobs/7", asking())
    server.on("POST /api/v1/jobs/job_1/decline", view("DECLINED", message="declined by ada: too early"))
    assert terracrew("job", "decline", "7", "--reason", "too early", stdin="n\n") == ""
    assert (terracrew.code, terracrew.err.endswith("Not declined.\n")) == (1, True)
    assert "Decline the plan of job 7 in a/m?" in terracrew.err
    out = terracrew("job", "decline", "7", "--reason", "too early", "--yes")
    assert out == "declined: job 7 DECLINED: declined by ada: too early\n"
    assert server.asked[-1].json() == {"plan": 3, "reason": "too early"}


@pytest.mark.feature("O3.lease")
def test_giving_up_an_attempt_shows_what_is_known_and_the_risk_and_asks(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    server.on("GET /api/v1/jobs/7", view("PROCESSING", attempt=2, cancel_mode=None))
    server.on("GET /api/v1/jobs/job_1/attempts/2", known(2, lost_at="2024-01-02T03:05:00Z"))
    server.on("POST /api/v1/jobs/job_1/attempts/2/gone", view("QUEUED"))
    terracrew("job", "gone", "7", stdin="\n")
    assert (terracrew.code, len(server.asked)) == (1, 2)
    for words in (
        "platform/net · net-a",
        "perhaps",
        "it may be changing resources",
        "Nothing in a/m changes before",
    ):
        assert words in terracrew.err
    assert terracrew("job", "gone", "7", "--yes") == "attempt 2 was given up: job 7 QUEUED\n"
    assert server.asked[-1] == "POST /api/v1/jobs/job_1/attempts/2/gone"


@pytest.mark.feature("O3.lease")
def test_who_is_heard_is_not_given_up(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/jobs/7", view("PROCESSING", attempt=2))
    server.on("GET /api/v1/jobs/job_1/attempts/2", known(2))
    terracrew("job", "gone", "7", "--yes")
    assert (terracrew.code, len(server.asked)) == (5, 2)
    assert "hint: `terracrew job cancel 7`" in terracrew.err


@pytest.mark.feature("O3.lease")
def test_an_attempt_that_is_over_is_refused_before_anything_is_asked(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    """`job gone` on an ended job first asked for a confirmation and then refused."""
    server.on("GET /api/v1/jobs/7", view("SUCCEEDED", attempt=2))
    server.on("GET /api/v1/jobs/job_1/attempts/2", known(2, ended_at="2024-01-02T03:05:00Z", outcome="succeeded"))
    terracrew("job", "gone", "7", stdin="y\n")
    assert (terracrew.code, len(server.asked)) == (5, 2)
    assert "has already ended: succeeded" in terracrew.err
    assert "for certain?" not in terracrew.err


@pytest.mark.feature("O3.lease")
def test_a_module_is_unlocked_only_from_somebody_who_is_lost(terracrew: Terracrew, server: ScriptedServer) -> None:
    processing = "GET /api/v1/jobs?module=a%2Fm&status=PROCESSING&limit=1"
    server.on(processing, {"items": [], "next": None})
    server.on("GET /api/v1/jobs?module=a%2Fm&status=CLAIMED&limit=1", {"items": [], "next": None})
    server.on("GET /api/v1/modules/a%2Fm", {"lock": None})
    assert terracrew("module", "unlock", "a/m") == "the lock of a/m is free\n"
    server.on(processing, {"items": [view("PROCESSING")], "next": None})
    server.on("GET /api/v1/jobs/job_1", view("PROCESSING", lock=HEARD))
    terracrew("module", "unlock", "a/m", "--yes")
    assert terracrew.code == 5
    assert "job 7 holds the lock of a/m and is in contact" in terracrew.err
    server.on("GET /api/v1/jobs/job_1", view("PROCESSING", lock=HEARD | {"lost_at": "2024-01-02T03:05:00Z"}))
    server.on("GET /api/v1/jobs/job_1/attempts/2", known(2, lost_at="2024-01-02T03:05:00Z"))
    server.on("POST /api/v1/jobs/job_1/attempts/2/gone", view("QUEUED"))
    terracrew("module", "unlock", "a/m", "--yes")
    assert (terracrew.code, server.asked[-1]) == (0, "POST /api/v1/jobs/job_1/attempts/2/gone")


@pytest.mark.feature("O3.fenced")
def test_states_in_quarantine_are_listed_adopted_and_discarded(terracrew: Terracrew, server: ScriptedServer) -> None:
    state = {
        "id": "sta_1",
        "version": None,
        "status": "quarantined",
        "serial": 9,
        "lineage": "x",
        "job_id": "job_1",
        "attempt": 1,
        "created_at": "2024-01-02T03:04:05Z",
    }
    server.on(
        "GET /api/v1/modules/a%2Fm/states",
        {"items": [state, state | {"id": "sta_2", "status": "current"}], "next": None},
    )
    assert [line.split()[0] for line in terracrew("state", "list", "a/m", "--quarantined").splitlines()] == [
        "STATE",
        "sta_1",
    ]
    server.on("POST /api/v1/states/sta_1/adopt", state | {"status": "current"})
    server.on("POST /api/v1/states/sta_1/discard", state | {"status": "discarded"})
    terracrew("state", "adopt", "sta_1", stdin="n\n")
    assert (terracrew.code, len(server.asked)) == (1, 1)
    assert terracrew("state", "adopt", "sta_1", "--yes") == "sta_1 with serial 9 is current\n"
    assert json.loads(terracrew("state", "discard", "sta_1", "--yes", "--json"))["status"] == "discarded"


@pytest.mark.feature("J8.timeout")
def test_a_module_asks_for_approval_and_says_for_how_long(terracrew: Terracrew, server: ScriptedServer) -> None:
    module: dict[str, Any] = {"path": "a", "source": {}, "inputs": {}, "environment": {}}
    server.on("POST /api/v1/modules", module, 201)
    terracrew("module", "create", "a", "--path", "/srv/x", "--needs-approval", "--approval-timeout", "24h")
    assert {"needs_approval": True, "approval_seconds": 86400}.items() <= server.asked[-1].json().items()
    server.on("GET /api/v1/modules/a", module)
    server.on("PATCH /api/v1/modules/a", module)
    terracrew("module", "update", "a", "--no-needs-approval")
    assert server.asked[-1].json() == {"needs_approval": False}
    terracrew("module", "update", "a", "--approval-timeout", "soon")
    assert terracrew.code == 2
    server.on("POST /api/v1/modules/a/jobs", view("QUEUED"), 201)
    terracrew("job", "run", "a", "--apply", "--approval")
    assert server.asked[-1].json() == {"type": "APPLY", "needs_approval": True}


@pytest.mark.feature("J8.needed")
def test_how_much_may_be_destroyed_and_who_approves_is_set_on_groups_and_modules(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    server.on("PATCH /api/v1/groups/a", {"path": "a"})
    terracrew("group", "update", "a", "--max-destroy", "3", "--self-approval", "no")
    assert server.asked[-1].json() == {"max_destroy": 3, "self_approval": False}
    terracrew("group", "update", "a", "--max-destroy", "inherit", "--service-account-approval", "yes")
    assert server.asked[-1].json() == {"max_destroy": None, "service_account_approval": True}
    server.on("PATCH /api/v1/modules/a%2Fm", {"path": "a/m"})
    server.on("GET /api/v1/modules/a%2Fm", {"path": "a/m", "source": {}, "inputs": {}, "environment": {}})
    terracrew("module", "update", "a/m", "--max-destroy-percent", "20")
    assert {"max_destroy_percent": 20} in [asked.json() for asked in server.asked if asked.method == "PATCH"]
    terracrew("group", "update", "a", "--max-destroy", "many")
    assert (terracrew.code, "neither a number nor `inherit`" in terracrew.err) == (2, True)


def test_declining_shows_what_is_declined(terracrew: Terracrew, server: ScriptedServer) -> None:
    """`decline` did not show what it declined."""
    server.on("GET /api/v1/jobs/7", asking())
    server.on("POST /api/v1/jobs/job_1/decline", view("DECLINED"))
    terracrew("job", "decline", "7", "--yes")
    assert "delete   aws_vpc.main" in terracrew.err


def test_a_module_and_a_group_show_the_rules_that_apply_and_where_they_come_from(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    rules = [
        {"name": "max_destroy", "value": 1000, "path": "a"},
        {"name": "max_destroy_percent", "value": None, "path": None},
        {"name": "self_approval", "value": False, "path": ""},
        {"name": "service_account_approval", "value": False, "path": None},
        {"name": "min_approvals", "value": 2, "path": "a/m"},
    ]
    module = {"path": "a/m", "id": "mod_1", "description": "", "engine": "tofu", "created_at": "2026-01-01T00:00:00Z"}
    module |= {"source": {"kind": "local", "path": "/srv/x"}, "inputs": {}, "environment": {}, "approval_rules": rules}
    module |= {"approval_seconds": 3_600}
    server.on("GET /api/v1/modules/a%2Fm", module)
    group = {"path": "a", "id": "grp_1", "description": "", "created_at": "2026-01-01T00:00:00Z"}
    server.on("GET /api/v1/groups/a", group | {"approval_rules": rules[:4]})
    for shown in (terracrew("module", "show", "a/m"), terracrew("group", "show", "a")):
        assert "destroying more than 1,000 needs an approval (a)" in shown
        assert "nobody approves their own jobs (the organization)" in shown
        assert "service accounts do not approve (the default)" in shown
    assert "2 people must approve each change (a/m)" in terracrew("module", "show", "a/m")
    assert "2 people for each change, within 1h" in terracrew("module", "show", "a/m")
