"""Releases over HTTP: everybody who is logged in reads them, administrators of the server and release tokens publish them."""

from typing import Annotated

import msgspec
from litestar import delete, get, post
from litestar.params import FromPath, HeaderParameter, JSONBody, QueryParameter
from litestar.response import Stream

from terracrew import __version__, ids
from terracrew.api.pages import Page
from terracrew.api.releases import (
    AddedFile,
    CreatedReleaseToken,
    NewRelease,
    NewReleaseToken,
    ReleaseKey,
    ReleaseNotes,
    ReleaseToken,
    ReleaseView,
    Withdrawal,
)
from terracrew.errors import NotFound
from terracrew.protocol.transfers import HEADER, PART_BYTES
from terracrew.server.api import publishing
from terracrew.server.api.context import OperationsCall
from terracrew.server.db.seam import Tx
from terracrew.server.http import streams
from terracrew.server.paging import After, Limit, cursor, start
from terracrew.server.releases import rules, service, store, tokens
from terracrew.server.releases.model import Release
from terracrew.server.releases.store import ReleaseVersion
from terracrew.server.uploads import service as uploads

MAX_RELEASE_REQUEST_BYTES = 2 * 2**20
"""Notes and a hundred signatures fit into it."""


@get("/releases", summary="List releases")
async def list_releases(request: OperationsCall, after: After = None, limit: Limit = 50) -> Page[ReleaseView]:
    """List the published versions of Terracrew, the highest first. Withdrawn ones are among them."""
    service.require_reader(request.user)

    async def read(tx: Tx) -> Page[ReleaseView]:
        found = await store.versions(tx)
        latest = rules.latest(found, __version__)
        chosen, rest = _cut(rules.newest_first(found), after, limit)
        items = [_view(each, latest and latest.id) for each in await store.some(tx, chosen)]
        return Page(items, rest)

    return await request.context.db.read_in_background(read)


@get("/releases/notes", summary="Read the notes of releases")
async def list_notes(
    request: OperationsCall,
    since: Annotated[str, QueryParameter(max_length=100, description="Only versions higher than this one")] = "",
    until: Annotated[str, QueryParameter(max_length=100, description="Only versions up to this one, included")] = "",
    after: After = None,
    limit: Limit = 50,
) -> Page[ReleaseNotes]:
    """Return what is written about every version between two, the highest first. Withdrawn ones are among them."""
    service.require_reader(request.user)

    async def read(tx: Tx) -> Page[ReleaseNotes]:
        chosen, rest = _cut(rules.between(await store.versions(tx), since, until), after, limit)
        return Page(
            [msgspec.convert(each, ReleaseNotes, from_attributes=True) for each in await store.some(tx, chosen)], rest
        )

    return await request.context.db.read_in_background(read)


@get("/releases/key", summary="Show the key of releases")
async def show_key(request: OperationsCall) -> ReleaseKey:
    """Show the public key that the artifacts of releases are signed with. A runner is given it when it is registered."""
    service.require_reader(request.user)
    return ReleaseKey(request.context.publishing.key)


@get("/releases/{release:str}", summary="Show a release")
async def show_release(request: OperationsCall, release: FromPath[str]) -> ReleaseView:
    """Show a release with its artifacts. `latest` is the one that the runners of this server should have."""
    service.require_reader(request.user)

    async def read(tx: Tx) -> ReleaseView:
        latest = await service.latest(tx, __version__)
        if release == "latest":
            if latest is None:
                raise NotFound("there is no latest release: none was published that is meant for this server")
            return _view(latest, latest.id)
        return _view(await store.get(tx, release), latest and latest.id)

    return await request.context.db.read(read)


@get("/releases/{release:str}/artifacts/{artifact:str}", summary="Download a file of a release")
async def download(
    request: OperationsCall,
    release: FromPath[str],
    artifact: FromPath[str],
    asked: Annotated[str | None, HeaderParameter(name="Range", description="A part of the file: `bytes=100-`")] = None,
    condition: Annotated[
        str | None, HeaderParameter(name="If-Range", description="The whole file, unless its entity tag is this one")
    ] = None,
) -> Stream:
    """Download a file of a release, or the part of it that the header `Range` names. Its entity tag is its SHA-256."""
    context = request.context
    found = await request.read(service.file, release, artifact)
    staging = context.publishing.staging
    return await streams.download(
        staging.objects, found.object_name, found.name, found.size_bytes, found.sha256, asked, condition
    )


