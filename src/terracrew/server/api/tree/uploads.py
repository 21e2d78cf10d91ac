"""Staging a body in parts: an archive, a state or a file of a release that is too large for one request through a proxy."""

from litestar import put
from litestar.params import FromPath, JSONBody

from terracrew.errors import Invalid
from terracrew.protocol.transfers import PART_BYTES, UploadStaged, UploadWanted
from terracrew.server.api.context import TreeCall
from terracrew.server.releases import checks
from terracrew.server.releases import service as releases
from terracrew.server.state import importing
from terracrew.server.tree.modules import archives
from terracrew.server.uploads import service

_MAX_BYTES = {archives.TARGET: archives.MAX_ARCHIVE_BYTES, importing.TARGET: importing.MAX_IMPORTED_BYTES}
"""What can be uploaded in parts, and how large it may be."""


@put("/uploads", summary="Stage a large body", takes_release_token=True)
async def stage(request: TreeCall, data: JSONBody[UploadWanted]) -> UploadStaged:
    """Announce a body by its SHA-256 and size, or ask which of its parts are missing.

    Send the missing parts, then make the actual request with the header `X-Upload: <id>` and no body. The target is
    `archive`, for `POST /archives`, `state`, for `POST /modules/{module}/states`, or `release VERSION`, for
    `POST /releases/{release}/files`.
    """
    version = releases.version_of_target(data.target)
    if version is not None:
        await request.read(releases.require_unpublished, version)
        return await service.stage(request.context.staging, request.user.id, data, checks.MAX_ARTIFACT_BYTES)
    await archives.require(request.context.db, request.user)
    max_bytes = _MAX_BYTES.get(data.target)
    if max_bytes is None:
        raise Invalid(f"the target of an upload must be {', '.join(map(repr, _MAX_BYTES))} or 'release VERSION' here")
    return await service.stage(request.context.staging, request.user.id, data, max_bytes)


@put(
    "/uploads/{upload:str}/{index:int}",
    summary="Send a part",
    status_code=204,
    request_max_body_size=PART_BYTES,
    takes_release_token=True,
)
async def put_part(request: TreeCall, upload: FromPath[str], index: FromPath[int]) -> None:
    """Send the part that begins at byte `index * part_bytes` and has up to `part_bytes`. The same part may be sent again."""
    if request.user.kind != "publisher":  # one has only uploads for releases
        await archives.require(request.context.db, request.user)
    await service.put_part(request.context.staging, request.user.id, upload, index, await request.body())
