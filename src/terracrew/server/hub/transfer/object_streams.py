"""Answers whose body is a stored object."""

from litestar.response import Stream

from terracrew.server.http.streams import begun
from terracrew.server.objects import Objects


async def streamed(objects: Objects, name: str, media_type: str) -> Stream:
    """Answer with a stored object, or raise the error if it cannot be read."""
    return Stream(await begun(objects.stream(name)), media_type=media_type)
