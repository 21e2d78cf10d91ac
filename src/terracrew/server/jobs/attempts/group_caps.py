"""The places that capped groups have for further running jobs, while a transaction claims several jobs."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from terracrew.server.db.seam import Tx
from terracrew.server.jobs import queue_reads
from terracrew.server.jobs.attempts import claim_store
from terracrew.server.jobs.attempts.claim_store import ClaimRequest

Group: TypeAlias = tuple[str, str]
"""A group by its organization and its path."""


class PlacesInGroups:
    """The capped groups above the jobs of a transaction, and how many more jobs may start in each of them."""

    def __init__(self, groups_of: dict[str, list[Group]], free: dict[Group, int]) -> None:
        self._groups_of = groups_of
        self._free = free

    @classmethod
    async def lock(cls, tx: Tx, items: Sequence[ClaimRequest]) -> "PlacesInGroups":
        """Lock the groups until the transaction ends, so that no other server starts a job there, and count their free places."""
        groups_of: dict[str, list[Group]] = {}
        limits: dict[Group, int] = {}
        for row in await claim_store.lock_capped_groups(tx, sorted({item.claimant.job_id for item in items})):
            group = row["organization_id"], row["path"]
            groups_of.setdefault(row["job_id"], []).append(group)
            limits[group] = row["max_running_jobs"]
        running = await queue_reads.running_jobs(tx, limits)
        return cls(groups_of, {group: limit - running[group] for group, limit in limits.items()})

    def turn(self, items: Sequence[ClaimRequest]) -> tuple[list[ClaimRequest], list[ClaimRequest]]:
        """Split items so that no two of the first part compete for a job, an instance's slots, or the last places in a group.

        Items below a group without a free place are in neither part, so they are refused. The statement must not decide about
        them: it counts again, and if a job has ended since, each of them would find the same free place.
        """
        taken: set[str] = set()
        used: dict[Group, int] = {}
        turn: list[ClaimRequest] = []
        later: list[ClaimRequest] = []
        for item in items:
            wanted = {item.claimant.job_id, item.claimant.instance_id}
            groups = self._groups_of.get(item.claimant.job_id, [])
            if any(self._free[group] <= 0 for group in groups):
                continue
            is_short = any(self._free[group] <= used.get(group, 0) for group in groups)
            if is_short or wanted & taken:
                later.append(item)
            else:
                turn.append(item)
                used |= {group: used.get(group, 0) + 1 for group in groups}
            taken |= wanted
        return turn, later

    def take(self, job_ids: Iterable[str]) -> None:
        """Note that these jobs have started."""
        for job_id in job_ids:
            for group in self._groups_of.get(job_id, []):
                self._free[group] -= 1
