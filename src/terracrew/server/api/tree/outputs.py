"""Outputs over HTTP: those that a module has now, and those that any of its jobs has read."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated, TypeVar

import msgspec
from litestar import get
from litestar.params import FromPath, QueryParameter

from terracrew.api.states import JobOutputs, ModuleOutput, ModuleOutputs
from terracrew.server.api.context import TreeCall
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.http.request import tree_path
from terracrew.server.jobs import service as jobs
from terracrew.server.jobs.attempts import reads as attempt_reads
from terracrew.server.principals.authorize import Verb
from terracrew.server.state import content, reads
from terracrew.server.state import service as states
from terracrew.server.tree.modules import service as modules

Sensitive = Annotated[bool, QueryParameter(description="Sensitive values, too: takes `state.read`")]


_Found = TypeVar("_Found", bound=JobOutputs)


class _KeptOutput(msgspec.Struct, frozen=True):
    """An output as it is stored. Its value and type go out as they are, so they are not decoded."""

    value: msgspec.Raw
    type: msgspec.Raw = msgspec.Raw(b"null")
    is_sensitive: bool = False


_outputs = msgspec.json.Decoder(dict[str, _KeptOutput])


@get("/modules/{module:str}/outputs", summary="Read a module's outputs")
async def of_module(request: TreeCall, module: FromPath[str], sensitive: Sensitive = False) -> ModuleOutputs:
    """Show the outputs of the last job that read them; `outdated_since` tells that a later job has changed the module, or that a
    person has written or brought its state since."""

    async def work(tx: Tx) -> tuple[Row | None, Row | None, float | None]:
        verb = Verb.STATE_READ if sensitive else request.verb(Verb.TREE_READ)
        found = await modules.find(tx, request.user, tree_path(module), verb)
        if sensitive:
            await _note_reading(tx, request, found.id, found.organization_id)
        row = await states.latest_outputs(tx, found.id)
        read_at = row["created_at"] if row else 0.0
        later = await attempt_reads.change_without_outputs(tx, found.id, read_at)
        return row, later, await reads.brought_since(tx, found.id, read_at)

    row, later, brought_at = await (request.context.db.write(work) if sensitive else request.context.db.read(work))
    outputs = ModuleOutputs() if row is None else row_to(ModuleOutputs, row)
    if later is not None:
        since = datetime.fromtimestamp(later["begun_at"], UTC)
        outputs = msgspec.structs.replace(outputs, outdated_since=since, outdated_by=later["job_id"])
    elif brought_at is not None:
        outputs = msgspec.structs.replace(outputs, outdated_since=datetime.fromtimestamp(brought_at, UTC))
    return await _with_outputs(request, outputs, row, sensitive=sensitive)


@get("/jobs/{job:str}/outputs", summary="Read the outputs of a job")
async def of_job(request: TreeCall, job: FromPath[str], sensitive: Sensitive = False) -> JobOutputs:
    """Show the outputs that a job has read after its change, also if later jobs have changed them."""

    async def work(tx: Tx) -> tuple[str, Row | None]:
        verb = Verb.STATE_READ if sensitive else request.verb(Verb.JOB_READ)
        found = await jobs.find(tx, request.user, job, verb)
        if sensitive:
            await _note_reading(tx, request, found.module_id, found.organization_id)
        return found.id, await reads.outputs_of_job(tx, found.id)

    job_id, row = await (request.context.db.write(work) if sensitive else request.context.db.read(work))
    outputs = JobOutputs(job_id) if row is None else row_to(JobOutputs, row)
    return await _with_outputs(request, outputs, row, sensitive=sensitive)


async def _note_reading(tx: Tx, request: TreeCall, module_id: str, organization_id: str) -> None:
    await audit.record(tx, request.user, "outputs.read", "module", module_id, organization_id=organization_id)


async def _with_outputs(request: TreeCall, found: _Found, row: Row | None, *, sensitive: bool) -> _Found:
    if row is None:
        return found
    checksum = states.outputs_checksum(request.context.keys, row)
    shown = await _read(request, row, sensitive=sensitive)
    return msgspec.structs.replace(found, checksum=checksum, outputs=shown)


async def _read(request: TreeCall, row: Row, *, sensitive: bool) -> dict[str, ModuleOutput]:
    context = request.context
    if row["object"] is None:
        plain = context.keys.decrypt(row["content"], states.outputs_context(row["job_id"]))
    else:
        plain = (await content.read_object(context.objects, context.keys, row["module_id"], row["object"])).content
    return await asyncio.to_thread(_shown, plain, sensitive=sensitive)


def _shown(kept: bytes, *, sensitive: bool) -> dict[str, ModuleOutput]:
    return {
        name: ModuleOutput(each.value if sensitive or not each.is_sensitive else None, each.type, each.is_sensitive)
        for name, each in _outputs.decode(kept).items()
    }
