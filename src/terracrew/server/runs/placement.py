"""What decides which runners may have the jobs of a module, and how many of its jobs may run: pins, tags and limits."""

import msgspec

from terracrew.api.job_views import Placement, RunningLimit
from terracrew.server.db.seam import Row, Tx
from terracrew.server.runs import reads
from terracrew.server.tree.groups import reads as level_reads


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
