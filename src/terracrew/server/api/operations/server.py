"""The server itself over HTTP, for its administrators: holds, the issuer of tokens for clouds, the master key, and what is stored."""

from litestar import Response, delete, get, post
from litestar.params import JSONBody

from terracrew.api.job_views import HoldView
from terracrew.api.operations import IssuerView, Preview, RekeyProgress, ReleaseHold, StartHold, SurveyProgress, Usage
from terracrew.server.api.context import OperationsCall
from terracrew.server.http.request import identity_of
from terracrew.server.identity.oidc import issuer
from terracrew.server.jobs.set_back import release as service
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.rekey import requests as rekeying
from terracrew.server.runs import module_view


async def _hold(request: OperationsCall) -> HoldView:
    await authorize.require(request.context.db, request.user, Verb.SERVER_ADMIN, authorize.SERVER)
    return await request.context.db.read(module_view.open_hold)


@get("/hold", summary="Show whether the server hands out changes")
async def show_hold(request: OperationsCall) -> HoldView:
    """Show whether the server is held, since when and why, and what is known of its modules since."""
    return await _hold(request)


@post("/hold", status_code=200, summary="Hand out no changes")
async def start_hold(request: OperationsCall, data: JSONBody[StartHold]) -> HoldView:
    """Hold the server: it serves everything and takes deliveries, and hands out nothing that changes something."""
    await service.hold(request.context.db, request.user, data.reason)
    return await _hold(request)


@post("/hold/release", status_code=200, summary="Hand out changes again")
async def release_hold(request: OperationsCall, data: JSONBody[ReleaseHold]) -> HoldView:
    """Release a module or the whole server.

    A module that was or may have been changed since stays in doubt: its next plan waits for an approval.
    """
    if data.module is None:
        await service.release(request.context.db, request.user, is_untouched=data.is_untouched)
    else:
        await service.release_module(request.context.db, request.user, data.module, is_untouched=data.is_untouched)
    return await _hold(request)


@get("/issuer", summary="Show the issuer of the tokens for clouds")
async def show_issuer(request: OperationsCall) -> IssuerView:
    """Show the issuer, the two documents that clouds read, and what is wrong with the copies at the issuer's address."""
    identity = identity_of(request)
    return await issuer.show(request.context.db, request.user, identity.issuer, identity.tokens.signing)


@get("/rekey", summary="Show the encryption under a new master key")
async def show_rekey(request: OperationsCall) -> RekeyProgress:
    """Show how far the encryption has come, and whether older keys may be removed (`finished`)."""
    return await request.read(rekeying.show)


@post("/rekey", status_code=202, summary="Encrypt everything under the newest master key")
async def start_rekey(request: OperationsCall) -> RekeyProgress:
    """It runs in the background, and is refused while a running server encrypts under another key.

    If it is requested again, it continues, or checks everything once more.
    """
    return await request.write(rekeying.start, request.context.keys.key_id)


@delete("/rekey", status_code=200, summary="Stop the encryption under a new master key")
async def stop_rekey(request: OperationsCall) -> RekeyProgress:
    """Stop the encryption. What is done stays done, and both keys are needed until it has been finished."""
    return await request.write(rekeying.stop, request.context.keys.key_id)


@get("/server/usage", summary="Show what is stored")
async def get_usage(request: OperationsCall) -> Response[Usage | SurveyProgress]:
    """Show counts and bytes by kind, the largest modules, and what retention would remove. Administrators only.

    Counting may take minutes. Until it is finished, the answer is 202 and says what is being counted: ask again.
    """
    found = await request.context.surveys.show_usage(request.user)
    return Response(found, status_code=202 if isinstance(found, SurveyProgress) else 200)


@get("/server/retention", summary="Show what retention would remove")
async def get_preview(request: OperationsCall) -> Response[Preview | SurveyProgress]:
    """Show what the settings keep, what the next pass would remove, and which orphans. Administrators only.

    Nothing is removed by this. Until the counting is finished, the answer is 202: ask again.
    """
    found = await request.context.surveys.show_preview(request.user)
    return Response(found, status_code=202 if isinstance(found, SurveyProgress) else 200)
