"""Makes the shared runners equal to what a server's settings file declares: creates, changes, retires and restores them.

The declaration is one for all servers of a database, and the last start of a server with one wins (ADR 0034). A retired runner
drains, and its record is deleted when it has nothing left to finish. A runner that is declared again gets the same id.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from terracrew import ids
from terracrew.api.runners import Runner
from terracrew.errors import Invalid
from terracrew.server.db.seam import Tx
from terracrew.server.principals.model import SYSTEM
from terracrew.server.runners import service, store
from terracrew.server.runners.shared.declaration import Declaration, DeclaredRunner, hold, replace

BUILT_IN_NAME = "built-in"
"""The runner of a server that runs one although its settings declare none."""


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What a declaration has changed, by the names of runners."""

    before: Declaration | None
    """The declaration that was in effect before, if there was one."""
    created: list[str] = []
    changed: list[str] = []
    retired: list[str] = []
    restored: list[str] = []


async def declare(
    tx: Tx, declared: Sequence[DeclaredRunner], declaration: Declaration, built_in_sha256: Callable[[str], str]
) -> Changes:
    """Apply a declaration. Starts of several servers wait for each other. `built_in_sha256` hashes a built-in runner's token."""
    changes = Changes(before=await replace(tx, declaration))
    known = {runner.name: runner for runner in await store.hold_shared(tx)}
    for each in declared:
        sha256 = each.worker_token_sha256 or built_in_sha256(each.name)
        await _ensure(tx, each, known.pop(each.name, None), sha256, declaration.file, changes)
    for runner in known.values():
        if runner.is_declared or runner.removing_since is None:
            await _retire(tx, runner, declaration.file)
            changes.retired.append(runner.name)
    return changes


async def ensure_default(tx: Tx, max_jobs: int, sha256: str) -> Runner:
    """Return the built-in runner of a server whose settings declare none. One that a file declares is not changed.

    Starts of several servers wait for each other, so that the second one finds the record of the first.
    """
    await hold(tx)
    known = next((each for each in await store.hold_shared(tx) if each.name == BUILT_IN_NAME), None)
    if known is not None and known.is_declared and known.declared_in is not None and known.removing_since is None:
        return known
    changes = Changes(before=None)
    declared = DeclaredRunner(name=BUILT_IN_NAME, kind="built-in", max_jobs=max_jobs, allow_multiple_instances=True)
    return await _ensure(tx, declared, known, sha256, None, changes)


async def find(tx: Tx, name: str) -> Runner | None:
    return await store.shared(tx, name)


async def retired(tx: Tx) -> list[Runner]:
    """Return the shared runners that are retired and still have something to finish."""
    return [runner for runner in await store.all_shared(tx) if runner.removing_since is not None]


async def _ensure(
    tx: Tx, declared: DeclaredRunner, known: Runner | None, sha256: str, file: str | None, changes: Changes
) -> Runner:
    if (other := await store.path_of_token(tx, sha256, known.id if known else "")) is not None:
        raise Invalid(
            f"shared_runners.{declared.name}: the runner `{other}` has the same worker token; each needs its own. "
            f"`terracrew server worker-token {declared.name}` makes one"
        )
    fields: dict[str, Any] = {
        "description": declared.description,
        "tags": list(declared.tags),
        "max_jobs": declared.max_jobs,
        "allow_multiple_instances": declared.allow_multiple_instances,
        "is_declared": True,
        "declared_in": file,
    }
    if known is None:
        runner = Runner(
            id=ids.of_name("rnr", declared.name),
            name=declared.name,
            path=declared.name,
            created_at=tx.moment,
            **fields,
        )
        await store.insert_declared(tx, runner, sha256)
        await service.note(tx, SYSTEM, "runner.create", runner, declared_in=file)
        changes.created.append(runner.name)
        return runner
    is_retired = known.removing_since is not None
    runner = msgspec.structs.replace(
        known, **fields, removing_since=None, is_draining=known.is_draining and not is_retired
    )
    is_token_new = await store.set_declared_token(tx, runner.id, sha256)
    if is_token_new:
        tx.wake("access", runner.id)
    if runner != known or is_token_new:
        await store.update(tx, runner)
        changed = {name: value for name, value in fields.items() if getattr(known, name) != value}
        action = "runner.restore" if is_retired else "runner.change"
        facts = {**changed, **({"has_new_token": True} if is_token_new else {})}
        await service.note(tx, SYSTEM, action, runner, **facts)
        (changes.restored if is_retired else changes.changed).append(runner.name)
    return runner


async def _retire(tx: Tx, runner: Runner, file: str) -> None:
    """Let a runner drain until its record is deleted. Its jobs finish, and plans that wait are made again elsewhere."""
    now = tx.moment
    after = msgspec.structs.replace(
        runner, is_declared=False, is_draining=True, removing_since=runner.removing_since or now
    )
    await store.update(tx, after)
    await service.note(tx, SYSTEM, "runner.retire", after, missing_in=file)
