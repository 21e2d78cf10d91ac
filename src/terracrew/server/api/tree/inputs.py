"""The inputs of groups and modules over HTTP."""

from typing import Annotated

from litestar import delete, get, post
from litestar.params import FromQuery, JSONBody, QueryParameter

from terracrew.api.inputs import InputView, NewInput, Target
from terracrew.api.pages import Page
from terracrew.server.api.context import TreeCall
from terracrew.server.db.seam import Tx
from terracrew.server.paging import After, Limit
from terracrew.server.tree.inputs import service
from terracrew.server.tree.modules import output_references, places

PlacePath = Annotated[
    str, QueryParameter(description="The path or id of a group or module; empty or `/` for the organization")
]


@get("/inputs", summary="List inputs")
async def listing(
    request: TreeCall,
    place: PlacePath = "",
    inherited: FromQuery[bool] = True,
    after: After = None,
    limit: Limit = 50,
) -> Page[InputView]:
    """List the inputs that apply to a group or module, with where each of them is set, by whom and when.

    Of several inputs with the same name, the one that is set nearest to the place applies. With `inherited=false`, only those
    that are set at the place itself are listed. Values of secrets and of environment variables are never shown.
    """
    who, keys = request.user, request.context.keys

    async def read(tx: Tx) -> Page[InputView]:
        at = await places.find(tx, who, place)
        return await service.listing(tx, keys, who, at, after, limit, is_inherited=inherited)

    return await request.context.db.read_in_background(read)


@post("/inputs", status_code=200, summary="Set an input")
async def set_input(request: TreeCall, data: JSONBody[NewInput]) -> InputView:
    """Set a literal or a secret at a group or module, or an output of another module at a module.

    It applies to the jobs of all modules there that start from now on. A literal needs the permission to change the place, a
    secret the permission `secret.set`, and cannot be read back. An output needs the permission to read the state of its module,
    and is refused if it would make a cycle; jobs wait until it exists.
    """
    who, keys = request.user, request.context.keys

    async def write(tx: Tx) -> InputView:
        at = await places.hold(tx, who, data.place)
        source = None if data.output is None else await output_references.checked(tx, who, at, data.output)
        return await service.put(tx, keys, who, at, data, source)

    return await request.context.db.write(write)


@delete("/inputs", summary="Remove an input")
async def remove(
    request: TreeCall, name: FromQuery[str], place: PlacePath = "", target: FromQuery[Target] = "variable"
) -> None:
    """Remove an input from the place at which it is set. A job that waits and would have used a secret fails before it starts."""
    who = request.user

    async def write(tx: Tx) -> None:
        await service.remove(tx, who, await places.hold(tx, who, place), target, name)

    await request.context.db.write(write)
