"""Uploads of configurations."""

from litestar import Response, get, post, put
from litestar.params import FromPath

from terracrew.protocol.events import MAX_STATE_BYTES
from terracrew.server.http.request import refuse_larger
from terracrew.server.terminals import links, states
from terracrew.server.terminals import service as terminals
from terracrew.server.terminals.model import ConfigurationVersion
from terracrew.server.tfe import json_api
from terracrew.server.tfe.context import TfeCall
from terracrew.server.tfe.json_api import ApiResource, Attributes
from terracrew.server.tree.modules import archives


class _VersionAttributes(Attributes, frozen=True, kw_only=True):
    status: str
    speculative: bool
    upload_url: str | None
    auto_queue_runs: bool = False
    provisional: bool = False
    source: str = "tfe-api"


@post("/workspaces/{module:str}/configuration-versions")
async def create(request: TfeCall, module: FromPath[str]) -> Response[bytes]:
    given = await json_api.given(request)
    made = await request.write(terminals.new_version, module, is_speculative=json_api.flag(given, "speculative"))
    address = request.context.address(request.user, "configuration", made.id)
    return json_api.answer(_resource(made, address), status=201)


@get("/configuration-versions/{configuration:str}")
async def show(request: TfeCall, configuration: FromPath[str]) -> Response[bytes]:
    return json_api.answer(_resource(await request.read(terminals.version, configuration), None))


def _resource(version: ConfigurationVersion, address: str | None) -> ApiResource:
    status = "pending" if version.archive_id is None else "uploaded"
    attributes = _VersionAttributes(status=status, speculative=version.is_speculative, upload_url=address)
    return ApiResource("configuration-versions", version.id, attributes)


@put("/links/{sealed:str}", public=True, request_max_body_size=MAX_STATE_BYTES)
async def upload(request: TfeCall, sealed: FromPath[str]) -> Response[bytes]:
    """Receive the files of a configuration version, or a state. The address itself says for whom."""
    context = request.context
    link = links.opened(context.keys, sealed, ("configuration", "state", "json_state"), context.now())
    who = await context.db.read(lambda tx: links.actor(tx, link))
    if link.kind == "configuration":
        refuse_larger(request, archives.MAX_ARCHIVE_BYTES)
        await terminals.receive(context.tools, who, link.of, request.stream())
    elif link.kind == "state":
        await states.receive(context.staging, context.bodies, who, link.of, request.stream())
    else:  # a view of the state in JSON, which can be made of the state at any time
        async for _ in request.stream():
            pass
    return json_api.done()
