"""The way to a provider of single sign-on and back: a button of the login page leads there, and the provider leads back here."""

from typing import Any
from urllib.parse import urlencode

from litestar import Response, get, post
from litestar.datastructures import Cookie
from litestar.params import FromPath, FromQuery
from litestar.response import Redirect

from terracrew import ids
from terracrew.errors import Invalid
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.access import login
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.http.request import address_of
from terracrew.server.identity.people import sessions
from terracrew.server.identity.sso import departures, logouts, self_links, service
from terracrew.server.identity.sso.model import SignInFailed

_NEVER_KEPT = {"Cache-Control": "no-store"}


@get("/login/sso/{provider:str}", public=True)
async def begin(
    request: DashboardCall,
    provider: FromPath[str],
    next: FromQuery[str] = "",  # noqa: A002
) -> Response[Any]:
    """Lead the browser to the provider, with a cookie by which it is known again.

    Another site gets our login page instead: it could otherwise log a person in at a provider of its own, as a user of its own.
    """
    if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        return Redirect(f"/login?{urlencode({'next': login.local(next)})}", status_code=303)
    try:
        url, sealed = await request.context.identity.sso.begin(_id(provider), login.local(next))
    except SignInFailed as failed:
        return failure(failed.reason, provider)
    return Redirect(url, status_code=303, cookies=[cookie(request, sealed)])


@get("/login/sso/{provider:str}/callback", public=True)
async def callback(request: DashboardCall, provider: FromPath[str]) -> Response[Any]:
    """Let in somebody who comes back from the provider, or say why not."""
    given = {name: values[0] for name, values in request.query_params.dict().items() if len(values) == 1}
    name = sessions.cookie_name(service.COOKIE, secure=_is_secure(request))
    try:
        found = await request.context.identity.sso.complete(
            _id(provider), request.cookies.get(name, ""), given, address_of(request), request.user
        )
        arrival = found.arrival
        if arrival.user is None:
            raise SignInFailed(arrival.reason)
    except SignInFailed as failed:
        is_logged_in = request.user is not None  # pyright: ignore[reportUnnecessaryComparison] (public: there may be nobody)
        answer = failure(failed.reason, provider, is_logged_in=is_logged_in)
    else:
        to = login.local(found.next)
        if arrival.session is not None:
            answer = login.let_in(request, arrival.session, arrival.user.name, to)
        else:
            answer = Redirect(to, status_code=303)  # a person who was logged in has linked themselves
    answer.set_cookie(cookie(request, "", max_age_seconds=0))
    return answer


@get("/login/sso/{provider:str}/logout", public=True)
async def leave(request: DashboardCall, provider: FromPath[str]) -> Response[Any]:
    """Lead somebody who has logged out here to the logout of their provider.

    It is a page of its own that leads there: the rule for forms in the content security policy would stop a redirect of the form.
    """
    if request.user is not None:  # pyright: ignore[reportUnnecessaryComparison] (public: there may be nobody)
        return Redirect(login.HOME, status_code=303)
    sso = request.context.identity.sso
    try:
        url = await departures.logout_address(sso, _id(provider))
        name = (await sso.enabled(_id(provider))).name
    except SignInFailed:
        url, name = None, ""
    if url is None:
        return Redirect("/login", status_code=303)
    words = "You are logged out of Terracrew. Your provider asks whether you want to log out there, too."
    return leading(url, f"Log out at {name}", words)


@post("/dashboard/account/links/{provider:str}", status_code=200, in_any_organization=True)
async def begin_link(request: DashboardCall, provider: FromPath[str]) -> Response[Any]:
    """Lead a person who links themselves to the provider."""
    provider_id = ids.parse("idp", provider)
    await request.read(self_links.require_allowed, provider_id)
    sso, session_id = request.context.identity.sso, request.user.credential_id or ""
    try:
        url, sealed = await sso.begin(provider_id, "/dashboard/account", session_id)
        name = (await sso.enabled(provider_id)).name
    except SignInFailed as failed:
        return failure(failed.reason, provider, is_logged_in=True)
    answer = leading(url, f"Continue to {name}", "Log in there. You come back to your account page afterwards.")
    answer.set_cookie(cookie(request, sealed))
    return answer


@post("/login/sso/{provider:str}/backchannel-logout", public=True, status_code=200)
async def back_channel_logout(request: DashboardCall, provider: FromPath[str]) -> Response[Any]:
    """End the sessions that a provider's logout token names."""
    given = (await forms.read_texts(request)).get("logout_token", "")
    try:
        await logouts.back_channel(request.context.identity.sso, _id(provider), given, address_of(request))
    except SignInFailed as failed:
        said = {"error": "invalid_request", "error_description": failed.reason}
        return Response(said, status_code=400, headers=_NEVER_KEPT)
    return Response(b"", status_code=200, headers=_NEVER_KEPT)


@get("/login/sso/{provider:str}/frontchannel-logout", public=True)
async def front_channel_logout(
    request: DashboardCall, provider: FromPath[str], iss: FromQuery[str] = "", sid: FromQuery[str] = ""
) -> Response[Any]:
    """End the session that a provider's logout page names. That page loads this address, so the browser shows it to nobody."""
    try:
        await logouts.front_channel(request.context.identity.sso, _id(provider), iss, sid, address_of(request))
    except SignInFailed as failed:
        return Response(failed.reason, status_code=400, media_type="text/plain", headers=_NEVER_KEPT)
    return Response("", media_type="text/plain", headers=_NEVER_KEPT)


def cookie(request: DashboardCall, sealed: str, max_age_seconds: int = service.ATTEMPT_SECONDS) -> Cookie:
    """Return the cookie of a login that is under way. `lax`, because the browser comes back from another site."""
    secure = _is_secure(request)
    return Cookie(
        key=sessions.cookie_name(service.COOKIE, secure=secure),
        value=sealed,
        path="/",
        httponly=True,
        samesite="lax",
        secure=secure,
        max_age=max_age_seconds,
    )


def failure(reason: str, provider: str, *, is_logged_in: bool = False) -> Response[Any]:
    shown: dict[str, Any] = {"reason": reason, "provider": provider, "is_logged_in": is_logged_in}
    return render.answer("access/login/failed_page.html", 403, **shown)


def leading(url: str, button: str, words: str) -> Response[Any]:
    """Return a page that leads to the provider by itself, and by a link."""
    return render.answer("access/login/leading_page.html", url=url, button=button, words=words)


def _id(provider: str) -> str:
    try:
        return ids.parse("idp", provider)
    except Invalid:
        raise SignInFailed("there is no such provider, or it is disabled") from None


def _is_secure(request: DashboardCall) -> bool:
    return sessions.is_secure(request, request.context.identity.url)
