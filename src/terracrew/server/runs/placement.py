"""What decides which runners may have the jobs of a module, and how many of its jobs may run: pins, tags and limits."""

import msgspec

from terracrew.server.db.seam import Row, Tx
from terracrew.server.runs import reads
from terracrew.server.tree.groups import level_reads


class RunningLimit(msgspec.Struct, frozen=True):
    """How many jobs of the modules in and below a group may run at once."""

    group: str
    """The path of the group; empty for the organization."""
    max_running_jobs: int


class Placement(msgspec.Struct, frozen=True):
    runner_path: str | None
    """The one runner that may have its jobs, also if it was removed; null means automatic selection."""
    runner_instance_name: str | None
    """The name of the one instance that may have its jobs."""
    tags: list[str]
    """A runner needs all of these tags to have its jobs."""
    limits: list[RunningLimit]
    """The limits of the groups that the module is in, the nearest first. All of them apply."""


async def of_module(tx: Tx, module_id: str) -> Placement:
    row = await reads.module_placement(tx, module_id)
    assert row is not None
    return await of_row(tx, row)


async def of_row(tx: Tx, row: Row) -> Placement:
    """Return the placement of a module whose columns were read already."""
    groups = await level_reads.lineage(tx, row["group_id"])
    return Placement(
        row["pinned_runner_path"],
        row["runner_instance_name"],
        msgspec.json.decode(row["tags"], type=list[str]),
        [RunningLimit(each.path, each.max_running_jobs) for each in groups if each.max_running_jobs is not None],
    )
