"""Applies PATCH operations to a resource, in the forms that identity providers really send. Pure functions on plain values.

Entra ID writes operations with a capital letter, `active` as the text "False", and paths such as `emails[type eq "work"].value`
for an address that does not exist yet. Okta sends a PATCH without a path, with the attributes as its value. Attributes that are
not known here are passed over, because identity providers send many more.
"""

import re
from typing import Any, cast

import msgspec

from terracrew.server.scim import filters, schemas
from terracrew.server.scim.errors import ScimRefusal
from terracrew.server.scim.schemas import Attribute

MAX_OPERATIONS = 200
MAX_EXAMINED_ITEMS = 1_000_000
"""How many items of lists, such as members, all operations of a request may look at together: nobody else is served meanwhile."""
MAX_PATH_CHARACTERS = 500
_PATH = re.compile(
    r"(?P<name>(?:urn:[\w.:-]+:)?[A-Za-z$][\w$-]*)(?:\[(?P<filter>[^\[\]]*)\])?(?:\.(?P<part>[A-Za-z$][\w$-]*))?",
    re.IGNORECASE,
)
_OPERATIONS = ("add", "replace", "remove")


class PatchPath(msgspec.Struct, frozen=True):
    name: str
    conditions: tuple[filters.FilterComparison, ...] = ()
    part: str = ""


def apply(resource: dict[str, Any], document: Any, attributes: tuple[Attribute, ...]) -> dict[str, Any]:
    """Return the resource after all operations of a PATCH request, or refuse all of them."""
    given = _lowered(document).get("operations")
    if not isinstance(given, list) or not given:
        raise ScimRefusal(400, "a PATCH has a list of Operations", "invalidSyntax")
    operations = cast("list[Any]", given)
    if len(operations) > MAX_OPERATIONS:
        raise ScimRefusal(413, f"a PATCH has at most {MAX_OPERATIONS} operations")
    found, examined = resource, 0
    for each in operations:
        examined += sum(len(cast("list[Any]", value)) for value in found.values() if isinstance(value, list))
        if examined > MAX_EXAMINED_ITEMS:
            raise ScimRefusal(413, "these are too many operations on such long lists: send them in several requests")
        operation = _lowered(each)
        name = str(operation.get("op", "")).lower()
        if name not in _OPERATIONS:
            raise ScimRefusal(400, "the op of an operation is add, replace or remove", "invalidSyntax")
        found = _apply(found, name, operation.get("path"), operation.get("value"), attributes)
    return found


def _apply(
    resource: dict[str, Any], op: str, path: Any, value: Any, attributes: tuple[Attribute, ...]
) -> dict[str, Any]:
    if path is None or path == "":
        if op == "remove":
            raise ScimRefusal(400, "a remove names what to remove in its path", "noTarget")
        if not isinstance(value, dict):
            raise ScimRefusal(400, "an operation without a path has an object as its value", "invalidValue")
        for name, inner in cast("dict[str, Any]", value).items():
            if name.lower() not in ("schemas", "id", "meta") and not name.lower().startswith("urn:"):
                resource = _apply(resource, op, name, inner, attributes)
        return resource
    wanted = parse_path(path)
    attribute = schemas.attribute(attributes, wanted.name)
    if attribute is None or attribute.is_read_only:
        return resource
    if op == "remove" and attribute.is_required:
        raise ScimRefusal(400, f"{attribute.name} cannot be removed, only replaced", "invalidValue")
    before = resource.get(attribute.name)
    after = _changed(attribute, before, op, wanted, value)
    return {name: each for name, each in {**resource, attribute.name: after}.items() if each is not None}


def parse_path(path: Any) -> PatchPath:
    found = _PATH.fullmatch(path) if isinstance(path, str) and len(path) <= MAX_PATH_CHARACTERS else None
    if found is None:
        raise ScimRefusal(400, "the path of an operation is not one that is known here", "invalidPath")
    conditions = filters.parse(found["filter"]) if found["filter"] is not None else ()
    name = found["name"]
    if name.lower().startswith("urn:") and not name.lower().startswith((schemas.USER.lower(), schemas.GROUP.lower())):
        return PatchPath(name)  # of an extension, which is not known here
    return PatchPath(filters.attribute_name(name), conditions, found["part"] or "")


