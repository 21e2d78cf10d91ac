"""Turns an error into an answer: a problem for htmx, a page for a person, the login page if nobody is logged in."""

from typing import Any
from urllib.parse import urlsplit

import msgspec
from litestar import Response
from litestar.exceptions import HTTPException
from litestar.response import Redirect

from terracrew.errors import Conflict, Forbidden, NotFound, TerracrewError, Unauthenticated, Unavailable
from terracrew.server.dashboard import render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.http import problem

_TITLES = {
    NotFound.status: "Not found",
    Forbidden.status: "Not allowed",
    Conflict.status: "Not possible now",
    Unavailable.status: "Temporarily unavailable",
}


def from_error(request: DashboardCall, error: TerracrewError) -> Response[Any]:
    if isinstance(error, Unauthenticated):
        return _to_login(request)
    if render.is_fragment(request):
        return problem.from_error(request, error)
    title = _TITLES.get(error.status, "That did not work")
    page = render.answer("error.html", error.status, title=title, detail=error.message)
    if isinstance(error, Unavailable):
        page.headers |= {"Retry-After": "3"}
        if request.method == "GET":
            page.headers |= {"Refresh": "3"}  # the page reloads by itself
    return page


def from_http(request: DashboardCall, error: HTTPException) -> Response[Any]:
    if render.is_fragment(request) or error.status_code >= 500:
        return problem.from_http(request, error)
    title = _TITLES.get(error.status_code, "That did not work")
    return render.answer("error.html", error.status_code, title=title, detail=error.detail)


def from_surprise(request: DashboardCall, error: Exception) -> Response[Any]:
    """Answer an unexpected error. The log has the error, and the page a number to quote."""
    answer = problem.from_surprise(request, error)
    if render.is_fragment(request):
        return answer
    detail = msgspec.json.decode(answer.content)["detail"]
    return render.answer("error.html", answer.status_code or 500, title="Something went wrong", detail=detail)


def from_unrouted(request: DashboardCall, error: HTTPException) -> Response[Any]:
    """Answer an address or a method that no handler has: with a page for a browser, with a problem for a program."""
    is_page = request.scope["path"].startswith(("/dashboard", "/login"))
    if error.status_code == NotFound.status and (is_page or _is_browser(request)) and not render.is_fragment(request):
        detail = f"There is no page at {request.scope['path']}"
        return render.answer("error.html", error.status_code, title=_TITLES[NotFound.status], detail=detail)
    return problem.from_http(request, error)


def _is_browser(request: DashboardCall) -> bool:
    is_api = request.scope["path"].startswith(("/api/", "/connect/", "/static/", "/runnerhub"))
    return not is_api and "text/html" in request.headers.get("Accept", "")


def _to_login(request: DashboardCall) -> Response[Any]:
    to = render.query("/login", next=_asked_for(request))
    if render.is_fragment(request):
        return Response(b"", status_code=401, headers={"HX-Redirect": to})
    return Redirect(to, status_code=303)


def _asked_for(request: DashboardCall) -> str:
    """Return the address of the page that needs the login, if it is a page of the dashboard."""
    if request.method == "GET" and not render.is_fragment(request):
        path, query = request.scope["path"], request.scope["query_string"].decode("latin-1")
    else:
        try:
            where = urlsplit(request.headers.get("HX-Current-URL", ""))
        except ValueError:  # no browser sends this
            return ""
        path, query = where.path, where.query
    local = f"{path}?{query}" if query else path
    return local if local.startswith("/dashboard/") else ""


HANDLERS: dict[int | type[Exception], Any] = {
    TerracrewError: from_error,
    HTTPException: from_http,
    Exception: from_surprise,
}
