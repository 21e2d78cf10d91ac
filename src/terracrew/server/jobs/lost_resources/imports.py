"""Chooses what a new job imports: the resources that the attempts before it created and that no state records."""

from terracrew.api.jobs import Job
from terracrew.api.lost_resources import MAX_IMPORTS, ImportLost
from terracrew.api.modules import Module
from terracrew.engine_rules import import_blocks
from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.protocol.spec import ImportedResource
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import service
from terracrew.server.jobs.lost_resources import compare, gaps, search, store
from terracrew.server.jobs.lost_resources.model import StoredChange
from terracrew.server.jobs.lost_resources.store import CutLog
from terracrew.server.objects import Objects
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import instance_ids
from terracrew.server.state.instance_ids import InstanceIds

MAX_NAMED = 10
"""How many resources a refusal names."""
_OLDEST_TERRAFORM = (1, 5)
_NOT_FOR_PULUMI = (
    "import_lost: Pulumi has no import blocks, so Terracrew cannot import what was lost. Look whether each resource of `terracrew "
    "job lost-resources` exists. Give one that does the option `import: ID` in the program (or run `pulumi import`, if the module "
    "keeps its state in a backend of its own), and apply; what was changed or deleted, the next plan refreshes by itself"
)


class Imports:
    """Reads what the imports of a job are chosen from. The state may be in the object store, so this is not one transaction."""

    def __init__(self, db: Database, objects: Objects, keys: Keyring) -> None:
        self._db, self._objects, self.keys = db, objects, keys

    async def choose(self, who: Principal, module: Module, asked: ImportLost) -> list[ImportedResource]:
        """Return what the job imports. Raises an error if there is nothing to import."""
        if module.engine == "pulumi":
            raise Invalid(_NOT_FOR_PULUMI)
        if module.engine not in import_blocks.ENGINES:
            raise Invalid.in_field(
                "import_lost", f"{module.engine} has no import blocks, so it cannot import what was lost"
            )
        await search.search_now(self._db, self._objects, self.keys, module.id)
        changes, logs = await self._db.read(lambda tx: _changes(tx, who, module, asked.job))
        is_kept_here = module.backend == "terracrew"
        state = await instance_ids.current(self._db, self._objects, self.keys, module.id, is_kept_here=is_kept_here)
        found = chosen(changes, state, module.engine)
        if unknown := sorted(set(asked.leave_out) - found.keys()):
            raise Invalid.in_field(
                "leave_out", f"{unknown[0]} is not among the resources to import: {', '.join(sorted(found)) or 'none'}"
            )
        wanted = [each for address, each in found.items() if address not in asked.leave_out]
        if not wanted:
            where = f"job {asked.job}" if asked.job else f"the attempts that put {module.path} in doubt"
            if logs:
                raise Conflict(await self._unknown(where, logs, state, module.engine), module=module.path)
            raise Conflict(f"{where} left nothing to import: let the job plan without imports", module=module.path)
        if len(wanted) > MAX_IMPORTS:
            raise Invalid(f"{len(wanted):,} resources would be imported, and one job imports at most {MAX_IMPORTS:,}")
        return wanted

    async def _unknown(self, where: str, logs: list[CutLog], state: InstanceIds | None, engine: str) -> str:
        """Say that nothing can be imported, what is not known, and which resources a person has to look for."""
        planned = await self._db.read(lambda tx: gaps.unreported(tx, logs))
        found = [
            lost.address for each in planned if (lost := compare.lost(each, state, engine)) and lost.remedy == "look"
        ]
        named = ", ".join(found[:MAX_NAMED]) + (
            f" and {len(found) - MAX_NAMED:,} more" if len(found) > MAX_NAMED else ""
        )
        look = f". Look whether these exist, which its plan was to make: {named}" if found else ""
        return (
            f"the log of {where} names nothing that can be imported, but {gaps.explain([gaps.of_log(each) for each in logs])}{look}. "
            "Import what exists by import blocks in the source before you approve a plan that would create it again"
        )


def chosen(changes: list[StoredChange], state: InstanceIds | None, engine: str) -> dict[str, ImportedResource]:
    """Return by address what can be imported. If several attempts created a resource, the last one counts."""
    found: dict[str, ImportedResource] = {}
    for change in changes:
        lost = compare.lost(change, state, engine)
        if lost is not None and lost.remedy == "import":
            there = "" if state is None else state.current.get(lost.address, "")
            found[lost.address] = ImportedResource(lost.address, lost.id, there)
    return found


async def _changes(tx: Tx, who: Principal, module: Module, job: str) -> tuple[list[StoredChange], list[CutLog]]:
    if not job:
        logs = await store.cut_logs_in_doubt(tx, module.id)
        return await store.in_doubt(tx, module.id, search.MAX_CHANGES), logs
    found = await service.find(tx, who, job, Verb.JOB_READ)
    if found.module_id != module.id:
        raise NotFound(f"job {found.number} is not a job of {module.path}")
    _check_version(found, module.engine)
    return await store.of_job(tx, found.id, (0, 0), search.MAX_CHANGES), await store.cut_logs(tx, found.id)


def _check_version(job: Job, engine: str) -> None:
    """Refuse a version of Terraform that does not know import blocks, if the job that lost something ran with one."""
    parts = job.engine_version.split("-")[0].split(".")[:2]
    is_known = engine == "terraform" and len(parts) == 2 and all(part.isdigit() for part in parts)
    if is_known and tuple(map(int, parts)) < _OLDEST_TERRAFORM:
        raise Invalid(
            f"job {job.number} ran with Terraform {job.engine_version}, which has no import blocks: use 1.5 or later"
        )
