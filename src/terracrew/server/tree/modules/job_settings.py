"""What a module and the groups above it set for new jobs. One statement reads the groups of all modules that jobs are created for."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from terracrew.api.modules import Module
from terracrew.api.place_settings import Interrupted, PlaceChoice
from terracrew.protocol.cloud import CloudIdentities
from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.protocol.spec import JobLimits
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements import mapping
from terracrew.server.tree.groups.inheritance import effective, effective_value
from terracrew.server.tree.modules import reads

T = TypeVar("T")


class JobSettings(msgspec.Struct, frozen=True):
    interrupted: Interrupted
    """What follows an interrupted change: `ask` if the module or a group above it says so."""
    limits: JobLimits
    cloud: CloudIdentities
    dispatcher: DispatcherChoice


async def effective_settings(tx: Tx, modules: Sequence[Module]) -> dict[str, JobSettings]:
    """Return by module id what applies to its jobs, from the module itself and all groups above it."""
    above: dict[str, list[Row]] = {}
    for row in await reads.job_settings_of_groups(tx, sorted({module.id for module in modules})):
        above.setdefault(row["id"], []).insert(0, row)  # the nearest group comes last
    return {module.id: _settings(module, above.get(module.id, [])) for module in modules}


def _settings(module: Module, above: Sequence[Row]) -> JobSettings:
    dispatchers = [module.dispatcher, *_of_groups(above, "dispatcher", "The dispatcher", PlaceChoice)]
    return JobSettings(
        effective_value([module.interrupted, *(row["interrupted"] for row in above)], "interrupted"),
        effective(JobLimits, [module.limits, *_of_groups(above, "limits", "Limits", JobLimits)]),
        effective(CloudIdentities, [module.cloud, *_of_groups(above, "cloud", "Cloud logins", CloudIdentities)]),
        effective(DispatcherChoice, dispatchers),
    )


def _of_groups(above: Sequence[Row], column: str, title: str, kind: type[T]) -> list[T]:
    """Return what the groups that set something have in a column of JSON."""
    found: list[T] = []
    for row in above:
        if row[column] == "{}":
            continue
        try:
            found.append(msgspec.json.decode(row[column], type=kind))
        except msgspec.MsgspecError as error:
            raise mapping.damaged(title, f"of the group {row['group_id']}", error) from error
    return found
