"""Refuses query parameters that an operation of the API does not have, so that a misspelt one is not silently ignored."""

from difflib import get_close_matches
from functools import cache
from typing import Any

from litestar import Request
from litestar.handlers import HTTPRouteHandler
from litestar.types.internal_types import PathParameterDefinition

from terracrew.errors import Invalid

API = "/api/v1/"
MAX_QUOTED_CHARACTERS = 60


async def refuse_unknown(request: Request[Any, Any, Any]) -> None:
    """Refuse a query parameter of an API operation that the operation does not have. Pages of the dashboard are not checked."""
    if not request.scope["path"].startswith(API) or not request.scope["query_string"]:
        return
    known = _known(request.route_handler, frozenset(request.scope["path_params"]))
    for name in request.query_params:
        if name not in known:
            raise _refusal(name, known)


@cache
def _known(handler: HTTPRouteHandler, path_parameters: frozenset[str]) -> frozenset[str]:
    in_path = {name: PathParameterDefinition(name, name, str, None) for name in path_parameters}
    return frozenset(each.field_alias for each in handler.create_kwargs_model(in_path).expected_query_params)


def _refusal(name: str, known: frozenset[str]) -> Invalid:
    shown = name if len(name) <= MAX_QUOTED_CHARACTERS else name[:MAX_QUOTED_CHARACTERS] + "…"
    nearest = get_close_matches(name[:MAX_QUOTED_CHARACTERS], known, 1)
    rest = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
    words = f"did you mean {nearest[0]!r}? It takes {', '.join(sorted(known))}" if nearest else rest
    message = f"there is no query parameter {shown!r} here: {words}"
    return Invalid(message, errors=[{"field": shown, "message": message}])
