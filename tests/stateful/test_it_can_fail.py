"""The state machine can fail: if one condition of a decision is left out, it finds a broken rule."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec.structs import replace

from terracrew.server.jobs import decide, queue_reads
from terracrew.server.jobs.attempts import claim_store
from terracrew.server.jobs.plans import decide_plan
from tests.stateful import rules
from tests.stateful.examples import EXAMPLES
from tests.stateful.machine import Machine
from tests.thoroughness import thorough

real = {name: getattr(decide, name) for name in ("begin", "hand_back", "missing", "gone", "finish", "adoption")}
real["approve"] = decide_plan.approve


def any_state(job: Any, attempt: Any, module: Any, version: int, plan: Any, now: Any, **more: Any) -> Any:
    return real["begin"](job, attempt, replace(module, state_version=version), version, plan, now, **more)


def no_doubt(job: Any, attempt: Any, module: Any, version: int, plan: Any, now: Any, **more: Any) -> Any:
    return real["begin"](job, attempt, replace(module, doubts=()), version, plan, now, **more)


def heard_or_not(job: Any, attempt: Any, module: Any, version: int, plan: Any, now: Any, **more: Any) -> Any:
    doubts = tuple(replace(doubt, is_in_contact=False) for doubt in module.doubts)
    return real["begin"](job, attempt, replace(module, doubts=doubts), version, plan, now, **more)


def in_quarantine(job: Any, attempt: Any, module: Any, version: int, plan: Any, now: Any, **more: Any) -> Any:
    return real["begin"](job, attempt, replace(module, has_quarantine=False), version, plan, now, **more)


def not_waited(*args: Any, has_waited: bool, **others: Any) -> Any:
    return real["begin"](*args, has_waited=False, **others)


def ended_by_itself(decision: str) -> Callable[..., Any]:
    def sabotaged(job: Any, attempt: Any, told: Any, now: Any) -> Any:
        return real[decision](job, replace(attempt, is_change_ended=True), told, now)

    return sabotaged


def without_the_mark(job: Any, attempt: Any, report: Any, now: Any) -> Any:
    report = replace(report, last=attempt.mark, is_delivered=True)
    return real["gone"](job, replace(attempt, is_change_ended=True), report, now)


def always_asked_for(job: Any, attempt: Any, result: Any, now: Any) -> Any:
    is_canceled = result.status == "CANCELED"
    return real["finish"](replace(job, cancel_mode="interrupt") if is_canceled else job, attempt, result, now)


def doubts_unnamed(job: Any, plan: Any, module: Any, *args: Any) -> Any:
    return real["approve"](job, plan, replace(module, doubts=()), *args)


def any_lineage(job: Any, attempt: Any, **known: Any) -> Any:
    return real["adoption"](job, attempt, **known | {"is_same_lineage": True})


def accepted(*_: Any, **__: Any) -> None:
    return None


def never_begun(decision: str) -> Callable[..., Any]:
    def sabotaged(job: Any, attempt: Any, reason: str, now: Any) -> Any:
        return real[decision](
            job, replace(attempt, begun_at=None, begun_state_version=None, started_at=None), reason, now
        )

    return sabotaged


def always(*_: Any, **__: Any) -> bool:
    return True


def never(*_: Any, **__: Any) -> bool:
    return False


SABOTAGES: dict[str, tuple[str, Callable[..., Any]]] = {
    "a plan from an old state is applied": ("begin", any_state),
    "doubt binds nobody": ("begin", no_doubt),
    "begin while the fenced attempt is heard": ("begin", heard_or_not),
    "begin past a quarantine": ("begin", in_quarantine),
    "hand-back after begin": ("hand_back", never_begun("hand_back")),
    "what a runner misses is dead": ("missing", never_begun("missing")),
    "every state is adopted": ("adoption", always),
    "nobody is ever lost": ("is_silent", never),
    "any approval will do": ("is_approved", always),
    "a termination report ends every doubt": ("gone", ended_by_itself("gone")),
    "a termination report is believed without the mark": ("gone", without_the_mark),
    "the result of a killed engine leaves no doubt": ("finish", ended_by_itself("finish")),
    "an unasked CANCELED is final": ("finish", always_asked_for),
    "a job that plans again does not ask again": ("begin", not_waited),
    "an approval names no doubts": ("approve", doubts_unnamed),
    "a stale plan is approved": ("is_stale", never),
    "events are accepted after a result": ("refusal_of_events", accepted),
    "any lineage is adopted": ("adoption", any_lineage),
}
SYMPTOMS = {
    "a plan from an old state is applied": "the state has moved",
    "doubt binds nobody": "without a plan that anybody saw|before the fence|nobody has looked",
    "begin while the fenced attempt is heard": "is heard, and",
    "begin past a quarantine": "in quarantine is undecided",
    "hand-back after begin": "had begun",
    "what a runner misses is dead": "had begun",
    "every state is adopted": "of another lineage|older than|adopted|never had a permit|somebody wrote",
    "nobody is ever lost": "nobody",
    "any approval will do": "without a plan that anybody saw|before the fence|approved",
    "a termination report ends every doubt": "before a person has looked",
    "a termination report is believed without the mark": "before a person has looked",
    "the result of a killed engine leaves no doubt": "before a person has looked",
    "an unasked CANCELED is final": "nobody has canceled",
    "a job that plans again does not ask again": "without a plan that anybody saw|another plan than",
    "an approval names no doubts": "does not name the doubt|these never end",
    "a stale plan is approved": "was stale",
    "events are accepted after a result": "after its result",
    "any lineage is adopted": "of another lineage",
}


SOON = (
    "doubt binds nobody",
    "nobody is ever lost",
    "any approval will do",
    "an unasked CANCELED is final",
    "a job that plans again does not ask again",
)
"""Found within seconds. The others take up to a minute, and more luck: they belong to the longer run."""


@pytest.mark.feature("O3.doubt")
@pytest.mark.parametrize("sentence", SABOTAGES if EXAMPLES else SOON)
def test_without_this_sentence_a_rule_breaks(
    sentence: str, on_sqlite: type[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, sabotaged = SABOTAGES[sentence]
    monkeypatch.setattr(decide if hasattr(decide, name) else decide_plan, name, sabotaged)
    _breaks(on_sqlite, SYMPTOMS[sentence])


@pytest.mark.feature("J10.order")
@pytest.mark.parametrize(
    "symptom", ["was claimed before job", pytest.param("began after the later jobs", marks=thorough)]
)
def test_claims_in_any_order_break_a_rule(
    symptom: str, on_sqlite: type[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    condition = "jobs.id = " + queue_reads.first_of_module("jobs.module_id")
    without = {key: sql.replace(condition, "true") for key, sql in claim_store.CLAIMS.items()}
    assert without != claim_store.CLAIMS
    monkeypatch.setattr(claim_store, "CLAIMS", without)
    if symptom != "was claimed before job":
        monkeypatch.setattr(rules, "claimed_in_order", accepted)  # which would find it sooner
    _breaks(on_sqlite, symptom)


def _breaks(machine: type[Machine], symptom: str) -> None:
    enough = settings(
        max_examples=EXAMPLES or 300,  # it ends with the first one that breaks the rule
        stateful_step_count=50,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow],
    )
    with pytest.raises(AssertionError, match=symptom):
        run_state_machine_as_test(machine, settings=enough)
