"""The numbers of steps are in stored logs and on the wire, so they are fixed here a second time."""

import pytest

from terracrew.protocol import events
from terracrew.protocol.events import HEADER, Kind, Stream
from terracrew.protocol.spec import MUTATING, STEP_OF_NUMBER, STEPS_OF, Step

NUMBERS = {"fetch": 10, "inputs": 20, "init": 30, "validate": 40, "plan": 50, "apply": 60, "destroy": 70, "output": 80}


def test_a_step_keeps_its_number() -> None:
    assert {step.value: step.number for step in Step} == NUMBERS


@pytest.mark.parametrize("step", list(Step))
def test_a_record_names_its_step_by_the_number_of_the_step(step: Step) -> None:
    packed = events.pack(Kind.LOG, Stream.OUTPUT, step, 1.0, b"a line\n")
    assert HEADER.unpack_from(packed)[3] == step.number
    (record,) = events.unpack(packed)
    assert record.step_name is step


@pytest.mark.parametrize("number", [0, 1, 9, 11, 81, 65535])
def test_a_record_of_an_unknown_step_is_malformed(number: int) -> None:
    assert number not in STEP_OF_NUMBER
    with pytest.raises(ValueError, match="malformed"):
        list(events.unpack(HEADER.pack(1, Kind.LOG, Stream.OUTPUT, number, 1.0) + b"x"))


def test_the_steps_of_a_job_are_in_the_order_of_their_numbers_and_nothing_mutates_before_the_plan() -> None:
    for steps in STEPS_OF.values():
        assert [step.number for step in steps] == sorted(step.number for step in steps)
        assert [step.phase for step in steps] == sorted((step.phase for step in steps), key=["plan", "apply"].index)
    assert {Step.APPLY, Step.DESTROY} == MUTATING
    assert all(step.phase == "apply" for step in MUTATING)
    assert [step for step in Step if not step.is_hookable] == [Step.FETCH, Step.INPUTS]
