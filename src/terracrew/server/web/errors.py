"""The border where an error becomes a page: a problem for htmx, a page for a reader, the way in for a stranger."""

from typing import Any
from urllib.parse import urlsplit

from litestar import Response
from litestar.exceptions import HTTPException
from litestar.response import Redirect

from terracrew.errors import Conflict, Forbidden, NotFound, TerracrewError, Unauthenticated
from terracrew.server import problem
from terracrew.server.request import Call
from terracrew.server.web import render

_TITLES = {NotFound.status: "Not here", Forbidden.status: "Not allowed", Conflict.status: "Not now"}


def from_error(request: Call, error: TerracrewError) -> Response[Any]:
    if isinstance(error, Unauthenticated):
        return _to_login(request)
    if render.is_fragment(request):
        return problem.from_error(request, error)
    title = _TITLES.get(error.status, "That did not work")
    return render.answer("error.html", error.status, title=title, detail=error.message)


def from_http(request: Call, error: HTTPException) -> Response[Any]:
    if render.is_fragment(request) or error.status_code >= 500:
        return problem.from_http(request, error)
    title = _TITLES.get(error.status_code, "That did not work")
    return render.answer("error.html", error.status_code, title=title, detail=error.detail)


def _to_login(request: Call) -> Response[Any]:
    is_look = request.method == "GET" and not render.is_fragment(request)
    where = urlsplit(str(request.url) if is_look else request.headers.get("HX-Current-URL", ""))
    local = f"{where.path}?{where.query}" if where.query else where.path
    to = render.query("/login", next=local if local.startswith("/dashboard/") else "")
    if render.is_fragment(request):
        return Response(b"", status_code=401, headers={"HX-Redirect": to})
    return Redirect(to, status_code=303)


HANDLERS: dict[int | type[Exception], Any] = {TerracrewError: from_error, HTTPException: from_http}
