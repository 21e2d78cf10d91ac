"""Parts of statements that several packages share: conditions, and names of what a row refers to by its id.

Partial indexes of the migrations have the same conditions: a database uses such an index only where a statement repeats its
condition literally.
"""

from collections.abc import Callable, Sequence
from typing import LiteralString, TypeVar

from terracrew.server.db.seam import Param, Tx

ACTIVE_STATUSES: LiteralString = "('CLAIMED', 'PROCESSING')"
"""The statuses of jobs that an attempt owns: `jobs.status IN {ACTIVE_STATUSES}`."""
ENDED_STATUSES: LiteralString = "('SUCCEEDED', 'FAILED', 'CANCELED', 'DECLINED')"
"""The statuses of jobs that do not change any more."""
IS_OPEN_JOB: LiteralString = f"jobs.status NOT IN {ENDED_STATUSES}"
"""The condition that a job has not ended."""


def only_destroys(jobs: LiteralString) -> LiteralString:
    """Return the condition that a job destroys everything, or plans to do so. `model.Job.only_destroys` is the same in Python."""
    return f"({jobs}.type = 'DESTROY' OR {jobs}.is_destroy_plan)"


def is_partial(jobs: LiteralString) -> LiteralString:
    """Return the condition that a job leaves something of its module as it is. `PlanOptions.is_partial` is the same in Python."""
    return f"({jobs}.is_refresh_only OR {jobs}.targets <> '[]')"


def is_destroyed_after(module_id: LiteralString, at: LiteralString) -> LiteralString:
    """Return the condition that everything in a module was destroyed after a time, or at it.

    A DESTROY may end at the moment at which its outputs are stored. The end of a job is rounded to microseconds, other times are not.
    A DESTROY with targets does not count. The flags of the module may choose some resources, too, so a state that Terracrew keeps
    decides, if its resources were counted.
    """
    return f"""(EXISTS (SELECT 1 FROM jobs AS destroyed WHERE destroyed.module_id = {module_id} AND destroyed.type = 'DESTROY'
        AND destroyed.status = 'SUCCEEDED' AND destroyed.type <> 'PLAN' AND destroyed.finished_at >= {at} - 0.000002
        AND NOT {is_partial("destroyed")})
    AND NOT EXISTS (SELECT 1 FROM states AS remaining JOIN modules AS keeper ON keeper.id = remaining.module_id
        WHERE remaining.module_id = {module_id} AND remaining.status = 'current' AND remaining.resources > 0
            AND keeper.backend = 'terracrew'))"""


def child_of(parents: LiteralString) -> LiteralString:
    """Return the condition that a group is directly below one of the groups of `parents`, for a recursion that descends the tree.

    The second comparison says nothing new. It makes PostgreSQL expect few groups: without it, PostgreSQL multiplies the average
    number of children at each of ten levels, and reads every module of the database instead of those of a few groups.
    """
    return f"groups.parent_id = {parents}.id AND groups.parent_id || '' = {parents}.id"


def runner_path(table: LiteralString) -> LiteralString:
    """Return an expression for the path of the runner that a row of `table` refers to, also if the runner is deleted."""
    return f"""coalesce((SELECT path FROM runners WHERE runners.id = {table}.runner_id),
        (SELECT name FROM removed WHERE removed.id = {table}.runner_id))"""


def instance_name(table: LiteralString) -> LiteralString:
    """Return an expression for the name of the instance that a row of `table` refers to, also if the instance is deleted."""
    return f"""coalesce((SELECT name FROM instances WHERE instances.id = {table}.instance_id),
        (SELECT name FROM removed WHERE removed.id = {table}.instance_id))"""


MAX_WORDS = 4
"""The number of words in a statement. Further words are part of the last one, so they must match in the same order."""
UNUSED = "%%"
"""The pattern that stands for a missing word and matches everything."""


def patterns(typed: str) -> dict[str, Param]:
    """Return `word_1` to `word_4`: patterns to compare with lower-case text. An unused one matches everything."""
    words = [_escaped(word) for word in typed[:1000].lower().split()]
    if len(words) > MAX_WORDS:
        words[MAX_WORDS - 1 :] = ["%".join(words[MAX_WORDS - 1 :])]
    words += [""] * (MAX_WORDS - len(words))
    return {f"word_{number}": f"%{word}%" for number, word in enumerate(words, start=1)}


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


async def delete_some(
    tx: Tx, table: LiteralString, condition: LiteralString, before: float, count: int, key: LiteralString = "id"
) -> int:
    """Delete up to `count` rows that meet a condition, which may name `:before` and end with an order. Returns how many."""
    return await tx.run(
        f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {condition} LIMIT :count)",
        before=before,
        count=count,
    )


T = TypeVar("T")
MAX_BATCH_BYTES = 1 << 20
"""How much content one statement reads or deletes. With SQLite, all other work waits for it."""


def leading(items: Sequence[T], bytes_of: Callable[[T], int]) -> list[T]:
    """Return the first items, up to `MAX_BATCH_BYTES` together, and at least one if there is one."""
    total = 0
    for count, item in enumerate(items):
        total += bytes_of(item)
        if count and total > MAX_BATCH_BYTES:
            return list(items[:count])
    return list(items)
