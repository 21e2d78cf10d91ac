"""Answers whose body is a stored object."""

from collections.abc import AsyncIterator

from litestar.response import Stream

from terracrew.server.objects import Objects


async def streamed(objects: Objects, name: str, media_type: str) -> Stream:
    """Answer with a stored object."""
    pieces = objects.stream(name)
    # The first piece is read before the answer starts, so that a missing object is an error and not an empty body.
    first = await anext(pieces, b"")

    async def all_pieces() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return Stream(all_pieces(), media_type=media_type)
