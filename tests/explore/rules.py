"""The rules that must never break, each as a question about one move: a world, what happened, and the world after it."""

from collections.abc import Callable

from tests.explore.moves import Move
from tests.explore.world import (
    ACTIVE,
    ANSWER,
    HOLD,
    NEW,
    NO,
    NOW,
    TERMINAL,
    UNKNOWN,
    Try,
    World,
    has_voice,
    is_in_contact,
    is_spent,
    is_unaccounted,
    name_of,
)

CLAIMS = frozenset({"claim", "lose the grant"})
"""The moves that make a runner the owner of a job."""

Rule = Callable[[World, Move], bool]


def one_owner(before: World, move: Move) -> bool:
    """Rule 1: an attempt has at most one owner, and its number rises at every change of owner."""
    after = move.after
    owners = [(it.job, it.number) for it in after.tries if not it.outcome]
    active = [(j, job.attempt) for j, job in enumerate(after.jobs) if job.status in ACTIVE]
    if owners != active or len(active) > 1:
        return False
    if move.name in CLAIMS:
        its = (it for it in before.tries if it.job == move.what[0] and it.outcome != UNKNOWN)
        return all(it.number < move.what[1] for it in its)
    return True


def superseded_changes_nothing(before: World, move: Move) -> bool:
    """Rule 2: a superseded attempt changes nothing current: no status, no lock, no state (adoption aside)."""
    it = _of(before, move)
    if it is None or not it.outcome:
        return True
    jobs_as_before = [job._replace(plan=None) for job in before.jobs] == [
        job._replace(plan=None) for job in move.after.jobs
    ]
    owners = [_row(other) for other in before.tries if not other.outcome]
    owners_after = [_row(other) for other in move.after.tries if not other.outcome]
    return jobs_as_before and owners == owners_after and not (move.after.news and before.quarantine)


def nothing_lost(before: World, move: Move) -> bool:
    """Rule 3: a state that was emitted is stored: it is current, superseded by one that builds on it, or in quarantine.

    That of the attempt with the permit becomes current. The mark passes it only then, so that SUCCEEDED implies the state.
    """
    it, then = _of(before, move), _of(move.after, move)
    if it is None or then is None or it.mark >= it.states:
        return True
    if move.after.news + move.after.quarantine != before.quarantine + then.mark - it.mark:
        return False
    is_owners = not it.outcome and not it.is_behind
    return not (move.after.news and (it.is_passed or it.is_behind)) and (bool(move.after.news) or not is_owners)


def needs_a_permit_to_mutate(before: World, move: Move) -> bool:
    """Rule 4: a mutation starts only with a permit, for the current attempt, from the current state, with a plan that a person has
    approved where that is needed (and always after a plan of the job has waited), and which nobody else applies."""
    it = _of(before, move)
    if it is None:
        return True
    job = before.jobs[it.job]
    if it.outcome or it.begun == NO or it.base != NOW:
        return False
    if (job.needs_approval or job.has_waited) and job.seen != it.plan:
        return False
    others = [other for other in before.tries if other.job == it.job and other.number != it.number]
    return not any(other.plan == it.plan and (other.has_engine or other.states) for other in others)


def terminal_is_terminal(before: World, move: Move) -> bool:
    """Rule 5: what has ended stays as it ended, and holds nothing."""
    for j, (was, job) in enumerate(zip(before.jobs, move.after.jobs, strict=True)):
        if was.status in TERMINAL and job.status != was.status:
            return False
        if job.status in TERMINAL and any(it.job == j and not it.outcome for it in move.after.tries):
            return False
    return True


def lease_from_the_loss(before: World, move: Move) -> bool:
    """Rule 6, the lease: after `begin`, time alone fences an attempt only if it was declared lost, and not heard since."""
    it, then = _of(before, move), _of(move.after, move)
    if it is None or then is None or it.begun == NO:
        return True
    return not then.outcome or it.eyed == 1 or (it.eyed == 0 and it.lost == 1)


def no_permit_beside_a_quarantine(before: World, move: Move) -> bool:
    """Rule 4: nothing plans and nothing begins while the module has an undecided state in quarantine."""
    return not before.quarantine or (move.name == "begin" and not _has_begun(before, move))