@post(
    "/releases/{release:str}/files",
    summary="Send a file of a release",
    request_max_body_size=PART_BYTES,
    takes_release_token=True,
)
async def add_file(
    request: OperationsCall,
    release: FromPath[str],
    staged: Annotated[str, HeaderParameter(name=HEADER)] = "",
) -> AddedFile:
    """Send a file of a release that is about to be published.

    A file that is larger than a part is staged before (`PUT /uploads`, target `release VERSION`) and named in the header X-Upload.
    A file that no release names is removed after a day. Until then, one publisher has at most 1,000 files with 4 GiB.
    """
    context, who = request.context.publishing, request.user
    await request.read(service.require_unpublished, release)
    body = await uploads.body(context.staging, request.stream(), who.id, staged, service.upload_target(release))
    return await publishing.add_file(context, who, release, body, staged)


@post(
    "/releases",
    summary="Publish a release",
    request_max_body_size=MAX_RELEASE_REQUEST_BYTES,
    takes_release_token=True,
)
async def publish(request: OperationsCall, data: JSONBody[NewRelease]) -> ReleaseView:
    """Publish a version of Terracrew. Its files were sent before.

    Every artifact has a signature by the key that the server's settings name, for this version and this file. With a release token,
    there is at least one. A version is published once, and stays taken after it was withdrawn.
    """
    made = await publishing.publish(request.context.publishing, request.user, data)
    latest = await request.context.db.read(lambda tx: service.latest(tx, __version__))
    return _view(made, latest and latest.id)


@post("/releases/{release:str}/withdraw", status_code=200, summary="Withdraw a release")
async def withdraw(request: OperationsCall, release: FromPath[str], data: JSONBody[Withdrawal]) -> ReleaseView:
    """Withdraw a release: it is no longer the latest one, and runners do not get its files any more. This cannot be undone."""
    done: Release = await request.write(service.withdraw, release, data.reason)
    return _view(done, None)


def _view(release: Release, latest_id: str | None) -> ReleaseView:
    found = msgspec.convert(release, ReleaseView, from_attributes=True)
    return msgspec.structs.replace(found, is_latest=release.id == latest_id)


def _cut(found: list[ReleaseVersion], after: str | None, limit: int) -> tuple[list[str], str | None]:
    """Return the ids of one page of the sorted releases, and the cursor of the next page."""
    release_ids = [each.id for each in found]
    last = start(after)
    begin = release_ids.index(last) + 1 if last in release_ids else 0
    chosen = release_ids[begin : begin + limit]
    return chosen, cursor(chosen[-1]) if begin + limit < len(release_ids) else None


@get("/release-tokens", summary="List release tokens")
async def list_tokens(request: OperationsCall, after: After = None, limit: Limit = 50) -> Page[ReleaseToken]:
    """List the tokens with which releases can be published. The tokens themselves are stored nowhere and cannot be shown again."""
    return await request.read_in_background(tokens.listing, after, limit)


@post("/release-tokens", summary="Create a release token")
async def create_token(request: OperationsCall, data: JSONBody[NewReleaseToken]) -> CreatedReleaseToken:
    """Create a token that can publish releases, and nothing else. The answer shows it once."""
    made, secret = await tokens.create(request.context.db, request.user, data.name, data.expires_in_days)
    return CreatedReleaseToken(made.id, made.name, made.expires_at, secret.text)


@delete("/release-tokens/{release_token:str}", summary="Revoke a release token")
async def revoke_token(request: OperationsCall, release_token: FromPath[str]) -> None:
    """Revoke a token. Requests with it are refused from now on."""
    await request.write(tokens.revoke, ids.parse("rtk", release_token))
