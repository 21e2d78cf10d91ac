"""The OpenAPI document: what the framework derives from the handlers, completed with what it cannot derive."""

import re
from typing import Any

import msgspec
from litestar import Request
from litestar.openapi.plugins import JsonRenderPlugin

from terracrew.server.http.problem import MEDIA_TYPE
from terracrew.server.openapi import words

_REFERENCE = re.compile(rb'"#/components/schemas/([^"]+)"')
_TEXT = {"schema": {"type": "string"}}
_ANY_OBJECT = {"content": {"application/json": {"schema": {"type": "object"}}}}
_BYTES = {"schema": {"type": "string", "format": "binary"}}

_MEMBERS = {
    "type": {"type": "string"},
    "title": {"type": "string"},
    "status": {"type": "integer"},
    "detail": {"type": "string"},
    "code": {"type": "string"},
    "field": {"type": "string", "description": "The field of the request that is wrong, if it is one."},
}
_PROBLEM = {
    "type": "object",
    "description": "RFC 9457. `code` is stable, `detail` is for people; some problems have members of their own.",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": _MEMBERS,
}
_TOKEN_REQUEST = {
    "type": "object",
    "required": ["grant_type"],
    "properties": {
        "grant_type": {
            "enum": [
                "client_credentials",
                "urn:ietf:params:oauth:grant-type:token-exchange",
                "urn:ietf:params:oauth:grant-type:jwt-bearer",
            ]
        },
        "client_id": {"type": "string"},
        "client_secret": {"type": "string"},
        "subject_token": {"type": "string"},
        "subject_token_type": {"type": "string"},
        "assertion": {"type": "string"},
    },
}
_TOKEN = {
    "type": "object",
    "required": ["access_token", "expires_in", "token_type"],
    "properties": {
        "access_token": {"type": "string"},
        "expires_in": {"type": "integer"},
        "token_type": {"const": "Bearer"},
        "issued_token_type": {"type": "string"},
    },
}
_TOKEN_REFUSED = {
    "type": "object",
    "required": ["error", "error_description"],
    "properties": {"error": {"type": "string"}, "error_description": {"type": "string"}, **_MEMBERS},
}

_REFUSED_BY_OAUTH = {
    "description": "Refused, in the words of RFC 6749",
    "content": {"application/json": {"schema": _TOKEN_REFUSED}, MEDIA_TYPE: {"schema": _PROBLEM}},
}
_DEVICE_REQUEST = {
    "type": "object",
    "required": ["client_id"],
    "properties": {"client_id": {"const": "terracrew-cli"}, "machine": {"type": "string"}},
}
_DEVICE = {
    "type": "object",
    "required": ["device_code", "user_code", "verification_uri", "expires_in", "interval"],
    "properties": {
        "device_code": {"type": "string"},
        "user_code": {"type": "string"},
        "verification_uri": {"type": "string"},
        "expires_in": {"type": "integer"},
        "interval": {"type": "integer"},
    },
}

_UNSEEN: dict[str, dict[str, Any]] = {
    "/api/v1/archives": {"post": {"requestBody": {"content": {"application/gzip": _BYTES}}}},
    "/api/v1/uploads/{upload}/{index}": {
        "put": {"requestBody": {"required": True, "content": {"application/octet-stream": _BYTES}}}
    },
    "/api/v1/audit/export": {
        "get": {"responses": {"200": {"content": {"application/x-ndjson": _TEXT, "text/csv": _TEXT}}}}
    },
    "/api/v1/jobs/{job}/log": {
        "get": {"responses": {"200": {"content": {"text/plain": _TEXT, "application/x-ndjson": _TEXT}}}}
    },
    "/api/v1/modules/{module}/jobs": {
        "post": {
            "responses": {
                "200": {
                    "description": "The job that this Idempotency-Key made before",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Job"}}},
                }
            }
        }
    },
    "/api/v1/modules/{module}/states": {"post": {"requestBody": {"content": {"application/json": _BYTES}}}},
    "/api/v1/modules/{module}/state": {"get": {"responses": {"200": _ANY_OBJECT}}},
    "/api/v1/states/{version}": {"get": {"responses": {"200": _ANY_OBJECT}}},
    "/api/v1/service-accounts/{account_id}/secrets": {"post": {"requestBody": {"required": False}}},
    "/connect/token": {
        "post": {
            "security": [],
            "requestBody": {
                "required": True,
                "content": {"application/x-www-form-urlencoded": {"schema": _TOKEN_REQUEST}},
            },
            "responses": {
                "200": {"content": {"application/json": {"schema": _TOKEN}}},
                "4XX": _REFUSED_BY_OAUTH,
            },
        }
    },
    "/connect/device": {
        "post": {
            "security": [],
            "requestBody": {
                "required": True,
                "content": {"application/x-www-form-urlencoded": {"schema": _DEVICE_REQUEST}},
            },
            "responses": {
                "200": {"content": {"application/json": {"schema": _DEVICE}}},
                "4XX": _REFUSED_BY_OAUTH,
            },
        }
    },
    "/.well-known/jwks.json": {"get": {"security": []}},
}


class Document(JsonRenderPlugin):
    """Serves the document, which is made at the first request."""

    def __init__(self) -> None:
        super().__init__(path=["/openapi.json", "/"])
        self._made: bytes | None = None

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:  # noqa: ARG002
        if self._made is None:
            self._made = msgspec.json.encode(completed(openapi_schema))
        return self._made


def completed(document: dict[str, Any]) -> dict[str, Any]:
    """Add to every operation that it may answer with a problem, and that it needs a token or a session unless it says otherwise."""
    components = document["components"]
    components["schemas"]["Problem"] = _PROBLEM
    components["responses"] = {
        "Problem": {
            "description": "What went wrong, and what to do about it",
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    }
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "An API token, or what /connect/token gave"},
        "session": {"type": "apiKey", "in": "cookie", "name": "terracrew_session"},
    }
    document["security"] = [{"token": []}, {"session": []}]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            operation["responses"].pop("400", None)  # the framework's own shape, which we never send
            operation["responses"]["default"] = {"$ref": "#/components/responses/Problem"}
            _close(components["schemas"], operation.get("requestBody", {}))
            _merge(operation, _UNSEEN.get(path, {}).get(method, {}))
    return words.complete(document)


def _close(schemas: dict[str, Any], part: dict[str, Any]) -> None:
    """Mark every object in a request body as one that refuses unknown fields."""
    for name in _REFERENCE.findall(msgspec.json.encode(part)):
        schema = schemas[name.decode()]
        if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
            schema["additionalProperties"] = False
            _close(schemas, schema)


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if name == "content" or not isinstance(value, dict) or not isinstance(into.get(name), dict):
            into[name] = value
        else:
            _merge(into[name], value)  # pyright: ignore[reportUnknownArgumentType]
