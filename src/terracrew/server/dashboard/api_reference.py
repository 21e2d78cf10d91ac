"""The API reference at `/api` and the OpenAPI document at `/openapi.json`. Both are public: they contain no data."""

import re
from functools import cache
from typing import Any

import msgspec
from litestar import Response, get
from markupsafe import Markup, escape

from terracrew.server.dashboard import render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.openapi import fields
from terracrew.server.openapi.document import completed
from terracrew.server.openapi.fields import FieldRow

_CODE = re.compile(r"`([^`]+)`")
_ANY = "<…>"


class Operation(msgspec.Struct, frozen=True):
    id: str
    method: str
    path: str
    summary: str
    description: Markup
    command: str
    example: str
    parameters: list[FieldRow]
    body: list[FieldRow]
    answer: list[FieldRow]
    answer_name: str


class Section(msgspec.Struct, frozen=True):
    name: str
    text: str
    operations: list[Operation]


@get("/openapi.json", public=True, ignores_credentials=True, include_in_schema=False)
async def document(request: DashboardCall) -> Response[bytes]:
    return Response(_encoded(request), media_type="application/json")


@get("/api", public=True, ignores_credentials=True, include_in_schema=False)
async def page(request: DashboardCall) -> Response[Any]:
    found: dict[str, Any] = msgspec.json.decode(_encoded(request))
    return render.answer(
        "api_reference/page.html",
        sections=sections(found),
        introduction=prose(found["info"]["description"]),
        prose=prose,
    )


def sections(found: dict[str, Any]) -> list[Section]:
    """Return the operations by section, in the order of the document."""
    schemas = found["components"]["schemas"]
    by_tag: dict[str, list[Operation]] = {tag["name"]: [] for tag in found["tags"]}
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            by_tag[operation["tags"][0]].append(_operation(method, path, operation, schemas))
    return [Section(tag["name"], tag["description"], by_tag[tag["name"]]) for tag in found["tags"]]


def prose(text: str) -> Markup:
    """Return a text as paragraphs, with `code` marked. Everything else is escaped."""
    paragraphs = (" ".join(each.split()) for each in text.split("\n\n"))
    marked = (_CODE.sub(r"<code>\1</code>", str(escape(each))) for each in paragraphs if each)
    return Markup("".join(f"<p>{each}</p>" for each in marked))  # noqa: S704 - each part was escaped above


def _operation(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> Operation:
    content = operation.get("requestBody", {}).get("content", {})
    body = fields.of_content(content, schemas)
    responses: dict[str, dict[str, Any]] = operation["responses"]
    answers = [each for status, each in responses.items() if status.startswith("2")]
    answer: dict[str, dict[str, Any]] = answers[-1].get("content", {}) if answers else {}
    schema: dict[str, Any] = answer.get("application/json", {}).get("schema", {})
    return Operation(
        id=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        description=prose(operation["description"]),
        command=operation.get("x-terracrew-command", ""),
        example=_example(method, path, content, body),
        parameters=fields.parameters(operation, schemas),
        body=body,
        answer=fields.of_content(answer, schemas),
        answer_name=schema.get("$ref", "").rpartition("/")[2] or next(iter(answer), "nothing"),
    )


def _example(method: str, path: str, content: dict[str, Any], body: list[FieldRow]) -> str:
    """Return a curl command for a request, with the required fields."""
    words = ["curl", "-X " + method.upper()] if method != "get" else ["curl"]
    words += ['-H "Authorization: Bearer $TERRACREW_TOKEN"']
    if "application/json" in content:
        required = {each.name: (each.choices or [_ANY])[0] for each in body if each.is_required and not each.depth}
        words += ['-H "Content-Type: application/json"', f"-d '{msgspec.json.encode(required).decode()}'"]
    elif content:
        words += [f'-H "Content-Type: {next(iter(content))}"', "--data-binary @FILE"]
    return " \\\n  ".join([*words, f'"$TERRACREW_URL{path}"'])


@cache
def _made(app: Any) -> bytes:
    return msgspec.json.encode(completed(app.openapi_schema.to_schema()))


def _encoded(request: DashboardCall) -> bytes:
    return _made(request.app)
