"""The JSON Schemas of the settings files of servers and runners, at addresses that `"$schema"` of such a file can name."""

import asyncio
import importlib
from functools import cache

import msgspec
from litestar import Response, get

_HEADERS = {"cache-control": "public, max-age=3600"}
_MEDIA_TYPE = "application/schema+json"


@get("/schemas/server.json", public=True, ignores_credentials=True, include_in_schema=False)
async def server_schema() -> Response[bytes]:
    """Return the schema of a server's settings file. Editors read it without a login."""
    return await _answer("terracrew.settings.server")


@get("/schemas/runner.json", public=True, ignores_credentials=True, include_in_schema=False)
async def runner_schema() -> Response[bytes]:
    """Return the schema of a runner's settings file. Editors read it without a login."""
    return await _answer("terracrew.settings.runner")


async def _answer(module: str) -> Response[bytes]:
    return Response(await asyncio.to_thread(_encoded, module), media_type=_MEDIA_TYPE, headers=_HEADERS)


@cache
def _encoded(module: str) -> bytes:
    """Return the schema that this module makes. The module loads the settings library, which no other request needs."""
    return msgspec.json.format(msgspec.json.encode(importlib.import_module(module).schema()), indent=2)
