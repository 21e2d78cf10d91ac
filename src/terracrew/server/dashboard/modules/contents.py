"""The lower part of a module's page: dependencies, outputs, resources and versions of the state, and what was changed outside."""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

import msgspec

from terracrew.api.inputs import Dependency
from terracrew.api.jobs import Job, JobStatus
from terracrew.api.modules import Module
from terracrew.errors import TerracrewError, Undecryptable
from terracrew.plan_diff.document import DiffQuery
from terracrew.protocol.events import Output
from terracrew.protocol.spec import JobType
from terracrew.server.dashboard import badges, words
from terracrew.server.dashboard.badges import Badge
from terracrew.server.dashboard.context import DashboardCall, DashboardContext
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.jobs import reads as job_reads
from terracrew.server.jobs.plans import diff_store
from terracrew.server.jobs.plans.diff_store import StoredDiff
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import plan_diff
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import importing, reads, resources
from terracrew.server.state import service as states
from terracrew.server.state.resources import ResourcePage, ResourceRow
from terracrew.server.state.service import KeptState, outputs_context
from terracrew.server.tree.inputs import dependencies
from terracrew.server.tree.modules import reads as module_reads

MAX_VERSIONS = 10
MAX_DEPENDENCIES = 50
MAX_OUTPUTS = 100
MAX_VALUE_CHARACTERS = 2_000
MAX_DRIFTED = 5
"""How many of the resources that were changed outside are named."""
RESOURCE_ROWS = 20
"""How many resources the page shows at once."""
_outputs = msgspec.json.Decoder(dict[str, Output])


class ModuleOutputRow(msgspec.Struct, frozen=True):
    name: str
    text: str | None
    """None if the output is sensitive: its value is never sent to a page."""
    used_by: list[str] = []
    """The paths of modules that use it, as far as the reader may see them."""


class StateVersionRow(msgspec.Struct, frozen=True):
    id: str
    version: int
    serial: int
    status: str
    origin: str
    size: int
    created_at: datetime
    job_id: str
    started_by: str
    """Who queued the job that wrote it, or imported or restored it."""
    job_number: int | None = None
    """None if no job wrote it."""
    job_type: JobType | None = None
    resources: int | None = None
    is_in_doubt: bool | None = None

    @property
    def is_cut_short(self) -> bool:
        """Return whether an apply that did not end in order wrote it."""
        return bool(self.is_in_doubt) or self.origin == "errored"


class DependencyRow(msgspec.Struct, frozen=True):
    """A module at the other end of dependencies, with the outputs in question."""

    path: str | None
    module_id: str | None
    outputs: list[str]
    is_deleted: bool
    is_waited_for: bool
    is_outdated: bool
    references: list[Dependency]
    """The single outputs in question, each with who set the input that it is."""
    badge: Badge | None = None


class Drift(msgspec.Struct, frozen=True):
    """What the last plan of a module has found to be changed outside of its engine."""

    job: Job
    count: int
    addresses: list[str]


class ModuleContents(msgspec.Struct, frozen=True):
    module: Module
    search: str
    needs: list[DependencyRow]
    used_by: list[DependencyRow]
    has_more_dependents: bool
    outputs: list[ModuleOutputRow]
    """The first ones."""
    output_count: int
    outputs_problem: str
    may_read_state: bool
    may_change: bool
    may_bring_state: bool
    """Whether the reader may import a state or restore a version: Terracrew keeps the state, and it is one of OpenTofu or Terraform."""
    versions: list[StateVersionRow]
    key: str = ""
    """Changes whenever this part of the page has to be read again."""
    resources: ResourcePage | None = None
    drift: Drift | None = None

    @property
    def resource_groups(self) -> list[tuple[str, list[ResourceRow]]]:
        """Return the resources by the module that they are in, the root module first."""
        rows = self.resources.rows if self.resources else []
        return [(module, list(of)) for module, of in groupby(rows, key=lambda row: row.module)]


class _Stored(msgspec.Struct, frozen=True):
    """What the parts of the page are read from that are not in the database."""

    state: KeptState | None
    resource_count: int | None
    plan: tuple[Job, StoredDiff] | None


async def read(
    request: DashboardCall, module: Module, search: str = "", start: int = 0, known: str = ""
) -> ModuleContents | None:
    """Return this part of the page, or None if the reader has it already."""
    context, who = request.context, request.user
    found, stored = await request.read(_read, module, search, context.keys)
    planned = None if stored.plan is None else (stored.plan[0].id, stored.plan[1].sha256)
    shown = msgspec.json.encode((found, stored.resource_count, planned))
    key = hashlib.sha256(shown).hexdigest()[:16]
    if known == key:
        return None
    listed = None
    if stored.state is not None:
        listed = await resources.page(
            context.objects, context.keys, stored.state, stored.resource_count, search, start, RESOURCE_ROWS
        )
    drift = await _read_drift(context, who, stored.plan)
    return msgspec.structs.replace(found, key=key, resources=listed, drift=drift)


