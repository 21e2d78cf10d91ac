"""The bookkeeping of slots, claims and offers, held to its one rule by any order of events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.protocol.messages import AttemptRef, Claim, StandingClaims
from terracrew.runner.attempts.claims import ANSWER_SECONDS, OFFER_SECONDS, Claims

JOBS = [AttemptRef(f"job_{number}", 1) for number in range(6)]


def test_an_offer_that_came_too_early_is_claimed_when_a_slot_is_free() -> None:
    claims = Claims(1)
    claims.adopted(JOBS[0])
    claims.offered(JOBS[1], now=0)
    assert claims.next(now=0) is None
    claims.freed(JOBS[0])
    assert claims.next(now=OFFER_SECONDS - 1) == Claim("job_1", 1)


def test_an_offer_that_is_too_old_is_not_claimed() -> None:
    claims = Claims(1)
    claims.offered(JOBS[0], now=0)
    assert claims.next(now=OFFER_SECONDS) is None


def test_a_claim_that_nobody_answers_gives_its_slot_back() -> None:
    claims = Claims(1)
    claims.offered(JOBS[0], now=0)
    assert claims.next(now=0)
    claims.offered(JOBS[1], now=ANSWER_SECONDS - 1)
    assert claims.next(now=ANSWER_SECONDS - 1) is None
    assert claims.next(now=ANSWER_SECONDS) == Claim("job_1", 1)


@pytest.mark.feature("O1.nothing-new")
def test_a_lost_connection_takes_its_offers_and_claims_with_it() -> None:
    claims = Claims(1)
    claims.offered(JOBS[0], now=0)
    assert claims.next(now=0)
    claims.offered(JOBS[1], now=0)
    claims.disconnected()
    assert claims.next(now=0) is None
    assert claims.free(now=0) == 1


def test_an_offer_that_was_kept_during_a_drain_is_not_claimed_after_its_grant() -> None:
    claims = Claims(2)
    claims.is_open = False
    claims.offered(JOBS[0], now=0)
    assert claims.granted(JOBS[0], now=0)
    claims.is_open = True
    assert claims.next(now=0) is None


@given(
    st.integers(1, 3),
    st.lists(
        st.tuples(st.sampled_from(["offer", "grant", "miss", "free", "lost", "wait", "drain"]), st.sampled_from(JOBS)),
        max_size=60,
    ),
)
def test_no_order_of_events_takes_more_than_the_capacity(capacity: int, events: list[tuple[str, AttemptRef]]) -> None:
    claims, now = Claims(capacity), 0.0
    running: set[AttemptRef] = set()
    for what, ref in events:
        match what:
            case "offer":
                claims.offered(ref, now)
            case "grant":
                if ref not in running and claims.granted(ref, now):
                    running.add(ref)
            case "miss":
                claims.missed(ref)
            case "free":
                claims.freed(ref)
                running.discard(ref)
            case "lost":
                claims.disconnected()
            case "drain":
                claims.is_open = not claims.is_open
            case _:
                now += 4
        before = claims.pending
        while (claim := claims.next(now)) is not None:
            assert claims.is_open
            assert AttemptRef(claim.job_id, claim.attempt) not in running
        assert claims.is_open or claims.pending <= before
        assert len(running) + claims.pending <= capacity


def standing(capacity: int) -> Claims:
    claims = Claims(capacity)
    claims.is_ahead = True
    return claims


def test_standing_claims_are_sent_for_the_free_slots_and_only_to_a_server_that_reads_them() -> None:
    claims = Claims(2)
    assert claims.stand(now=0) is None
    claims.is_ahead = True
    assert claims.stand(now=0) == StandingClaims(2, 0)
    assert claims.stand(now=0) is None, "the server knows it"
    assert claims.granted(JOBS[0], now=0, is_ahead=True)
    assert claims.stand(now=0) is None, "the server has used one of them itself"
    claims.freed(JOBS[0])
    assert claims.stand(now=0) == StandingClaims(2, 1)
    claims.disconnected()
    assert claims.stand(now=0) is None


def test_standing_claims_are_withdrawn_at_once_and_made_again_by_halves() -> None:
    claims = standing(8)
    assert claims.stand(now=0) == StandingClaims(8, 0)
    for ref in JOBS[:5]:
        assert claims.granted(ref, now=0, is_ahead=True)
    for ref in JOBS[:2]:
        claims.freed(ref)
    assert claims.stand(now=0) is None, "the server knows of 3 of the 5 free slots"
    claims.freed(JOBS[2])
    assert claims.stand(now=0) == StandingClaims(6, 5)
    claims.adopted(JOBS[5])
    assert claims.stand(now=0) == StandingClaims(5, 5), "a slot was taken that the server does not know of"
    claims.is_open = False
    assert claims.stand(now=0) == StandingClaims(0, 5)
    assert not claims.granted(JOBS[0], now=0, is_ahead=True), "the server used it before it was withdrawn"


@given(
    st.lists(
        st.tuples(st.sampled_from(["grant", "offer", "free", "drain", "announce"]), st.integers(0, 5)), max_size=60
    )
)
def test_a_server_that_counts_like_the_runner_never_grants_more_than_is_free(steps: list[tuple[str, int]]) -> None:
    """Messages of both directions are delivered at once here. `StandingClaims.received` is about those that cross."""
    claims, known = standing(3), 0
    for what, which in steps:
        ref = JOBS[which]
        match what:
            case "grant" if known and ref not in claims._running:  # pyright: ignore[reportPrivateUsage]
                known -= 1
                assert claims.granted(ref, now=0, is_ahead=True), "a grant that answers a standing claim finds a slot"
            case "offer":
                claims.offered(ref, now=0)
            case "free":
                claims.freed(ref)
            case "drain":
                claims.is_open = which > 1
            case _:
                pass
        while (claim := claims.next(now=0)) is not None:
            known = max(0, known - 1)
            claims.granted(AttemptRef(claim.job_id, claim.attempt), now=0)
        if (announced := claims.stand(now=0)) is not None:
            known = announced.slots
        assert known <= claims.free(now=0)
