"""JSON:API as the engines' command lines speak it: resources with attributes and relationships, pages, and errors."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.params import QueryParameter

from terracrew.errors import Invalid, TerracrewError
from terracrew.server.http import problem
from terracrew.server.http.request import refuse_nul

MEDIA_TYPE = "application/vnd.api+json"
MAX_PAGE_ITEMS = 100
PageNumber = Annotated[int, QueryParameter(name="page[number]", ge=1, le=1_000_000)]
PageSize = Annotated[int, QueryParameter(name="page[size]", ge=1, le=1_000)]


class Identifier(msgspec.Struct, frozen=True):
    """What a relationship leads to."""

    type: str
    id: str


class Relationship(msgspec.Struct, frozen=True):
    data: Identifier | list[Identifier] | None = None


class ApiResource(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str
    id: str
    attributes: Any
    relationships: dict[str, Relationship] = {}
    links: dict[str, str] = {}

    @property
    def identifier(self) -> Identifier:
        return Identifier(self.type, self.id)


class GivenResource(msgspec.Struct, frozen=True):
    """A resource in a request. Attributes that are not known here are ignored, because each version of the clients has new ones."""

    type: str = ""
    id: str = ""
    attributes: dict[str, Any] = {}
    relationships: dict[str, "GivenDocument"] = {}


class GivenDocument(msgspec.Struct, frozen=True):
    """A request, or where a relationship in it leads: the clients send new resources there with their attributes."""

    data: GivenResource | list[GivenResource] | None = None


_document = msgspec.json.Decoder(GivenDocument)


class Attributes(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The attributes of a resource, under the names that they have in the interface."""


def moment(at: datetime) -> str:
    """Return a time in the only form that the clients read."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to(resource_type: str, resource_id: str | None) -> Relationship:
    """Return a relationship to one resource, or to none."""
    return Relationship(Identifier(resource_type, resource_id) if resource_id else None)


def answer(
    data: ApiResource | None,
    *,
    status: int = 200,
    included: Sequence[ApiResource] = (),
    headers: Mapping[str, str] = {},
) -> Response[bytes]:
    body: dict[str, Any] = {"data": data}
    if included:
        body["included"] = included
    return _respond(body, status, headers)


def answer_list(data: Iterable[ApiResource], number: int, size: int, total: int, **members: Any) -> Response[bytes]:
    """Answer with one page of a list of `total` resources."""
    pages = max(1, -(-total // size))
    pagination = {
        "current-page": number,
        "prev-page": number - 1 if number > 1 else None,
        "next-page": number + 1 if number < pages else None,
        "page-size": size,
        "total-count": total,
        "total-pages": pages,
    }
    return _respond({"data": list(data), "meta": {"pagination": pagination}, **members}, 200, {})


def done(status: int = 200) -> Response[bytes]:
    """Answer a request that has no result."""
    return _respond({}, status, {}) if status != HTTPStatus.NO_CONTENT else Response(b"", status_code=status)


def _respond(body: Any, status: int, headers: Mapping[str, str]) -> Response[bytes]:
    return Response(msgspec.json.encode(body), status_code=status, media_type=MEDIA_TYPE, headers=headers)


async def given(request: Request[Any, Any, Any]) -> GivenResource:
    """Read the one resource of a request. A request without a body has an empty one."""
    return read(await request.body())


def read(body: bytes) -> GivenResource:
    """Read the one resource of a body."""
    found = _read(body)
    if isinstance(found, list):
        raise Invalid("one resource is expected here, not a list")
    return found or GivenResource()


async def given_list(request: Request[Any, Any, Any]) -> list[GivenResource]:
    found = _read(await request.body())
    if not isinstance(found, list):
        raise Invalid("a list of resources is expected here")
    return found


def _read(body: bytes) -> GivenResource | list[GivenResource] | None:
    refuse_nul(body)
    try:
        return _document.decode(body).data if body.strip() else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"the request is not a document of JSON:API: {error}") from None


def related(resource: GivenResource, name: str) -> str:
    """Return the id to which a relationship of a request leads; empty if it leads to nothing."""
    found = resource.relationships.get(name, GivenDocument()).data
    return found.id if isinstance(found, GivenResource) else ""


def related_list(resource: GivenResource, name: str) -> list[GivenResource]:
    found = resource.relationships.get(name, GivenDocument()).data
    return found if isinstance(found, list) else []


def flag(resource: GivenResource, name: str, *, default: bool = False) -> bool:
    value = resource.attributes.get(name)
    return default if value is None else value is True


def text(resource: GivenResource, name: str) -> str:
    value = resource.attributes.get(name)
    return value if isinstance(value, str) else ""


def from_error(_: Request[Any, Any, Any], error: TerracrewError) -> Response[bytes]:
    """Answer with an error. The clients show its title and its detail, so the words stand in one of them only."""
    headers: dict[str, str] = {}
    if error.status == HTTPStatus.TOO_MANY_REQUESTS:
        wait = float(error.details.get("retry_after", problem.RETRY_AFTER_SECONDS))
        headers = {"X-RateLimit-Reset": f"{wait:.1f}", "Retry-After": str(int(wait) + 1)}
    return refused(error.status, error.message, headers)


def from_http(_: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    return refused(error.status_code, error.detail, error.headers or {})


def from_surprise(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    found = msgspec.json.decode(problem.from_surprise(request, error).content)
    return refused(found["status"], found["detail"], {})


def refused(status: int, words: str, headers: Mapping[str, str] = {}) -> Response[bytes]:
    error = {"status": str(status), "title": words}
    return _respond({"errors": [error]}, status, headers)


HANDLERS: dict[int | type[Exception], Any] = {
    TerracrewError: from_error,
    HTTPException: from_http,
    Exception: from_surprise,
}