def module_waits_for_a_person(before: World, move: Move) -> bool:
    """Rule 7: unless a fenced attempt is known to be gone, nothing on its module begins after it before a person has looked (at
    this plan, after the fence), nor while it is heard."""
    it = _of(before, move)
    if it is None or not _has_begun(before, move):
        return True
    plan = before.jobs[it.job].plan
    seen = plan.decided if plan and plan.attempt == it.plan else 0
    return all(
        seen > other.fenced and (other.is_gone or not is_in_contact(before, other))
        for other in before.tries
        if other.fenced
    )


def unknown_is_not_gone(before: World, move: Move) -> bool:
    """Rule 7: what ends after its `begin` and is not known to be gone leaves its module in doubt, and that ends only when it is
    known to be gone, or when something begins (after a person has looked)."""
    after = {(it.job, it.number): it for it in move.after.tries}
    for it in before.tries:
        then = after.get((it.job, it.number))
        if then is None or it.outcome == UNKNOWN:
            continue
        was_open = it.fenced > 0 or (it.begun != NO and not it.outcome)
        if was_open and then.outcome and not then.fenced and not then.is_gone and not _has_begun(before, move):
            return False
    return True


def gone_means_gone(_before: World, move: Move) -> bool:
    """Rule 7: what is known to be gone changes nothing any more."""
    return not any(it.is_gone and (it.has_engine or (it.phase == "R" and it.mail & ANSWER)) for it in move.after.tries)


def no_overlap(before: World, move: Move) -> bool:
    """Rule 7: while an attempt changes things, another starts to only if a person has looked after the first was fenced."""
    it = _of(before, move)
    if it is None:
        return True
    others = [other for other in before.tries if other.has_engine and (other.job, other.number) != (it.job, it.number)]
    if before.hold:
        return all(other.is_excused for other in others)
    return all(other.outcome == "lost" and not other.fenced for other in others)


def made_once(before: World, move: Move) -> bool:
    """Rule 9: an engine starts to make things only if everything that earlier attempts made is in a state that the server has, or
    if a person has approved a plan since (or it does no harm to make a thing twice, and the earlier attempt has terminated and
    delivered everything)."""
    return bool(before.hold) or _is_everything_accounted(before, move)


def made_once_after_a_set_back(before: World, move: Move) -> bool:
    """Rule 10: after the database was set back, an engine starts to make things only if everything that was made is in a state that
    the server has now, or if a person who knew of that has approved a plan since."""
    return not before.hold or _is_everything_accounted(before, move)


def nothing_while_held(before: World, move: Move) -> bool:
    """Rule 10: once the server knows that its database was set back, nothing is handed out and nothing begins before a person has
    released it."""
    return before.hold != "open" or (move.name == "begin" and not _has_begun(before, move))


def _is_everything_accounted(before: World, move: Move) -> bool:
    return not any(
        is_unaccounted(it) and not it.is_excused for it in before.tries if (it.job, it.number) != move.what[:2]
    )


def doubts_come_back(before: World, move: Move) -> bool:
    """Rule 9: if a change ends in doubt, the doubts that its approval named come back, except those of attempts that are known to
    have ended their changes: the next approver has to know of all of them."""
    after = {name_of(it): it for it in move.after.tries}
    for it in before.tries:
        then, answer = after.get(name_of(it)), after.get(it.answered_by)
        if then is None:
            continue  # it was taken again by its receipt
        if answer is not None and answer.outcome and answer.fenced and not then.fenced and not it.is_change_ended:
            return False
    return True


def approval_of_what_was_seen(before: World, move: Move) -> bool:
    """Rule 9: an approval is for a plan that was made from the current state, by a person who has seen every doubt."""
    plan = before.jobs[move.what[0]].plan
    return plan is not None and plan.version == NOW and move.name != "approve blindly"


def claimed_in_order(before: World, move: Move) -> bool:
    """Rule 11: a job is claimed only if no job of its module that was created before it waits in the queue."""
    return all(job.status != "QUEUED" for job in before.jobs[: move.what[0]])


def applied_in_order(before: World, move: Move) -> bool:
    """Rule 11: after a later job has changed something, an earlier one does so only with a plan that a person has approved."""
    it = _of(before, move)
    if it is None or not _has_begun(before, move) or before.jobs[it.job].seen == it.plan:
        return True
    is_later_applied = any(job.status == "SUCCEEDED" for job in before.jobs[it.job + 1 :])
    return not is_later_applied and not any(other.begun != NO for other in before.tries if other.job > it.job)


def nothing_after_a_result(before: World, move: Move) -> bool:
    """Rule 2: a result is the last event of an attempt, and what comes after it changes nothing."""
    return not move.after.news and move.after.quarantine == before.quarantine


