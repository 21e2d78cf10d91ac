"""The addresses that forges deliver to. Who delivers is known by the signature of the delivery alone."""

from litestar import MediaType, Response, post
from litestar.params import FromPath

from terracrew.server.api.context import TreeCall
from terracrew.server.forges import receiving


@post(
    "/hooks/{connection:str}",
    public=True,
    ignores_credentials=True,
    status_code=202,
    request_max_body_size=receiving.MAX_BODY_BYTES,
    include_in_schema=False,
)
async def deliver(request: TreeCall, connection: FromPath[str]) -> Response[bytes]:
    """Store what a forge delivers, and answer before anything is asked of it. There are no hooks but those of connections: an unknown
    one is answered like a wrong signature."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    await request.context.receiver.receive(connection, headers, request.content_length, request.body)
    return Response(b"", media_type=MediaType.TEXT)
