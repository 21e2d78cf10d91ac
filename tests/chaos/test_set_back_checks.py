"""What a set-back excuses, and what it does not: each check still finds the violation beside it."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from msgspec.structs import replace

from tests.chaos import checks, set_back
from tests.chaos.checks import Found
from tests.chaos.lost_lists import ShownList
from tests.chaos.made_once import Look
from tests.chaos.set_back import Contents, SetBack
from tests.chaos.witness import Record

JOB = "job_a"
LOST = SetBack(3, frozenset(), frozenset({f"{JOB}.1"}), frozenset({f"{JOB}.1"}), frozenset({"s"}))
"""At 3, the database has lost the permission and the state of the first attempt."""


def record(what: str, at: float, attempt: int = 1, **more: Any) -> Record:
    return Record(what, at, JOB, attempt, "fast", attempt, **more)


def found(*witnesses: Record, set_backs: list[SetBack], looks: tuple[Look, ...] = ()) -> Found:
    attempts = [{"number": 2, "outcome": "succeeded", "begun_at": "then"}]
    return Found(
        [{"id": JOB, "attempts": attempts}], {"team/fast": []}, list(witnesses), list(looks), set_backs=set_backs
    )


def rules(violations: Any) -> list[str]:
    return [each.rule for each in violations]


def look(at: float, held_at: float) -> Look:
    return Look(at, "approve", JOB, "fast", frozenset(), held_at)


@pytest.mark.parametrize(
    ("looks", "broken"),
    [
        ((look(5, 4),), []),
        ((), ["made once"]),
        ((look(5, 0),), ["made once"]),
        ((look(5, 2),), ["made once"]),
        ((look(8, 4),), ["made once"]),
    ],
    ids=["warned", "nobody looked", "not warned", "warned of an earlier hold", "looked afterwards"],
)
def test_what_was_forgotten_is_made_again_only_if_somebody_was_warned(
    looks: tuple[Look, ...], broken: list[str]
) -> None:
    made = [record("made", 1, resource="a", id="x"), record("start", 6, 2), record("made", 7, 2, resource="a", id="y")]
    assert rules(checks.made_once(found(*made, set_backs=[LOST], looks=looks))) == broken


def test_a_warning_excuses_nothing_that_the_database_still_knows() -> None:
    made = [record("made", 1, resource="a", id="x"), record("start", 6, 2), record("made", 7, 2, resource="a", id="y")]
    other = replace(LOST, attempts=frozenset({f"{JOB}.9"}))
    assert rules(checks.made_once(found(*made, set_backs=[other], looks=(look(5, 4),)))) == ["made once"]


def test_permits_and_states_of_the_lost_time_are_not_missing() -> None:
    changed = [record("start", 1, plan="p"), record("state", 2, serial=1, sha256="s"), record("start", 4, 2, plan="p")]
    modules = {"team/fast": "fast"}
    assert rules(checks.no_overlap(found(*changed, set_backs=[LOST]))) == []
    assert rules(checks.no_overlap(found(*changed, set_backs=[]))) == ["permit to mutate", "a plan is applied once"]
    assert rules(checks.states_kept(set(), modules, found(*changed, set_backs=[LOST]))) == []
    assert rules(checks.states_kept(set(), modules, found(*changed, set_backs=[]))) == ["no state lost"]


@pytest.mark.parametrize(("key", "is_behind"), [("k", False), ("another", True), (None, False)])
def test_a_state_stays_with_its_runner_only_if_another_attempt_has_got_the_number(
    key: str | None, is_behind: bool
) -> None:
    lost = replace(LOST, states=frozenset(), keys={f"{JOB}.1": "k"})
    now = Contents(frozenset({JOB}), {f"{JOB}.1": (None, None, 0, key)} if key else {}, frozenset())
    behind = set_back.left_behind([lost], now)
    assert behind == ({f"{JOB}.1"} if is_behind else frozenset())
    later = replace(found(record("state", 5, serial=4, sha256="t"), set_backs=[lost]), left_behind=behind)
    assert bool(rules(checks.states_kept(set(), {"team/fast": "fast"}, later))) != is_behind


def test_a_log_that_has_lost_lines_still_has_each_line_once_and_in_order() -> None:
    def broken(*numbers: int) -> list[str]:
        text = b"".join(b"apply-line %d\n" % number for number in numbers)
        return rules(checks.log(text, f"{JOB}.1", {"outcome": "succeeded"}, 0, has_gaps=True))

    assert broken(1, 2, 7, 8) == broken() == []
    assert broken(1, 2, 2) == broken(2, 1) == ["logs complete and in order"]


def test_a_begin_of_a_held_module_is_seen_unless_it_was_permitted_in_the_lost_time() -> None:
    seen = replace(found(set_backs=[LOST]), begun_while_held=frozenset({f"{JOB}.1", f"{JOB}.2"}))
    assert [each.attempt for each in checks.held(seen)] == [f"{JOB}.2"]


def test_both_databases_are_compared() -> None:
    lost = Contents(
        frozenset({"job_a", "job_b"}),
        {"job_a.1": (1.0, "succeeded", 5, "k"), "job_b.1": (None, None, 0, "k"), "job_c.1": (1.0, None, 1, "k")},
        frozenset({"s", "t"}),
    )
    kept = Contents(
        frozenset({"job_a"}), {"job_a.1": (None, None, 2, "k"), "job_c.1": (1.0, None, 1, "k")}, frozenset({"t"})
    )
    assert set_back.compare(3, lost, kept) == SetBack(
        3,
        frozenset({"job_b"}),
        frozenset({"job_a.1", "job_b.1"}),
        frozenset({"job_a.1"}),
        frozenset({"s"}),
        keys={"job_b.1": "k"},
    )
    ended = replace(lost, attempts={"job_d.1": (1.0, "succeeded", 5, "k")})
    assert set_back.compare(3, ended, kept).ended == {"job_d.1"}


def test_what_a_forgotten_attempt_made_is_in_no_list_of_the_attempt_that_has_its_number_since() -> None:
    made = record("made", 1, resource="a", id="x")
    shown = ShownList(5, f"{JOB}.1", True, frozenset(), frozenset(), frozenset())
    forgotten = replace(LOST, ended=frozenset({f"{JOB}.1"}))
    for known, broken in (
        (LOST, ["lists of lost resources"]),
        (forgotten, []),
        (replace(forgotten, at=0.5), ["lists of lost resources"]),
    ):
        seen = replace(found(made, set_backs=[known]), lists=[shown])
        assert rules(checks.lists_name_what_was_lost(seen)) == broken


@pytest.mark.parametrize(
    ("begun_at", "released_at", "is_seen"), [(2.0, None, True), (2.0, 3.0, True), (4.0, 3.0, False), (0.5, None, False)]
)
def test_begins_are_compared_with_holds(begun_at: float, released_at: float | None, is_seen: bool) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(
            """CREATE TABLE jobs (id, module_id); CREATE TABLE attempts (job_id, number, begun_at);
            CREATE TABLE holds (id, started_at); CREATE TABLE held_modules (module_id, hold_id, released_at);
            INSERT INTO jobs VALUES ('job_a', 'm'); INSERT INTO holds VALUES ('h', 1)"""
        )
        connection.execute("INSERT INTO attempts VALUES ('job_a', 1, ?)", (begun_at,))
        connection.execute("INSERT INTO held_modules VALUES ('m', 'h', ?)", (released_at,))
        assert bool(set_back.begun_while_held(connection)) is is_seen
