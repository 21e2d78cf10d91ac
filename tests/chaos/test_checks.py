"""Each check of a chaos run fails when it is given the violation that it must find."""

from typing import Any

import msgspec
import pytest

from tests.chaos import checks, lost_lists
from tests.chaos.checks import Found
from tests.chaos.made_once import Look
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
    assert rules(checks.no_overlap(wrong)) == ["permit to mutate"]


@pytest.mark.parametrize(
    ("priority", "looks", "broken"),
    [(0, [], ["in order"]), (5, [], []), (0, [Look(1.5, "approve", JOB, "fast", frozenset())], [])],
    ids=["unasked", "of another priority", "approved"],
)
def test_a_job_that_changes_its_module_after_a_later_one_is_seen(
    priority: int, looks: list[Look], broken: list[str]
) -> None:
    jobs = [{"id": JOB, "number": 1, "priority": 0}, {"id": "job_b", "number": 2, "priority": priority}]
    second, first = record("start", 2), Record("start", 1, "job_b", 1, "fast", 2)
    assert rules(checks.applied_in_order(Found(jobs, {}, [second, first], looks))) == broken
    assert rules(checks.applied_in_order(Found(jobs, {}, [second, Record("start", 3, "job_b", 1, "fast", 2)]))) == []


def test_lines_that_a_killed_engine_had_not_passed_on_are_not_missing() -> None:
    """`the log of … (failed) has 0 of at least 20 lines`: the real engine was stopped, then killed, and had read none of them."""
    seen = found(record("state", 1, printed=7), record("end", 2, printed=20, is_relayed=True))
    assert checks.printed_lines(seen, "job_a.1", attempt(1, "failed")) == 7
    assert checks.printed_lines(seen, "job_a.1", attempt(1)) == 20
    assert checks.printed_lines(seen, "job_a.2", attempt(2)) == 0


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


def test_a_thing_that_a_complete_list_does_not_have_is_seen() -> None:
    """A machine was lost with its disk: six things existed, and the list was empty and said nothing about that."""
    made = record("made", 1, resource="part-1", id="x")
    item = {"attempt": 1, "address": "terraform_data.part[1]", "id": ""}
    other = {"attempt": 2, "address": "terraform_data.part[1]", "id": "x"}
    kept = {"resources": [{"instances": [{"attributes": {"id": "x"}}]}]}

    def wrong(*items: dict[str, Any], gap: int | None = None, state: dict[str, Any] | None = None) -> list[str]:
        page = {"items": list(items), "gaps": [] if gap is None else [{"attempt": gap}]}
        shown = lost_lists.shown(2, f"{JOB}.1", [page], state or {})
        return rules(checks.lists_name_what_was_lost(msgspec.structs.replace(found(made), lists=[shown])))

    assert wrong() == wrong(other) == wrong(gap=2) == ["lists of lost resources"]
    assert wrong(item) == wrong(item | {"id": "x"}) == wrong(gap=1) == wrong(state=kept) == []
    destroyed = found(made, record("destroyed", 1.5, resource="part-1", id="x"))
    shown = lost_lists.shown(2, f"{JOB}.1", [{"items": [], "gaps": []}], {})
    assert rules(checks.lists_name_what_was_lost(msgspec.structs.replace(destroyed, lists=[shown]))) == []


def test_a_serial_that_does_not_rise_is_seen() -> None:
    def state(version: int, serial: int, status: str, sha256: str) -> dict[str, Any]:
        return {
            "sha256": sha256,
            "version": version,
            "serial": serial,
            "status": status,
            "lineage": "l",
            "job_id": JOB,
            "attempt": version,
        }

    wrong = found()
    wrong.states["team/fast"] += [state(1, 1, "superseded", "a"), state(2, 1, "current", "b")]
    assert rules(checks.states_in_order(wrong)) == ["no lost update"]
    same = found()
    same.states["team/fast"] += [state(1, 1, "superseded", "a"), state(2, 1, "current", "a")]
    assert rules(checks.states_in_order(same)) == [], "the same state, written twice, is no update"


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


