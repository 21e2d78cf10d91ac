"""Takeover of a connected instance: the old connection is asked whether it is alive, and keeps its place if it answers.

The question is in the database, because any server may have the old connection; wake-ups only make it fast.
"""

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from terracrew.errors import Conflict, Unavailable
from terracrew.protocol.messages import RunnerHello
from terracrew.server.connections import reads
from terracrew.server.connections import store as instance_store
from terracrew.server.connections.reads import ServedRunner
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.db.seam import Database, Row, Tx
from terracrew.server.secrets import credentials

ANSWER_TIMEOUT_SECONDS = 5.0
POLL_SECONDS = 0.5
MAX_QUESTIONS = 10
"""The most connections that a new process may ask. A runner for one process has more only if it allowed several before."""


NO_DIGEST = "-"
"""Used in place of the digest of a secret that was not given; no digest is equal to it."""


class Question(msgspec.Struct, frozen=True):
    """A question to one connection. It is answered once the row no longer has this `asked_at`."""

    instance_id: str
    epoch: int
    asked_at: float


def resume_digest(hello: RunnerHello) -> str:
    return credentials.digest(hello.resume) if hello.resume else NO_DIGEST


async def questions_for(
    tx: Tx, owner: ServedRunner, hello: RunnerHello, asked: Sequence[Question] | None, gap_ended_at: float
) -> list[Question]:
    """Return the questions to ask before the new process may connect. On the second call, `asked` is what was asked.

    Only the process of the last connection knows the secret of its welcome, and is accepted at once. The key of the
    working directory is on a disk, so a process that has it is accepted only if the old connection does not answer.
    The kernel closes the connection of a process that has ended, so a new process waits only after a crash of the
    whole machine.
    """
    key = credentials.digest(hello.instance_key)
    questions: list[Question] = []
    for row in await _in_the_way(tx, owner, hello, key):
        question = await _ask(tx, row)
        is_own = row["key_sha256"] == key
        if asked is None:
            questions.append(question)
        elif question not in asked:
            raise _still_there(owner, row) if is_own else _refusal(owner, row)
        elif row["connected_at"] < gap_ended_at and not is_own:
            raise Unavailable(
                f"{row['name']} of {owner.path} may be reconnecting, because this server was away; try again"
            )
        else:
            await _displace(tx, owner, row, question)
    return questions


async def _in_the_way(tx: Tx, owner: ServedRunner, hello: RunnerHello, key: str) -> list[Row]:
    """Return the connected instances beside which this one cannot connect; too many of them refuse it at once."""
    rows = await reads.excluding(tx, owner, hello.instance, key, resume_digest(hello), MAX_QUESTIONS + 1)
    if len(rows) > MAX_QUESTIONS:
        raise _refusal(owner, rows[0])
    return rows


async def _ask(tx: Tx, row: Row) -> Question:
    return Question(row["id"], row["epoch"], await instance_store.ask(tx, row["id"], row["epoch"]))


async def _displace(tx: Tx, owner: ServedRunner, row: Row, question: Question) -> None:
    if not await instance_store.disconnect_unanswered(tx, owner.id, row["id"], row["epoch"], question.asked_at):
        raise _refusal(owner, row)


def _still_there(owner: ServedRunner, row: Row) -> Unavailable:
    """Return an error that is not final: the old connection's answer may have been sent before its process ended."""
    return Unavailable(
        f"another connection of {row['name']} of {owner.path} has the same key and answers; try again when it has ended"
    )


def _refusal(owner: ServedRunner, row: Row) -> Conflict:
    if owner.allow_multiple_instances:
        return Conflict(
            f"an instance named {row['name']} of {owner.path} is already connected; give this one another name"
        )
    return Conflict(
        f"{owner.path} allows one process, and {row['name']} is connected; allow several instances, or stop that one"
    )


async def wait(db: Database, questions: Sequence[Question]) -> None:
    """Wait until one connection has answered, all have gone, or the time is up."""
    clock = asyncio.get_running_loop().time
    end = clock() + ANSWER_TIMEOUT_SECONDS
    with db.listen("answered") as wakeups:
        while (left := end - clock()) > 0 and await db.read(lambda tx: _are_open(tx, questions)):
            await wakeups.get(timeout=min(left, POLL_SECONDS))


async def _are_open(tx: Tx, questions: Iterable[Question]) -> bool:
    rows = await reads.questions(tx, [(each.instance_id, each.epoch, each.asked_at) for each in questions])
    there = [row for row in rows if row["is_there"]]
    return bool(there) and all(row["still"] == row["asked_at"] for row in there)


async def answer(db: Database, session: RunnerSession) -> None:
    """Record that the connection that was asked has sent something."""
    await db.write(lambda tx: instance_store.answer(tx, session.instance_id, session.epoch))