def lineage_is_kept(before: World, move: Move) -> bool:
    """Rule 3: a state with another lineage is quarantined, and never becomes the current one by itself."""
    return not move.after.news and move.after.quarantine == before.quarantine + 1


def canceled_by_a_person(before: World, move: Move) -> bool:
    """Rule 6: a job ends CANCELED only if a person has canceled it; otherwise its attempt was lost, and the job goes on."""
    return move.name == "cancel" or all(
        job.status != "CANCELED" or was.is_canceled or was.status == "CANCELED"
        for was, job in zip(before.jobs, move.after.jobs, strict=True)
    )


def least_privilege(before: World, move: Move) -> bool:
    """Rule 8: only a runner that has its record gets work, and nobody's word is about another's attempt (but a doubt comes back if
    the change that was approved with it is cut short)."""
    if move.name in CLAIMS:
        return not before.runners[move.what[2]].is_removed
    others = [(it, _row(it)) for it in _others(before, move)]
    after = [_row(it) for it in _others(move.after, move)]
    return all(
        row == then or (it.answered_by > 0 and _row(it._replace(fenced=1)) == then)
        for (it, row), then in zip(others, after, strict=True)
    )


_BY_WORD = frozenset({"hand back", "gone", "gone too early", "executor connects"})
_DELIVERED = frozenset({"deliver", "deliver foreign", "deliver one more"})
_APPROVED = frozenset({"approve", "approve blindly"})
_AFTER: dict[Rule, frozenset[str]] = {
    superseded_changes_nothing: _BY_WORD | _DELIVERED | {"begin"},
    nothing_lost: frozenset({"deliver"}),
    needs_a_permit_to_mutate: frozenset({"answer"}),
    lease_from_the_loss: frozenset({"lost", "lease"}),
    no_permit_beside_a_quarantine: frozenset({"begin"}) | CLAIMS,
    module_waits_for_a_person: frozenset({"begin"}),
    no_overlap: frozenset({"answer"}),
    made_once: frozenset({"answer"}),
    made_once_after_a_set_back: frozenset({"answer"}),
    nothing_while_held: frozenset({"begin"}) | CLAIMS,
    approval_of_what_was_seen: _APPROVED,
    claimed_in_order: CLAIMS,
    applied_in_order: frozenset({"begin"}),
    nothing_after_a_result: frozenset({"deliver one more"}),
    lineage_is_kept: frozenset({"deliver foreign"}),
    least_privilege: _BY_WORD | CLAIMS,
}
"""Which moves each is about."""
_SAVED = frozenset[str]().union(*_AFTER.values()) | {
    "connect",
    "create",
    "found",
    "give up",
    "replan",
    "decline",
    "cancel",
    "adopt",
    "discard",
    "show the receipt",
    "release",
}
_ALWAYS: tuple[Rule, ...] = (
    one_owner,
    terminal_is_terminal,
    canceled_by_a_person,
    unknown_is_not_gone,
    gone_means_gone,
    doubts_come_back,
)


def about(name: str) -> tuple[Rule, ...]:
    """The rules that a move of this name could break. Where the server saves nothing, only processes move."""
    return (*(_ALWAYS if name in _SAVED else ()), *(rule for rule, names in _AFTER.items() if name in names))


def is_settled(world: World, *, attempts_left: bool) -> bool:
    """Rule 6, no stuck job: from everywhere, by steps and by people's mending acts alone, a world like this can be reached.

    Every job has ended (or has used up the attempts that the explorer looks at), and all that was written is delivered (rule 3).
    """
    for job in world.jobs:
        if job.status not in TERMINAL and (attempts_left or job.status not in (NEW, "QUEUED")):
            return False
    return all(is_spent(it) or not has_voice(world, it) for it in world.tries)


def _of(world: World, move: Move) -> Try | None:
    return next((it for it in world.tries if (it.job, it.number) == move.what[:2]), None)


def _others(world: World, move: Move) -> list[Try]:
    """The other attempts that the database has."""
    return [
        it for it in world.tries if (it.job, it.number) != move.what[:2] and it.job != HOLD and it.outcome != UNKNOWN
    ]


def _has_begun(before: World, move: Move) -> bool:
    it, then = _of(before, move), _of(move.after, move)
    return it is not None and then is not None and it.begun == NO and then.begun != NO


def _row(it: Try) -> tuple[object, ...]:
    return it.job, it.number, it.begun != NO, it.outcome, it.is_gone, it.fenced > 0, it.mark
