"""States over HTTP."""

from typing import Annotated

from litestar import Response, get, post
from litestar.params import FromPath, HeaderParameter, QueryParameter

from terracrew.api.pages import Page
from terracrew.api.states import Resources, State, StateDiff
from terracrew.errors import NotFound
from terracrew.plan_diff.document import DiffQuery
from terracrew.protocol.transfers import HEADER
from terracrew.server.api.context import TreeCall
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.http.request import tree_path
from terracrew.server.paging import After, Limit, cursor, page, start, start_number
from terracrew.server.principals.authorize import Verb
from terracrew.server.state import comparison, content, importing, quarantine, resources, store
from terracrew.server.state.store import StoredState
from terracrew.server.tree.modules import service as modules
from terracrew.server.uploads import service as uploads


@get("/modules/{module:str}/state", summary="Read a module's state", takes_basic=True)
async def current(request: TreeCall, module: FromPath[str]) -> Response[bytes]:
    """Return the current state of a module, as the engine wrote it."""

    async def work(tx: Tx) -> StoredState:
        found = await modules.find(tx, request.user, tree_path(module), Verb.STATE_READ)
        kept = await store.current(tx, found.id)
        if kept is None:
            raise NotFound(f"module `{found.path}` has no state yet")
        return await _note_reading(tx, request, kept)

    return await _answer(request, await request.context.db.write(work))


@get("/states/{version:str}", summary="Read a state")
async def show(request: TreeCall, version: FromPath[str]) -> Response[bytes]:
    """Return any version of a state, or a state in quarantine, as the engine wrote it."""

    async def work(tx: Tx) -> StoredState:
        return await _note_reading(tx, request, await quarantine.find(tx, request.user, version, Verb.STATE_READ))

    return await _answer(request, await request.context.db.write(work))


@get("/modules/{module:str}/states", summary="List a module's states")
async def versions(request: TreeCall, module: FromPath[str], after: After = None, limit: Limit = 50) -> Page[State]:
    """List all states of a module that have arrived, the newest first."""

    async def read(tx: Tx) -> list[State]:
        found = await modules.find(tx, request.user, tree_path(module), Verb.STATE_READ)
        return await store.versions(tx, found.id, start(after), limit + 1)

    return page(await request.context.db.read_in_background(read), limit)


@post("/modules/{module:str}/states", summary="Import a state", request_max_body_size=importing.MAX_IMPORTED_BYTES)
async def bring(
    request: TreeCall,
    module: FromPath[str],
    force: Annotated[
        bool, QueryParameter(description="Also if it does not continue the state that the module has")
    ] = False,
    change_backend: Annotated[
        bool, QueryParameter(description="Also let Terracrew keep the state of the module from now on")
    ] = False,
    staged: Annotated[str, HeaderParameter(name=HEADER)] = "",
) -> State:
    """Make a state that OpenTofu or Terraform wrote elsewhere the current state of a module, whose jobs may not be active.

    If the module has a state, the new one must have its lineage and a higher serial. One that is too large for a proxy on the way is
    staged before (`PUT /uploads`, target `state`) and named in the header X-Upload.
    """
    context, who = request.context, request.user
    body = await uploads.body(context.staging, request.stream(), who.id, staged, importing.TARGET)
    return await importing.bring(
        context.staging, who, tree_path(module), body, force=force, changes_backend=change_backend
    )


@get("/modules/{module:str}/resources", summary="List what a module manages")
async def managed(request: TreeCall, module: FromPath[str]) -> Resources:
    """Show how many resources a module's current state has, and the addresses of the first 20, which a DESTROY would destroy."""
    context = request.context
    found = await request.read(modules.find, tree_path(module), Verb.STATE_READ)
    is_kept_here = found.backend == "terracrew"
    return await resources.current(context.db, context.objects, context.keys, found.id, is_kept_here=is_kept_here)


@get("/states/{version:str}/diff", summary="Compare two states")
async def compare(
    request: TreeCall,
    version: FromPath[str],
    other: Annotated[
        str | None, QueryParameter(name="with", description="The id of the other state; by default the version before")
    ] = None,
    q: Annotated[str, QueryParameter(max_length=200, description="Only resources that contain this text")] = "",
    limit: Limit = 50,
    after: After = None,
) -> StateDiff:
    """Show which resources and outputs differ between two states of a module, by attribute. Sensitive values are hidden."""
    context = request.context
    query = DiffQuery(search=q, start=start_number(after), count=limit)
    found = await comparison.read(
        context.db, context.objects, context.keys, context.diffs, request.user, version, other, query
    )
    head, following = found.diff.head, found.diff.next
    return StateDiff(
        before=found.before,
        after=found.after,
        counts=head.counts,
        left_out=head.left_out,
        outputs=head.outputs,
        total=found.diff.total,
        items=found.diff.resources,
        next=None if following is None else cursor(str(following)),
    )


@post("/states/{version:str}/adopt", summary="Adopt a state", status_code=200)
async def adopt(request: TreeCall, version: FromPath[str]) -> State:
    """Make a state in quarantine the current one. It must be readable, and none of the module's jobs may be active."""
    return await request.write(quarantine.adopt, version)


@post("/states/{version:str}/discard", summary="Discard a state", status_code=200)
async def discard(request: TreeCall, version: FromPath[str]) -> State:
    """Discard a state in quarantine, so that it no longer blocks the module. It can still be read."""
    return await request.write(quarantine.discard, version)


@post("/states/{version:str}/restore", summary="Restore a version of a state")
async def restore(request: TreeCall, version: FromPath[str]) -> State:
    """Make the content of an older version the current state again, as a new version. None of the module's jobs may be active.

    Resources are not touched: the next plan shows what would become of them.
    """
    return await importing.restore(request.context.staging, request.user, version)


async def _note_reading(tx: Tx, request: TreeCall, kept: StoredState) -> StoredState:
    """Record in the audit log that a state was read, because it may contain passwords."""
    details = {"module": kept.state.module_id, "version": kept.state.version}
    await audit.record(tx, request.user, "state.read", "state", kept.state.id, details)
    return kept


async def _answer(request: TreeCall, kept: StoredState) -> Response[bytes]:
    context, state = request.context, kept.state
    plain = await content.read(context.objects, context.keys, kept.context, kept.sealed)
    headers = {"X-State-Id": state.id, "X-State-Status": state.status, "X-State-Version": str(state.version or "")}
    media_type = "application/octet-stream" if state.problem else "application/json"
    return Response(plain.content, media_type=media_type, headers=headers)
