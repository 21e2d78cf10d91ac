"""Turns people and groups into resources and back."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from terracrew.server.identity.provisioning import model
from terracrew.server.identity.provisioning.model import (
    Email,
    GroupData,
    GroupSeen,
    Lookup,
    PersonData,
    PersonName,
    PersonSeen,
)
from terracrew.server.scim import filters, schemas
from terracrew.server.scim.errors import ScimRefusal


def person_attributes(seen: PersonSeen) -> dict[str, Any]:
    """Return what an identity provider can change of a person."""
    person = seen.person
    name = {"formatted": person.name.formatted, "familyName": person.name.family, "givenName": person.name.given}
    emails = [
        {"value": each.value}
        | ({"type": each.type} if each.type else {})
        | ({} if each.is_primary is None else {"primary": each.is_primary})
        for each in person.emails
    ]
    found = {
        "externalId": person.external_id,
        "userName": person.user_name,
        "name": {part: text for part, text in name.items() if text},
        "displayName": person.display_name,
        "emails": emails,
    }
    return {each: value for each, value in found.items() if value} | {"active": seen.is_active}


def person(seen: PersonSeen, base: str) -> dict[str, Any]:
    groups = [
        {"value": group_id, "display": name, "$ref": f"{base}/Groups/{group_id}"} for group_id, name in seen.groups
    ]
    return {
        "schemas": [schemas.USER],
        "id": seen.person.user_id,
        **person_attributes(seen),
        **({"groups": groups} if groups else {}),
        "meta": _meta("User", f"{base}/Users/{seen.person.user_id}", seen.person.created_at, seen.person.changed_at),
    }


def person_data(given: Mapping[str, Any]) -> PersonData:
    name = given.get("name", {})
    emails = tuple(
        Email(_text(each["value"], "emails"), _text(each.get("type", ""), "emails"), each.get("primary"))
        for each in given.get("emails", ())
    )
    if len(emails) > model.MAX_EMAILS:
        raise ScimRefusal(400, f"a person has at most {model.MAX_EMAILS} addresses of e-mail", "invalidValue")
    return PersonData(
        _required(given, "userName"),
        _text(given.get("externalId", ""), "externalId"),
        _text(given.get("displayName", ""), "displayName"),
        PersonName(*(_text(name.get(part, ""), "name") for part in ("formatted", "givenName", "familyName"))),
        emails,
        given.get("active", True),
    )


def group_attributes(seen: GroupSeen) -> dict[str, Any]:
    found = {"externalId": seen.group.external_id} if seen.group.external_id else {}
    members = [{"value": user_id} for user_id, _ in seen.members]
    return {**found, "displayName": seen.group.display_name, **({"members": members} if members else {})}


def group(seen: GroupSeen, base: str) -> dict[str, Any]:
    members = [{"value": user_id, "$ref": f"{base}/Users/{user_id}"} for user_id, _ in seen.members]
    return {
        "schemas": [schemas.GROUP],
        "id": seen.group.id,
        **group_attributes(seen),
        **({"members": members} if members else {}),
        "meta": _meta("Group", f"{base}/Groups/{seen.group.id}", seen.group.created_at, seen.group.changed_at),
    }


def group_data(given: Mapping[str, Any]) -> GroupData:
    members = tuple(dict.fromkeys(each["value"] for each in given.get("members", ())))
    return GroupData(_required(given, "displayName"), _text(given.get("externalId", ""), "externalId"), members)


_LOOKUPS = {
    "users": {"username": "user_name", "externalid": "external_id", "id": "resource_id", "displayname": "display_name"}
    | {"emails.value": "email", "emails": "email", "active": "is_active"},
    "groups": {"displayname": "display_name", "externalid": "external_id", "id": "resource_id", "members": "member_id"}
    | {"members.value": "member_id"},
}


def lookup(kind: str, text: str) -> Lookup | None:
    """Return what a filter asks for; None if nothing can match, because an attribute is to have two values."""
    found: dict[str, Any] = {}
    for each in filters.parse(text) if text else ():
        field = _LOOKUPS[kind].get(each.attribute)
        if field is None or isinstance(each.value, bool) is not (field == "is_active"):
            raise ScimRefusal(400, f"{each.attribute[:60]} cannot be compared with this here", "invalidFilter")
        value = each.value if isinstance(each.value, bool) else str(each.value)
        if found.setdefault(field, value) != value:
            return None
    return Lookup(**found)


def projected(resource: dict[str, Any], wanted: str, excluded: str) -> dict[str, Any]:
    """Return the attributes that the caller asked for. `id` and `schemas` are always there."""
    names = {_first(each) for each in wanted.split(",") if each.strip()}
    without = {_first(each) for each in excluded.split(",") if each.strip()}
    return {
        name: value
        for name, value in resource.items()
        if name in ("id", "schemas") or ((not names or name.lower() in names) and name.lower() not in without)
    }


def has_members(wanted: str, excluded: str) -> bool:
    """Return whether the caller asks for the members of groups. Large groups have many."""
    return "members" in projected({"members": []}, wanted, excluded)


def listing(resources: Iterable[dict[str, Any]], total: int, start_index: int) -> dict[str, Any]:
    found = list(resources)
    return {
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
        "totalResults": total,
        "startIndex": start_index,
        "itemsPerPage": len(found),
        "Resources": found,
    }


def _first(name: str) -> str:
    return filters.attribute_name(name.strip()).partition(".")[0].lower()


def _required(given: Mapping[str, Any], name: str) -> str:
    text = _text(given.get(name, ""), name).strip()
    if not text:
        raise ScimRefusal(400, f"{name} is missing", "invalidValue")
    return text


def _text(text: str, name: str) -> str:
    if len(text) > model.MAX_TEXT_CHARACTERS or not text.isprintable():
        words = f"{name} has more than {model.MAX_TEXT_CHARACTERS} characters, or some that cannot be printed"
        raise ScimRefusal(400, words, "invalidValue")
    return text


def _meta(kind: str, location: str, created_at: datetime, changed_at: datetime) -> dict[str, str]:
    created, changed = (at.astimezone(UTC).isoformat(timespec="milliseconds") for at in (created_at, changed_at))
    return {"resourceType": kind, "created": created, "lastModified": changed, "location": location}
