"""The module registry protocol, by which engines ask for versions and archives (`modules.v1`).

An engine sends its token with the first two requests, and fetches the archive without one: the address itself opens it.
"""

import time
from typing import Any

from litestar import Response, get
from litestar.params import FromPath, FromQuery
from litestar.response import Stream

from terracrew.server.api.context import TreeCall
from terracrew.server.db.seam import Tx
from terracrew.server.http.engine_services import MODULES_BASE, REGISTRY_BASE
from terracrew.server.http.streams import begun
from terracrew.server.registry import links, service, store, uses
from terracrew.server.registry.model import RegistryVersion

_NO_STORE = {"Cache-Control": "no-store"}


@get(MODULES_BASE + "{namespace:str}/{published_name:str}/{system:str}/versions", include_in_schema=False)
async def versions(
    request: TreeCall, namespace: FromPath[str], published_name: FromPath[str], system: FromPath[str]
) -> Response[dict[str, Any]]:
    """List the versions that engines may choose from."""

    async def read(tx: Tx) -> list[str]:
        module = await service.addressed(tx, request.user, namespace, published_name, system)
        return [each.version for each in await service.versions(tx, module) if not each.is_withdrawn]

    known = await request.context.db.read(read)
    return Response({"modules": [{"versions": [{"version": each} for each in known]}]}, headers=_NO_STORE)


@get(MODULES_BASE + "{namespace:str}/{published_name:str}/{system:str}/{exactly:str}/download", include_in_schema=False)
async def download(
    request: TreeCall,
    namespace: FromPath[str],
    published_name: FromPath[str],
    system: FromPath[str],
    exactly: FromPath[str],
) -> Response[None]:
    """Tell where the archive of a version is, at an address that ends soon."""

    async def read(tx: Tx) -> tuple[RegistryVersion, bool]:
        module = await service.addressed(tx, request.user, namespace, published_name, system)
        found = await service.usable(tx, module, exactly)
        return found, await uses.is_new(tx, request.user, found)

    found, is_new = await request.context.db.read(read)
    if is_new:
        await request.context.db.write(lambda tx: uses.note(tx, request.user, found))
    sealed = links.seal(request.context.keys, found.id, time.time())
    # The ending tells engines what it is, because the archive has no name of its own.
    headers = {"X-Terraform-Get": f"{REGISTRY_BASE}archives/{sealed}?archive=tar.gz", **_NO_STORE}
    return Response(None, status_code=204, headers=headers)


@get(REGISTRY_BASE + "archives/{sealed:str}", public=True, include_in_schema=False)
async def archive(request: TreeCall, sealed: FromPath[str], archive: FromQuery[str] = "") -> Stream:  # noqa: ARG001 - clients may keep it
    """Send the archive of the version that an address is for."""
    context = request.context
    version_id = links.opened(context.keys, sealed, time.time())
    found = await context.db.read(lambda tx: store.version_by_id(tx, version_id))
    if found is None or found.is_withdrawn:
        raise links.unseen()
    headers = {"Content-Length": str(found.size), **_NO_STORE}
    return Stream(await begun(context.objects.stream(found.object)), media_type="application/gzip", headers=headers)
