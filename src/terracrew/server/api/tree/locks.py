"""The locks of modules that people hold, over HTTP."""

from typing import Annotated

from litestar import delete, post
from litestar.params import FromPath, JSONBody, QueryParameter

from terracrew.api.locks import MAX_TEXT_CHARACTERS, ModuleLock, TakeLock
from terracrew.server.api.context import TreeCall
from terracrew.server.http.request import tree_path
from terracrew.server.state import locks


@post("/modules/{module:str}/lock", summary="Lock a module")
async def take(request: TreeCall, module: FromPath[str], data: JSONBody[TakeLock]) -> ModuleLock:
    """Lock a module for yourself and the credential of this request: no job of it starts until you unlock it.

    The lock does not expire. It is refused while somebody else holds the lock or a job is active.
    """
    return await request.write(locks.take, tree_path(module), data)


@delete("/modules/{module:str}/lock", summary="Unlock a module")
async def release(
    request: TreeCall,
    module: FromPath[str],
    force: Annotated[bool, QueryParameter(description="Also if another credential or somebody else holds it")] = False,
    reason: Annotated[
        str, QueryParameter(max_length=MAX_TEXT_CHARACTERS, description="Why it is removed by force")
    ] = "",
    lock_id: Annotated[
        str | None, QueryParameter(name="id", max_length=MAX_TEXT_CHARACTERS, description="Only the lock with this id")
    ] = None,
) -> None:
    """Unlock a module that you have locked with the same credential, or with `force=true` any module whose jobs you may cancel.

    If an engine held a lock that is removed by force, nobody knows whether it has ended. What it writes afterwards does not become
    current, and the next change of the module waits for an approval.
    """
    if force:
        await request.write(locks.force, tree_path(module), reason, lock_id)
    else:
        await request.write(locks.release, tree_path(module), lock_id)
