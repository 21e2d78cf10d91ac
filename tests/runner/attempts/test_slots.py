"""The bookkeeping of slots and credits, held to its one rule by any order of events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.protocol.messages import AttemptRef, Credits
from terracrew.runner.attempts.slots import Slots

JOBS = [AttemptRef(f"job_{number}", 1) for number in range(6)]


def granted(slots: Slots, ref: AttemptRef) -> bool:
    slots.use_credit()
    return slots.take(ref)


def test_credits_are_sent_for_the_free_slots() -> None:
    slots = Slots(3)
    slots.adopted(JOBS[0])
    assert slots.credits_to_send() == Credits(2, 0)
    assert slots.credits_to_send() is None
    assert granted(slots, JOBS[1])
    assert slots.credits_to_send() is None, "both ends count the grant"
    slots.freed(JOBS[0])
    assert slots.credits_to_send() == Credits(2, 1)


def test_credits_are_withdrawn_at_once_and_sent_again_by_halves() -> None:
    slots = Slots(8)
    assert slots.credits_to_send() == Credits(8, 0)
    for ref in JOBS[:5]:
        assert granted(slots, ref)
    slots.freed(JOBS[0])
    slots.freed(JOBS[1])
    assert slots.credits_to_send() is None, "the server knows of three, and five are free"
    slots.freed(JOBS[2])
    assert slots.credits_to_send() == Credits(6, 5)
    slots.adopted(JOBS[0])
    assert slots.credits_to_send() == Credits(5, 5), "a slot was taken that the server does not know of"
    slots.is_open = False
    assert slots.credits_to_send() == Credits(0, 5)
    assert not granted(slots, JOBS[0]), "the server used it before it was withdrawn"


@pytest.mark.feature("O1.nothing-new")
def test_a_lost_connection_takes_its_credits_with_it() -> None:
    slots = Slots(2)
    assert slots.credits_to_send() == Credits(2, 0)
    assert granted(slots, JOBS[0])
    slots.disconnected()
    assert slots.credits_to_send() == Credits(1, 0)


def test_a_runner_for_one_job_has_one_credit_and_takes_its_job_even_if_it_stops_meanwhile() -> None:
    slots = Slots(9, is_for_one_job=True)
    assert slots.credits_to_send() == Credits(1, 0)
    slots.is_open = False
    assert granted(slots, JOBS[0]), "the claim may have used up its credential"
    slots.freed(JOBS[0])
    slots.is_open = True
    assert (slots.credits_to_send(), slots.is_used_up) == (None, True)
    assert not granted(slots, JOBS[1])


@given(st.lists(st.tuples(st.sampled_from(["grant", "free", "drain", "lost", "send"]), st.integers(0, 5)), max_size=60))
def test_in_any_order_a_grant_that_uses_a_credit_finds_a_slot(steps: list[tuple[str, int]]) -> None:
    """Messages of both directions are delivered at once here. `Credits.received` is about those that cross."""
    slots, known = Slots(3), 0
    running: set[AttemptRef] = set()
    for step, number in steps:
        ref = JOBS[number]
        match step:
            case "grant" if known > 0 and ref not in running:
                known -= 1
                assert granted(slots, ref)
                running.add(ref)
            case "free" if ref in running:
                running.discard(ref)
                slots.freed(ref)
            case "drain":
                slots.is_open = not slots.is_open
            case "lost":
                slots.disconnected()
                known = 0
            case _:
                pass
        if (said := slots.credits_to_send()) is not None:
            known = said.slots
        assert len(running) + known <= 3
        assert known == 0 or slots.is_open
        assert known * 2 >= 3 - len(running) or not slots.is_open, "a free slot does not stay without a credit for long"
