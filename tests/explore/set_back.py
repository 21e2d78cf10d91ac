"""The database is set back to an earlier moment: the server forgets, and everything else goes on."""

from collections.abc import Callable, Iterable, Iterator

from tests.explore.world import (
    HOLD,
    LATER,
    LOST_NUMBER,
    NO,
    NOW,
    OLD,
    ROW,
    UNKNOWN,
    Backup,
    Try,
    World,
    has_changed,
    is_unaccounted,
    name_of,
    without_disk,
)

_HOLD = Try(HOLD, 0, 0, begun=OLD, outcome="lost", is_gone=True, phase="X")
"""What stands for a hold, before it is open."""


def back_up(world: World) -> World:
    """Keep what the database has. Only the first moment is kept: a world is set back at most once."""
    return world._replace(backup=Backup(world.jobs, tuple(map(_kept, world.tries)), world.quarantine))


def _kept(it: Try) -> Try:
    """What the database has of an attempt, as if all of its processes and its disk were lost."""
    kept = it._replace(phase="X", link=False, mail=0, has_engine=False, eyed=0, known=0)
    return without_disk(kept)


def set_back(world: World) -> World:
    """The server starts again with the database of the backup. Nobody is connected, and no answer is under way."""
    backup = world.backup
    assert backup is not None
    left = {name_of(it): it for it in world.tries}
    tries = [_known_again(left.pop(name_of(kept), None), kept, backup) for kept in backup.tries]
    tries += (_forgotten(it, is_moved=backup.is_moved) for it in left.values())
    if backup.is_changed:
        tries.append(_HOLD._replace(has_unsaved=True))
    runners = tuple(runner._replace(link=False) for runner in world.runners)
    return World(backup.jobs, tuple(sorted(tries)), runners, backup.quarantine, hold="unnoticed")


def held(world: World, assume_begun: Callable[[Try], Try]) -> World:
    """A hold is open: the module is in doubt, and so is every attempt that the database does not have."""
    tries = tuple(
        it._replace(fenced=LATER, answered_by=0) if it.job == HOLD or it.outcome == UNKNOWN else assume_begun(it)
        for it in world.tries
    )
    if not any(it.job == HOLD for it in tries):
        tries = (*tries, _HOLD._replace(fenced=LATER))
    return world._replace(tries=tries, hold="open")


def number_given(tries: Iterable[Try], j: int, number: int) -> Iterator[Try]:
    """An attempt of this number is claimed. One that the database has lost can show its receipt no longer."""
    for it in tries:
        is_same = (it.job, it.number) == (j, number + LOST_NUMBER)
        yield it._replace(number=it.number + LOST_NUMBER) if is_same else it


def _known_again(it: Try | None, kept: Try, backup: Backup) -> Try:
    """An attempt of which the database has an earlier row; its processes and its disk are those of today."""
    if it is None:
        return kept
    if it.phase == "X" and not it.known and not it.has_engine:
        return kept._replace(has_unsaved=kept.has_unsaved or is_unaccounted(it))
    is_base = it.base == NOW if not backup.is_moved else (it.base, kept.base) == (OLD, NOW)
    base = it.base if it.base == NO else NOW if is_base else OLD
    return Try._make((*kept[ROW], *it[ROW.stop :]))._replace(
        base=base, link=False, mail=0, eyed=0, is_excused=kept.is_excused, answered_by=kept.answered_by
    )


def _forgotten(it: Try, *, is_moved: bool) -> Try:
    """An attempt that was claimed since. Its number may be given again."""
    row = Try(it.job, it.number + LOST_NUMBER, it.runner, outcome=UNKNOWN)[ROW]
    base = NOW if it.base == NOW and not is_moved else OLD
    # The plan that it has applied may be approved once more, by a person who knows that the database was set back.
    plan = it.plan + LOST_NUMBER if has_changed(it) else it.plan
    return Try._make((*row, *it[ROW.stop :]))._replace(
        base=base, plan=plan, link=False, mail=0, eyed=0, is_excused=False, answered_by=0
    )
