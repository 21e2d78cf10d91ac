"""The handlers of the pages of the server. Each asks a function that refuses everybody but administrators of the server."""

from typing import Any

from litestar import Response, get, post
from litestar.params import FromQuery

from terracrew.api.operations import StartHold, SurveyProgress
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.server import page
from terracrew.server.identity.oidc import issuer as issuers
from terracrew.server.jobs.set_back import release as holds
from terracrew.server.rekey import requests as rekeying

HERE = "/dashboard/server"
SURVEY_WAIT_SECONDS = 0.15
"""How long the page waits for what is being counted. After that, it shows the progress, and asks again every second."""


@get("/")
async def server_page(request: DashboardCall) -> Response[Any]:
    found = await request.read(page.read, request.context.keys.key_id)
    return await render.page(request, "server/server", page=found)


@post("/hold", in_any_organization=True)
async def start_hold(request: DashboardCall) -> Response[Any]:
    form = await forms.read(request, StartHold, strip=True)
    await holds.hold(request.context.db, request.user, form.reason)
    return render.done(request, "The server hands out no changes from now on", HERE)


@post("/rekey", in_any_organization=True)
async def start_rekey(request: DashboardCall) -> Response[Any]:
    progress = await request.write(rekeying.start, request.context.keys.key_id)
    return render.done(request, f"Everything is being encrypted under master key {progress.key_id}", HERE)


@post("/rekey/stop", in_any_organization=True)
async def stop_rekey(request: DashboardCall) -> Response[Any]:
    await request.write(rekeying.stop, request.context.keys.key_id)
    return render.done(request, "The encryption is stopped: keep all keys", HERE)


@get("/storage")
async def storage_page(request: DashboardCall) -> Response[Any]:
    """Show what is stored and what retention would remove, or what is being counted."""
    found = await request.context.surveys.show_usage(request.user, SURVEY_WAIT_SECONDS)
    usage, counting = (None, found) if isinstance(found, SurveyProgress) else (found, None)
    kept = {} if usage is None else page.kept(usage.reclaimable.policy)
    return await render.page(request, "server/storage", usage=usage, counting=counting, kept=kept)


@get("/issuer")
async def issuer_page(request: DashboardCall, look: FromQuery[bool] = False) -> Response[Any]:
    """Show the issuer of the tokens for clouds as it was found last; with `look`, as it is found now."""
    identity = request.context.identity
    found = await issuers.show(
        request.context.db, request.user, identity.issuer, identity.tokens.signing, must_look=look
    )
    return await render.page(request, "server/issuer", issuer=found, documents=page.documents(found))
