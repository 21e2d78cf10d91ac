"""The checks after a storm can fail: each is shown what it is there to find."""

from typing import Any

import pytest

from tests.chaos import checks
from tests.chaos.checks import Found
from tests.chaos.witness import Record

JOB = "job_a"
MODULES = {"team/fast": "fast"}


def record(what: str, at: float, attempt: int = 1, pid: int = 1, **more: Any) -> Record:
    return Record(what, at, JOB, attempt, "fast", pid, **more)


def attempt(number: int, outcome: str | None = "succeeded", begun: bool = True) -> dict[str, Any]:
    return {
        "number": number,
        "outcome": outcome,
        "begun_at": "then" if begun else None,
        "ended_at": outcome and "later",
    }


def found(*witnesses: Record, attempts: list[dict[str, Any]] | None = None, status: str = "SUCCEEDED") -> Found:
    made = attempts if attempts is not None else [attempt(1, "gone"), attempt(2)]
    job = {"id": JOB, "status": status, "attempt": len(made), "attempts": made}
    return Found([job], {"team/fast": []}, list(witnesses))


def rules(violations: Any) -> list[str]:
    return [each.rule for each in violations]


def test_two_mutations_one_after_the_other_are_fine() -> None:
    fine = found(record("start", 1), record("end", 2), record("start", 3, 2, 2), record("end", 4, 2, 2))
    assert rules(checks.no_overlap(fine)) == []


def test_a_mutation_that_begins_before_the_other_has_ended_is_seen_by_their_times() -> None:
    wrong = found(record("start", 1), record("start", 2, 2, 2), record("end", 3), record("end", 4, 2, 2))
    assert rules(checks.no_overlap(wrong)) == ["one at a time"]


def test_a_mutation_beside_one_that_never_ended_is_seen_by_the_lock() -> None:
    wrong = found(record("start", 1), record("overlap", 2, 2, 2), record("start", 2, 2, 2))
    assert rules(checks.no_overlap(wrong)) == ["one at a time"]


def test_a_mutation_without_leave_is_seen() -> None:
    wrong = found(record("start", 1), attempts=[attempt(1, begun=False)])
    assert rules(checks.no_overlap(wrong)) == ["leave to mutate"]


def test_a_plan_that_is_applied_twice_is_seen() -> None:
    wrong = found(record("start", 1, plan="p"), record("end", 2), record("start", 3, 2, 2, plan="p"))
    assert rules(checks.no_overlap(wrong)) == ["a plan is applied once"]


def test_a_state_that_the_server_does_not_have_is_seen_unless_its_disk_was_wiped() -> None:
    wrong = found(record("state", 1, serial=1, sha256="s"))
    assert rules(checks.states_kept(set(), MODULES, wrong)) == ["no state lost"]
    assert rules(checks.states_kept({f"{JOB}.1"}, MODULES, wrong)) == []
    wrong.states["team/fast"].append({"sha256": "s"})
    assert rules(checks.states_kept(set(), MODULES, wrong)) == []


def test_a_success_without_a_state_is_seen() -> None:
    wrong = found(record("start", 1, 2))
    assert rules(checks.success_has_its_state(wrong)) == ["no state lost"]
    wrong.states["team/fast"].append({"job_id": JOB, "attempt": 2})
    assert rules(checks.success_has_its_state(wrong)) == []


def test_a_serial_that_does_not_rise_is_seen() -> None:
    def state(version: int, serial: int, status: str) -> dict[str, Any]:
        return {
            "version": version,
            "serial": serial,
            "status": status,
            "lineage": "l",
            "job_id": JOB,
            "attempt": version,
        }

    wrong = found()
    wrong.states["team/fast"] += [state(1, 1, "superseded"), state(2, 1, "current")]
    assert rules(checks.states_in_order(wrong)) == ["no lost update"]


@pytest.mark.parametrize(
    ("attempts", "status"),
    [
        ([attempt(1), attempt(2)], "SUCCEEDED"),
        ([attempt(1, None)], "FAILED"),
        ([attempt(1, "gone")], "SUCCEEDED"),
        ([attempt(1, "gone"), attempt(1)], "SUCCEEDED"),
    ],
)
def test_an_impossible_history_is_seen(attempts: list[dict[str, Any]], status: str) -> None:
    assert "history" in rules(checks.history(found(attempts=attempts, status=status)))


PLANNED = b"".join(b"plan-line %d\n" % number for number in range(1, 6))


@pytest.mark.parametrize(
    ("text", "is_whole"),
    [
        (PLANNED + b"apply-line 1\napply-line 2\napply-line 3\n", True),
        (PLANNED + b"x (local-exec): apply-line 1\nx (local-exec): apply-line 2\nx (local-exec): apply-line 3\n", True),
        (PLANNED + PLANNED + b"apply-line 1\napply-line 2\napply-line 3\n", True),
        (PLANNED + b"apply-line 1\napply-line 3\n", False),
        (PLANNED + b"apply-line 1\napply-line 2\napply-line 2\napply-line 3\n", False),
        (PLANNED + b"apply-line 2\napply-line 1\napply-line 3\n", False),
        (PLANNED + b"apply-line 1\napply-line 2\n", False),
        (b"", False),
    ],
)
def test_a_line_that_is_missing_doubled_or_misplaced_is_seen(text: bytes, is_whole: bool) -> None:
    assert (rules(checks.log(text, f"{JOB}.1", attempt(1), 3)) == []) is is_whole


def test_a_traceback_is_found_with_what_was_said_before_and_after_it() -> None:
    text = "12:00 ERROR it broke\nTraceback (most recent call last):\n  File x\nValueError: odd\nfine again\n"
    assert checks.tracebacks(text) == ["12:00 ERROR it broke … ValueError: odd (1×)"]
