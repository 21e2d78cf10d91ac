"""Files of releases, which a runner that updates itself fetches from its server. A runner may have no way to any other place."""

from typing import Annotated

from litestar import get
from litestar.params import FromPath, HeaderParameter
from litestar.response import Stream

from terracrew.server.http import streams
from terracrew.server.hub.transfer.context import TransferCall
from terracrew.server.releases import service


@get("/runnerhub/releases/{release:str}/{artifact:str}", include_in_schema=False)
async def get_file(
    request: TransferCall,
    release: FromPath[str],
    artifact: FromPath[str],
    asked: Annotated[str | None, HeaderParameter(name="Range")] = None,
    condition: Annotated[str | None, HeaderParameter(name="If-Range")] = None,
) -> Stream:
    who, context = request.user, request.context
    found = await context.db.read(lambda tx: service.file(tx, who, release, artifact, is_installed=True))
    return await streams.download(
        context.objects, found.object_name, found.name, found.size_bytes, found.sha256, asked, condition
    )
