"""Brings a state that no job wrote: one of an existing configuration, or an older version of the module's own."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from terracrew import ids
from terracrew.api.modules import Module, ModuleChange
from terracrew.api.states import State
from terracrew.errors import Conflict, Invalid, Locked
from terracrew.protocol.events import MAX_STATE_BYTES, Count, Line, StateFact
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.state import content, quarantine, reads, resources, store
from terracrew.server.state.model import Received
from terracrew.server.tree.modules import lock_store
from terracrew.server.tree.modules import service as modules
from terracrew.server.tree.modules import store as module_store
from terracrew.server.uploads import service as uploads
from terracrew.server.uploads.service import Body, Staging

TARGET = "state"
"""What an upload in parts is for."""
MAX_IMPORTED_BYTES = MAX_STATE_BYTES
_ENGINES = ("tofu", "terraform")
_FORMAT_VERSION = 4
Origin = Literal["imported", "restored"]
Check = Callable[[State | None], None]
"""Raises an error if a state must not replace the current one."""


class _ImportedDocument(msgspec.Struct):
    """What every state of OpenTofu and Terraform has, also one that OpenTofu has encrypted."""

    serial: Count
    lineage: Annotated[Line, msgspec.Meta(min_length=1)]
    version: int = _FORMAT_VERSION


_document = msgspec.json.Decoder(_ImportedDocument)


class ReadState(NamedTuple):
    """A state that was read, and is not stored yet."""

    plain: bytes
    serial: int
    lineage: str
    resources: int | None

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.plain).hexdigest()


class _Act(NamedTuple):
    """Why a state is stored, and on which condition."""

    origin: Origin
    check: Check
    noted: dict[str, Any]
    """What the audit log says about it besides."""
    first: Callable[[Tx], Awaitable[object]] | None = None
    """What has to be done before, in the same transaction."""


async def receive(body: Body) -> ReadState:
    """Read a state that is sent. Raises Invalid if it is not one of OpenTofu or Terraform."""
    pieces = [piece async for piece in body.pieces()]
    return await asyncio.to_thread(read, b"".join(pieces))


def read(plain: bytes) -> ReadState:
    """Read a state. Raises Invalid if it is not one of OpenTofu or Terraform."""
    try:
        found = _document.decode(plain)
    except (ValueError, RecursionError) as error:
        raise Invalid(
            f"this is not a state of OpenTofu or Terraform: {error}. `tofu state pull` or `terraform state pull` prints one"
        ) from None
    if found.version != _FORMAT_VERSION:
        raise Invalid(
            f"the state has format {found.version}, and engines of today read format {_FORMAT_VERSION}: "
            "`tofu state pull` or `terraform state pull` prints it in that format"
        )
    try:
        count = len(resources.addresses(plain))
    except (msgspec.MsgspecError, RecursionError):  # its engine has encrypted it
        count = None
    return ReadState(plain, found.serial, found.lineage, count)


async def bring(
    staging: Staging, who: Principal, reference: str, body: Body, *, force: bool, changes_backend: bool
) -> State:
    """Make the state of a body the current one of a module. None of the module's jobs may be active.

    Without `force`, it must continue the state that the module has: the same lineage, and a higher serial. With
    `changes_backend`, Terracrew keeps the state of the module from now on, so that no job finds this backend without the state.
    """

    async def change(tx: Tx) -> None:
        await modules.change(tx, who, module.id, ModuleChange(backend="terracrew"), (), staging.keys)

    # before a large body is received
    module = await staging.db.read(lambda tx: find(tx, who, reference, changes_backend=changes_backend))
    given = await receive(body)

    def check(now: State | None) -> None:
        if now is not None and not force:
            check_successor(module.path, now, given)

    made = await _store(
        staging, who, module, given, _Act("imported", check, {"force": force}, change if changes_backend else None)
    )
    await body.discard()
    return made


async def restore(staging: Staging, who: Principal, reference: str) -> State:
    """Make the content of an older version the current state again, as a new version with the next serial."""
    kept = await staging.db.read(lambda tx: quarantine.find(tx, who, reference, Verb.STATE_WRITE))
    before = kept.state
    module = await staging.db.read(lambda tx: find(tx, who, before.module_id))
    now = await staging.db.read(lambda tx: store.current(tx, module.id))
    if before.version is None or now is None:
        raise Conflict(f"state {before.id} is {before.status}, and was never a version of the module's state")
    if now.state.id == before.id:
        raise Conflict(f"version {before.version} is the current state already")
    plain = (await content.read(staging.objects, staging.keys, kept.context, kept.sealed)).content
    if await asyncio.to_thread(_is_encrypted, plain):
        raise Conflict(
            f"OpenTofu has encrypted version {before.version}, and would not read it with another serial: import it as it is "
            f"(`terracrew state show {before.version} --module {module.path} > FILE`, then `terracrew state import "
            f"{module.path} FILE --force`)"
        )
    given = await asyncio.to_thread(_with_serial, plain, now.state.serial + 1)

    def check(still: State | None) -> None:
        if still is None or still.id != now.state.id:
            raise Conflict(f"the state of `{module.path}` has changed meanwhile: look at it again")

    return await _store(staging, who, module, given, _Act("restored", check, {"restored_version": before.version}))


def is_possible(module: Module) -> bool:
    """Return whether a state can be brought into a module at all."""
    return module.backend == "terracrew" and module.engine in _ENGINES


async def find(tx: Tx, who: Principal, reference: str, *, changes_backend: bool = False) -> Module:
    """Return a module into which the caller may bring a state. With `changes_backend`, its backend is changed for it."""
    module = await modules.find(tx, who, reference, Verb.STATE_WRITE)
    if module.backend != "terracrew" and not changes_backend:
        raise Conflict(
            f"module `{module.path}` keeps its state in the backend that its source configures: push the state there, or "
            "let Terracrew hold it first (`terracrew module update --no-own-backend`)"
        )
    if module.engine not in _ENGINES:
        raise Conflict(
            f"module `{module.path}` is one of {module.engine}, and only states of OpenTofu and Terraform can be brought"
        )
    return module


def _is_encrypted(plain: bytes) -> bool:
    """Return whether OpenTofu has encrypted a state. The serial beside the ciphertext must then be the one inside it."""
    try:
        return "encrypted_data" in msgspec.json.decode(plain, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError):
        return False


def _with_serial(plain: bytes, serial: int) -> ReadState:
    """Return the state with another serial. An engine takes a state with a lower serial than its last one for an outdated one."""
    try:
        document = msgspec.json.decode(plain, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError) as error:
        raise Invalid(f"this version cannot be restored, because it cannot be read: {error}") from None
    return read(msgspec.json.encode(document | {"serial": serial}))


async def _store(staging: Staging, who: Principal, module: Module, given: ReadState, act: _Act) -> State:
    state_id = ids.new("sta")
    name = content.of_event(state_id, 0, 0, given.sha256)
    sealed = await content.keep(staging.objects, staging.keys, module.id, name, given.plain)
    made = await uploads.write_row(
        staging, sealed.object, lambda tx: _write(tx, who, module, state_id, given, sealed, act)
    )
    if made.state.id != state_id:
        if sealed.object is not None:
            await staging.objects.delete(sealed.object)
        if made.sealed.object is not None and not await staging.objects.exists(made.sealed.object):
            await content.keep(staging.objects, staging.keys, module.id, made.sealed.object, given.plain)
    return made.state


async def _write(
    tx: Tx,
    who: Principal,
    module: Module,
    state_id: str,
    given: ReadState,
    sealed: content.Sealed,
    act: _Act,
) -> store.StoredState:
    await module_store.lock(tx, module.id)
    if act.first is not None:
        await act.first(tx)
    await find(tx, who, module.id)
    now = await store.current(tx, module.id)
    if now is not None and now.state.sha256 == given.sha256 and now.state.brought_by == who.id:
        return now  # the answer to the first request was lost
    await _require_idle(tx, who, module)
    act.check(None if now is None else now.state)
    version = await store.supersede(tx, module.id)
    made = State(
        id=state_id,
        module_id=module.id,
        status="current",
        job_id=state_id,
        attempt=0,
        event=0,
        origin=act.origin,
        serial=given.serial,
        lineage=given.lineage,
        sha256=given.sha256,
        size=len(given.plain),
        created_at=tx.moment,
        version=version,
        brought_by=who.id,
    )
    fact = StateFact(given.sha256, len(given.plain), given.serial, given.lineage, True, resources=given.resources)
    await store.insert(tx, made, Received(fact, sealed.content, sealed.object))
    action = "state.import" if act.origin == "imported" else "state.restore"
    details = {
        "module": module.id,
        "path": module.path,
        "serial": made.serial,
        "lineage": made.lineage,
        "version": version,
    }
    details |= act.noted
    if now is not None:
        was = now.state
        details |= {"replaced_version": was.version, "replaced_serial": was.serial, "replaced_lineage": was.lineage}
    await audit.record(tx, who, action, "state", made.id, details, organization_id=module.organization_id)
    tx.wake("states", module.id)
    tx.wake("tree", module.id)
    return store.StoredState(made, sealed)


async def _require_idle(tx: Tx, who: Principal, module: Module) -> None:
    """Refuse while somebody else may be changing the state, or has to decide about another one."""
    await lock_store.require_free(tx, module.id, module.path, (who.id, who.credential_id))
    holder = await reads.lock_holder(tx, module.id)
    if holder is not None:
        raise Locked(f"job {holder['number']} has the lock of `{module.path}`: try again when it has ended", **holder)
    if (await store.version_facts(tx, module.id)).has_quarantine:
        raise Conflict(
            f"a state of `{module.path}` is in quarantine: adopt or discard it first "
            f"(`terracrew state list {module.path} --quarantined`)"
        )


def check_successor(path: str, now: State, given: ReadState) -> None:
    """Refuse a state that does not continue the one that the module has."""
    if now.lineage != given.lineage:
        raise Conflict(
            f"`{path}` has a state of another lineage ({now.lineage}, not {given.lineage}), so this one describes other resources. "
            "If it is to replace that one, ask for force=true (--force on the command line)"
        )
    if now.serial >= given.serial:
        raise Conflict(
            f"`{path}` has a state with serial {now.serial}, and this one has {given.serial}, so it is not newer. If it is to "
            "replace that one, ask for force=true (--force on the command line)"
        )