def _changed(attribute: Attribute, before: Any, op: str, path: PatchPath, value: Any) -> Any:
    if attribute.is_many:
        return _changed_list(attribute, list(before or []), op, path, value)
    if attribute.kind == "complex":
        return _changed_parts(attribute, dict(before or {}), op, path.part, value)
    if op == "remove":
        return None
    return converted(attribute, value)


def _changed_parts(attribute: Attribute, before: dict[str, Any], op: str, part: str, value: Any) -> Any:
    if op == "remove":
        kept = {name: each for name, each in before.items() if part and name.lower() != part.lower()}
        return kept or None
    given = {part: value} if part else value
    return {**before, **converted(msgspec.structs.replace(attribute, is_many=False), given)}


def _changed_list(attribute: Attribute, before: list[dict[str, Any]], op: str, path: PatchPath, value: Any) -> Any:
    if path.conditions or path.part:
        return _changed_items(attribute, before, op, path, value)
    if op == "remove":
        if value is None:
            return None
        gone = {each.get("value") for each in converted(attribute, value)}
        return [each for each in before if each.get("value") not in gone]
    given: list[dict[str, Any]] = converted(attribute, value)
    return given if op == "replace" else _joined(before, given)


def _changed_items(attribute: Attribute, before: list[dict[str, Any]], op: str, path: PatchPath, value: Any) -> Any:
    matching = filters.matching(path.conditions, before)
    if op == "remove":
        if not path.part or path.part.lower() == "value":
            return [each for each, is_match in zip(before, matching, strict=True) if not is_match]
        part = path.part.lower()
        return [
            {name: inner for name, inner in each.items() if not is_match or name.lower() != part}
            for each, is_match in zip(before, matching, strict=True)
        ]
    item = msgspec.structs.replace(attribute, is_many=False)
    given: dict[str, Any] = converted(item, {path.part: value} if path.part else value)
    if any(matching):
        changed = [each | given if is_match else each for each, is_match in zip(before, matching, strict=True)]
        return _joined([], changed, given)
    conditions = {each.attribute: each.value for each in path.conditions}
    made = converted(item, conditions) | given
    return _joined(before, [made]) if made.get("value") else before


def _joined(
    before: list[dict[str, Any]], given: list[dict[str, Any]], preferred: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return both lists. One item is the primary one: the one that came last."""
    has_new = any(each.get("primary") is True for each in ([preferred] if preferred else given))
    known = {each.get("value") for each in given}
    kept = [each for each in before if each.get("value") not in known]
    return [({**each, "primary": False} if has_new and each.get("primary") else each) for each in kept] + given


def converted(attribute: Attribute, value: Any) -> Any:
    """Return a value of a request in the form that is kept, or refuse it."""
    if attribute.is_many:
        items = cast("list[Any]", value) if isinstance(value, list) else [value]
        one = msgspec.structs.replace(attribute, is_many=False)
        found = [converted(one, {"value": each} if isinstance(each, str) else each) for each in items]
        return [each for each in found if each.get("value")]
    if attribute.kind == "complex":
        if not isinstance(value, dict):
            raise _invalid(attribute, "an object")
        given = cast("dict[str, Any]", value)
        known = {name: part for name in given if (part := attribute.part(name)) is not None and not part.is_read_only}
        return {part.name: converted(part, given[name]) for name, part in known.items() if given[name] is not None}
    if attribute.kind == "boolean":
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if not isinstance(value, bool):
            raise _invalid(attribute, "true or false")
        return value
    if not isinstance(value, str):
        raise _invalid(attribute, "a text")
    return value


def read(document: Any, attributes: tuple[Attribute, ...]) -> dict[str, Any]:
    """Return the attributes of a whole resource that is sent with POST or PUT. A null is the same as nothing."""
    if not isinstance(document, dict):
        raise ScimRefusal(400, "a resource is an object", "invalidSyntax")
    found: dict[str, Any] = {}
    for name, value in cast("dict[str, Any]", document).items():
        attribute = schemas.attribute(attributes, name)
        if attribute is not None and not attribute.is_read_only and value is not None:
            found[attribute.name] = converted(attribute, value)
    return found


def _lowered(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ScimRefusal(400, "an object is expected here", "invalidSyntax")
    return {name.lower(): value for name, value in cast("dict[str, Any]", document).items()}


def _invalid(attribute: Attribute, expected: str) -> ScimRefusal:
    return ScimRefusal(400, f"{attribute.name} is {expected}", "invalidValue")