async def _read(tx: Tx, who: Principal, module: Module, search: str, keys: Keyring) -> tuple[ModuleContents, _Stored]:
    place = authorize.module(module.organization_id, module.path)
    may_read_state = await authorize.may(tx, who, Verb.STATE_READ, place)
    scope = (tx, who, module.id, place)
    needs = await dependencies.listing(*scope, "needs", None, MAX_DEPENDENCIES)
    used_by = await dependencies.listing(*scope, "used_by", None, MAX_DEPENDENCIES)
    outputs, problem = await _read_outputs(tx, keys, module.id, used_by.items)
    versions = await reads.written_versions(tx, module.id, MAX_VERSIONS) if may_read_state else []
    state = await states.kept(tx, module.id) if may_read_state else None
    contents = ModuleContents(
        module=module,
        search=search,
        needs=await _rows(tx, needs.items),
        used_by=await _rows(tx, used_by.items),
        has_more_dependents=used_by.next is not None,
        outputs=outputs[:MAX_OUTPUTS],
        output_count=len(outputs),
        outputs_problem=problem,
        may_read_state=may_read_state,
        may_change=await authorize.may(tx, who, Verb.TREE_WRITE, place),
        may_bring_state=importing.is_possible(module) and await authorize.may(tx, who, Verb.STATE_WRITE, place),
        versions=[row_to(StateVersionRow, row) for row in versions],
    )
    count = None if state is None else await states.resource_count(tx, state.state.id)
    return contents, _Stored(state, count, await _find_drift(tx, module.id))


async def _rows(tx: Tx, found: Sequence[Dependency]) -> list[DependencyRow]:
    """Return one row for each module, with the status of its newest job."""
    ids = sorted({each.module_id for each in found if each.module_id})
    newest = {row["id"]: row for row in await module_reads.with_newest_job(tx, ids)}
    of_path: dict[str | None, list[Dependency]] = {}
    for each in found:
        of_path.setdefault(each.path, []).append(each)
    rows: list[DependencyRow] = []
    for path, edges in of_path.items():
        job = newest.get(edges[0].module_id or "")
        status = None if job is None or job["job_status"] is None else JobStatus(job["job_status"])
        rows.append(
            DependencyRow(
                path=path,
                module_id=edges[0].module_id,
                outputs=sorted({each.output for each in edges}),
                is_deleted=edges[0].is_deleted,
                is_waited_for=any(each.is_waited_for for each in edges),
                is_outdated=any(each.is_outdated for each in edges),
                references=edges,
                badge=None if status is None else badges.job_badge(status, None),
            )
        )
    return sorted(rows, key=lambda row: row.path or "")


async def _read_outputs(
    tx: Tx, keys: Keyring, module_id: str, used_by: Sequence[Dependency]
) -> tuple[list[ModuleOutputRow], str]:
    """Return the outputs of the last job that read them, or why they cannot be shown."""
    row = await states.latest_outputs(tx, module_id)
    if row is None:
        return [], ""
    if row["object"] is not None:
        return [], "they are too large to be shown here: `terracrew module outputs` prints them"
    try:
        content = keys.decrypt(bytes(row["content"]), outputs_context(row["job_id"]))
    except Undecryptable as error:
        return [], f"{error.message}. {words.UNDECRYPTABLE}"
    users: dict[str, list[str]] = {}
    for each in used_by:
        if each.path and each.path not in users.setdefault(each.output, []):
            users[each.output].append(each.path)
    return [
        ModuleOutputRow(name, None if each.is_sensitive else _text(each.value), users.get(name, []))
        for name, each in sorted(_outputs.decode(content).items())
    ], ""


def _text(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_VALUE_CHARACTERS else text[:MAX_VALUE_CHARACTERS] + "…"


async def _find_drift(tx: Tx, module_id: str) -> tuple[Job, StoredDiff] | None:
    """Return the newest plan of a module, unless it was applied: that has undone or taken over what was changed outside."""
    job = await job_reads.newest_planned(tx, module_id)
    if job is None or (job.type != "PLAN" and job.status is JobStatus.SUCCEEDED):
        return None
    stored = await diff_store.get(tx, job.id)
    return None if stored is None else (job, stored)


async def _read_drift(context: DashboardContext, who: Principal, found: tuple[Job, StoredDiff] | None) -> Drift | None:
    """Read what a plan has found to be changed outside; None if that is nothing, or cannot be read."""
    if found is None:
        return None
    job, stored = found
    try:
        query = DiffQuery("drift", count=MAX_DRIFTED)
        page = await plan_diff.page(context.objects, context.keys, context.diffs, who, stored, query)
    except TerracrewError:  # the page of the job says why; this page can be shown without it
        return None
    if not page.head.drift:
        return None
    return Drift(job, page.head.drift, [each.address for each in page.resources])
