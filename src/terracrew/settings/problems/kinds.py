"""Finds the mistakes beside a missing or wrong `kind`, without which the settings library does not look at a section."""

from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from terracrew.settings.suggestions import tagged
from terracrew.settings.trees import Tree, find

TAG_ERRORS = ("union_tag_not_found", "union_tag_invalid")


def beside(model: type[BaseModel], values: Tree, problem: ErrorDetails) -> list[ErrorDetails]:
    """Return the further errors of a section if the problem is that its kind is not known."""
    if problem["type"] not in TAG_ERRORS:
        return []
    return _of_section(model, values, [str(part) for part in problem["loc"]])


def _of_section(model: type[BaseModel], values: Tree, path: list[str]) -> list[ErrorDetails]:
    """Return what is wrong by the first kind that knows a setting. A setting that no kind knows is reported once."""
    given: Any = find(values, path)
    candidates = tagged(model, path)
    found: dict[str, list[ErrorDetails]] = {}
    for tag, kind in candidates.items():
        errors: list[ErrorDetails] = []
        try:
            kind.model_validate({**given, "kind": tag})
        except ValidationError as error:
            errors = error.errors(include_url=False)
        for name in given:
            is_known = name in kind.model_fields
            if name in found or (not is_known and any(name in other.model_fields for other in candidates.values())):
                continue
            found[name] = [
                {**each, "loc": (*path, tag, *each["loc"])} for each in errors if each["loc"] and each["loc"][0] == name
            ]
    return [each for errors in found.values() for each in errors]