def thing(what: str, at: float, attempt: int, number: str, resource: str = "thing-1") -> Record:
    return record(what, at, attempt, attempt, resource=resource, id=number)


def look(at: float, *shown: str, act: Any = "approve", job: str = JOB) -> Look:
    return Look(at, act, job, "fast", frozenset(shown))


CUT_SHORT = (record("start", 1), thing("made", 2, 1, "a"))
"""The first attempt made a thing and was killed before it could save."""
AGAIN = (record("start", 4, 2, 2), thing("made", 5, 2, "b"))
"""The second attempt does not know the thing and makes another."""


def made_once(*witnesses: Record, looks: tuple[Look, ...] = ()) -> list[str]:
    seen = found(*witnesses)
    return rules(checks.made_once(Found(seen.jobs, seen.states, seen.witnesses, list(looks))))


def test_a_thing_that_is_made_again_after_a_cut_without_an_approval_is_seen() -> None:
    """Seen: a rebooted host reported its attempt gone, and six resources were made twice."""
    assert made_once(*CUT_SHORT, *AGAIN) == ["made once"]


def test_a_thing_may_be_made_again_by_a_plan_that_a_person_approved_after_the_cut() -> None:
    assert made_once(*CUT_SHORT, *AGAIN, looks=(look(3, f"{JOB}.1"),)) == []


def test_a_thing_may_be_made_again_after_its_state_was_discarded() -> None:
    assert made_once(*CUT_SHORT, *AGAIN, looks=(look(3, f"{JOB}.1", act="discard"),)) == []


def test_a_thing_may_be_made_again_later_once_a_person_has_looked() -> None:
    """The approved plan ended before it came to this thing; the module is not in doubt any more."""
    later = (record("start", 4, 2, 2), record("end", 5, 2, 2), record("start", 6, 3, 3), thing("made", 7, 3, "c"))
    assert made_once(*CUT_SHORT, *later, looks=(look(3, f"{JOB}.1"),)) == []


@pytest.mark.parametrize(
    "looks",
    [
        (look(1.5, f"{JOB}.1"),),
        (look(3),),
        (look(3, "job_b.1"),),
        (look(6, f"{JOB}.1"),),
        (look(3, f"{JOB}.1", job="job_b"),),
    ],
    ids=["before the cut", "not shown", "shown another", "afterwards", "of a plan that never began"],
)
def test_an_approval_that_does_not_cover_the_cut_permits_nothing(looks: tuple[Look, ...]) -> None:
    assert made_once(*CUT_SHORT, *AGAIN, looks=looks) == ["made once"]


def test_a_module_that_chose_to_retry_is_exempt() -> None:
    assert rules(checks.made_once(found(*CUT_SHORT, *AGAIN), frozenset({"fast"}))) == []


def test_a_thing_that_is_destroyed_before_another_is_made_in_its_place_is_fine() -> None:
    replaced = (record("start", 4, 2, 2), thing("destroyed", 5, 2, "a"), thing("made", 5, 2, "b"))
    assert made_once(*CUT_SHORT, *replaced) == []


def test_things_of_other_names_are_no_repetition() -> None:
    assert made_once(*CUT_SHORT, record("start", 4, 2, 2), thing("made", 5, 2, "b", "thing-2")) == []


def test_a_cancel_that_nobody_asked_for_is_seen() -> None:
    """Seen: a reboot ended jobs CANCELED, with nobody in the audit log."""
    canceled = found(status="CANCELED")
    canceled.jobs[0]["message"] = ""
    assert rules(checks.only_asked_cancels(canceled)) == ["no unrequested cancel"]
    assert rules(checks.only_asked_cancels(Found(canceled.jobs, {}, [], [], {JOB}))) == []
