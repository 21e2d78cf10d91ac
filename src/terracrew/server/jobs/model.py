"""The turn of a queued job among the jobs of its module."""

from typing import Protocol


class HasTurn(Protocol):
    """A queued job, as far as its turn among the jobs of its module is concerned."""

    @property
    def priority(self) -> int: ...
    @property
    def number(self) -> int: ...


def turn_in_module(job: HasTurn) -> tuple[int, int]:
    """Return the sort key of the queued jobs of one module: a higher priority comes first, then the job that was created first.

    It does not depend on when a job was queued: a job that is queued again keeps its turn, so that an older configuration is not
    applied after a newer one. `queue_reads.first_of_module` is the same in SQL.
    """
    return -job.priority, job.number
