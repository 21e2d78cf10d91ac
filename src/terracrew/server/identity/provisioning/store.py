"""The rows of provisioning."""

from collections.abc import Iterable
from typing import LiteralString

from terracrew.api.provisioning import ProvisionedGroupListed, ProvisionedListed, Provisioner
from terracrew.server.db.seam import Param, Tx
from terracrew.server.db.statements.mapping import row_to, rows_to, to_params
from terracrew.server.db.statements.table import Table, assignments, excluded_assignments
from terracrew.server.identity.provisioning import model
from terracrew.server.identity.provisioning.model import (
    GroupSeen,
    Lookup,
    PersonSeen,
    ProvisionedGroup,
    ProvisionedPerson,
)

MAX_LISTED_MEMBERS = model.MAX_MEMBERS
"""The most members of all groups of one page. A page may have fewer groups than it was asked for (RFC 7644, 3.4.2.4)."""
PROVISIONERS = Table("provisioners", Provisioner)
PEOPLE = Table("provisioned_people", ProvisionedPerson)
GROUPS = Table("provisioned_groups", ProvisionedGroup)
_KEPT = ("id", "user_id", "organization_id", "created_at")
_OF_PERSON: tuple[LiteralString, ...] = tuple(each for each in PEOPLE.fields if each not in _KEPT)
_OF_GROUP: tuple[LiteralString, ...] = tuple(each for each in GROUPS.fields if each not in _KEPT)
_SET_PROVISIONER: LiteralString = f"""{PROVISIONERS.insert()} ON CONFLICT (organization_id) DO UPDATE
    SET {excluded_assignments("service_account_id", "provider_id", "created_by", "created_at")}"""

# Who may provision


async def provisioner(tx: Tx, organization_id: str) -> Provisioner | None:
    return await PROVISIONERS.find(tx, organization_id=organization_id)


async def hold_provisioner(tx: Tx, organization_id: str) -> Provisioner | None:
    """Return the provisioner of an organization, whose row is locked: one change by an identity provider follows another."""
    return await PROVISIONERS.hold(tx, organization_id=organization_id)


async def set_provisioner(tx: Tx, made: Provisioner) -> None:
    await tx.run(_SET_PROVISIONER, **to_params(made))


async def delete_provisioner(tx: Tx, organization_id: str) -> bool:
    return await tx.run("DELETE FROM provisioners WHERE organization_id = :id", id=organization_id) == 1


async def count(tx: Tx, organization_id: str) -> tuple[int, int]:
    """Return how many people and groups of an organization are provisioned."""
    people = await tx.value(
        "SELECT count(*) AS people FROM provisioned_people WHERE organization_id = :id AND deleted_at IS NULL",
        id=organization_id,
    )
    groups = await tx.value(
        "SELECT count(*) AS found FROM provisioned_groups WHERE organization_id = :id", id=organization_id
    )
    return people, groups


# People


async def insert_person(tx: Tx, made: ProvisionedPerson) -> None:
    await tx.run(PEOPLE.insert(), **to_params(made))


async def save_person(tx: Tx, after: ProvisionedPerson) -> None:
    await tx.run(
        f"UPDATE provisioned_people SET {assignments(*_OF_PERSON)} WHERE user_id = :id",
        id=after.user_id,
        **to_params(after, *_OF_PERSON),
    )


async def person(tx: Tx, organization_id: str, user_id: str) -> ProvisionedPerson | None:
    """Return a person of this organization whom the identity provider has not deleted."""
    return await PEOPLE.one(
        tx,
        "FROM provisioned_people WHERE user_id = :id AND organization_id = :organization_id AND deleted_at IS NULL",
        id=user_id,
        organization_id=organization_id,
    )


async def person_named(tx: Tx, organization_id: str, user_name_key: str) -> ProvisionedPerson | None:
    return await PEOPLE.one(
        tx,
        "FROM provisioned_people WHERE organization_id = :organization_id AND user_name_key = :key AND deleted_at IS NULL",
        organization_id=organization_id,
        key=user_name_key,
    )


async def deleted_person(tx: Tx, organization_id: str, external_id: str) -> ProvisionedPerson | None:
    """Return the person with this external id whom the identity provider has deleted last."""
    return await PEOPLE.one(
        tx,
        "FROM provisioned_people WHERE organization_id = :organization_id AND external_id = :external_id"
        " AND external_id <> '' AND deleted_at IS NOT NULL ORDER BY deleted_at DESC LIMIT 1",
        organization_id=organization_id,
        external_id=external_id,
    )


async def delete_person(tx: Tx, user_id: str) -> None:
    """Forget that the identity provider manages a user, with their places in its groups."""
    await tx.run("DELETE FROM provisioned_people WHERE user_id = :id", id=user_id)


async def is_managed(tx: Tx, user_id: str) -> bool:
    return await PEOPLE.find(tx, user_id=user_id) is not None


_FOUND_PEOPLE: LiteralString = """FROM provisioned_people JOIN users ON users.id = provisioned_people.user_id
    WHERE provisioned_people.organization_id = :organization_id AND provisioned_people.deleted_at IS NULL
    AND (CAST(:id AS text) IS NULL OR provisioned_people.user_id = :id)
    AND (CAST(:user_name AS text) IS NULL OR provisioned_people.user_name_key = :user_name)
    AND (CAST(:external_id AS text) IS NULL OR provisioned_people.external_id = :external_id)
    AND (CAST(:display_name AS text) IS NULL OR lower(provisioned_people.display_name) = :display_name)
    AND (CAST(:email AS text) IS NULL OR lower(provisioned_people.emails) LIKE :email ESCAPE '!')
    AND (CAST(:is_disabled AS boolean) IS NULL OR users.is_disabled = :is_disabled)"""


async def people(tx: Tx, organization_id: str, wanted: Lookup, offset: int, limit: int) -> tuple[int, list[PersonSeen]]:
    """Return how many people there are, and one page of them."""
    named = None if wanted.email is None else f'%"value":"{_escaped(wanted.email.lower())}"%'
    given: dict[str, Param] = {
        "organization_id": organization_id,
        "id": wanted.resource_id,
        "user_name": None if wanted.user_name is None else wanted.user_name.casefold(),
        "external_id": wanted.external_id,
        "display_name": None if wanted.display_name is None else wanted.display_name.lower(),
        "email": named,
        "is_disabled": None if wanted.is_active is None else not wanted.is_active,
    }
    total: int = await tx.value("SELECT count(*) AS people " + _FOUND_PEOPLE, **given)
    rows = await tx.all(
        f"SELECT {PEOPLE.columns}, users.is_disabled {_FOUND_PEOPLE} ORDER BY provisioned_people.user_id"
        " LIMIT :limit OFFSET :offset",
        **given,
        limit=limit,
        offset=offset,
    )
    groups = await groups_of(tx, [row["user_id"] for row in rows])
    return total, [
        PersonSeen(row_to(ProvisionedPerson, row), not row["is_disabled"], groups.get(row["user_id"], ()))
        for row in rows
    ]


async def groups_of(tx: Tx, user_ids: Iterable[str]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the ids and names of the groups of each of these people."""
    rows = await tx.each_id(
        "SELECT m.user_id, g.id AS group_id, g.display_name FROM batch JOIN provisioned_members AS m ON m.user_id = batch.id"
        " JOIN provisioned_groups AS g ON g.id = m.group_id",
        user_ids,
    )
    found: dict[str, list[tuple[str, str]]] = {}
    for row in sorted(rows, key=lambda each: each["group_id"]):
        found.setdefault(row["user_id"], []).append((row["group_id"], row["display_name"]))
    return {user_id: tuple(groups) for user_id, groups in found.items()}


async def listing(tx: Tx, organization_id: str, after: str, limit: int) -> list[ProvisionedListed]:
    """Return the people of an organization, also those that were deleted, ordered by the ids of their users."""
    rows = await tx.all(
        'SELECT p.user_id AS id, users.name AS "user", p.user_name, p.external_id, users.is_disabled,'
        " p.deleted_at IS NOT NULL AS is_deleted, p.changed_at FROM provisioned_people AS p"
        " JOIN users ON users.id = p.user_id WHERE p.organization_id = :id AND p.user_id > :after"
        " ORDER BY p.user_id LIMIT :limit",
        id=organization_id,
        after=after,
        limit=limit,
    )
    groups = await groups_of(tx, [row["id"] for row in rows])
    named = {user_id: [name for _, name in found] for user_id, found in groups.items()}
    return rows_to(ProvisionedListed, [dict(row) | {"groups": named.get(row["id"], [])} for row in rows])


# Groups


async def insert_group(tx: Tx, made: ProvisionedGroup) -> None:
    await tx.run(GROUPS.insert(), **to_params(made))


async def save_group(tx: Tx, after: ProvisionedGroup) -> None:
    await tx.run(
        f"UPDATE provisioned_groups SET {assignments(*_OF_GROUP)} WHERE id = :id",
        id=after.id,
        **to_params(after, *_OF_GROUP),
    )


async def group(tx: Tx, organization_id: str, group_id: str) -> ProvisionedGroup | None:
    return await GROUPS.find(tx, id=group_id, organization_id=organization_id)


async def delete_group(tx: Tx, group_id: str) -> None:
    await tx.run("DELETE FROM provisioned_groups WHERE id = :id", id=group_id)


_FOUND_GROUPS: LiteralString = """FROM provisioned_groups WHERE organization_id = :organization_id
    AND (CAST(:id AS text) IS NULL OR id = :id)
    AND (CAST(:display_name AS text) IS NULL OR display_name_key = :display_name)
    AND (CAST(:external_id AS text) IS NULL OR external_id = :external_id)
    AND (CAST(:member_id AS text) IS NULL OR EXISTS (SELECT 1 FROM provisioned_members AS m
        WHERE m.group_id = provisioned_groups.id AND m.user_id = :member_id))"""


async def groups(
    tx: Tx, organization_id: str, wanted: Lookup, offset: int, limit: int, *, has_members: bool
) -> tuple[int, list[GroupSeen]]:
    """Return how many groups there are, and one page of them."""
    given: dict[str, Param] = {
        "organization_id": organization_id,
        "id": wanted.resource_id,
        "display_name": None if wanted.display_name is None else wanted.display_name.casefold(),
        "external_id": wanted.external_id,
        "member_id": wanted.member_id,
    }
    total: int = await tx.value("SELECT count(*) AS found " + _FOUND_GROUPS, **given)
    found = await GROUPS.all(
        tx, _FOUND_GROUPS + " ORDER BY id LIMIT :limit OFFSET :offset", **given, limit=limit, offset=offset
    )
    if has_members:
        found = await _within(tx, found)
    members = await members_of(tx, [each.id for each in found]) if has_members else {}
    return total, [GroupSeen(each, members.get(each.id, ())) for each in found]


async def _within(tx: Tx, found: list[ProvisionedGroup]) -> list[ProvisionedGroup]:
    """Return the first of these groups: as many as have no more than `MAX_LISTED_MEMBERS` together, and at least one."""
    rows = await tx.each_id(
        "SELECT m.group_id, count(*) AS members FROM batch JOIN provisioned_members AS m ON m.group_id = batch.id"
        " GROUP BY m.group_id",
        [each.id for each in found],
    )
    counts, total = {row["group_id"]: row["members"] for row in rows}, 0
    for number, each in enumerate(found):
        total += counts.get(each.id, 0)
        if number and total > MAX_LISTED_MEMBERS:
            return found[:number]
    return found


async def members_of(tx: Tx, group_ids: Iterable[str]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the ids and names of the members of each of these groups."""
    rows = await tx.each_id(
        "SELECT m.group_id, p.user_id, p.display_name, p.user_name FROM batch JOIN provisioned_members AS m"
        " ON m.group_id = batch.id JOIN provisioned_people AS p ON p.user_id = m.user_id WHERE p.deleted_at IS NULL",
        group_ids,
    )
    found: dict[str, list[tuple[str, str]]] = {}
    for row in sorted(rows, key=lambda each: each["user_id"]):
        found.setdefault(row["group_id"], []).append((row["user_id"], row["display_name"] or row["user_name"]))
    return {group_id: tuple(members) for group_id, members in found.items()}


async def known_people(tx: Tx, organization_id: str, user_ids: Iterable[str]) -> set[str]:
    """Return which of these ids are people of the organization whom the identity provider manages."""
    rows = await tx.each_id(
        "SELECT p.user_id, p.organization_id FROM batch JOIN provisioned_people AS p ON p.user_id = batch.id"
        " WHERE p.deleted_at IS NULL",
        user_ids,
    )
    return {row["user_id"] for row in rows if row["organization_id"] == organization_id}


async def add_members(tx: Tx, group_id: str, user_ids: Iterable[str]) -> None:
    await tx.each(
        "INSERT INTO provisioned_members (group_id, user_id) SELECT group_id, user_id FROM batch WHERE true"
        " ON CONFLICT (group_id, user_id) DO NOTHING",
        {"group_id": "text", "user_id": "text"},
        [(group_id, each) for each in user_ids],
    )


async def remove_members(tx: Tx, group_id: str, user_ids: Iterable[str]) -> None:
    await tx.each(
        "DELETE FROM provisioned_members WHERE (group_id, user_id) IN (SELECT group_id, user_id FROM batch)",
        {"group_id": "text", "user_id": "text"},
        [(group_id, each) for each in user_ids],
    )


async def leave_groups(tx: Tx, user_id: str) -> None:
    await tx.run("DELETE FROM provisioned_members WHERE user_id = :id", id=user_id)


async def listed_groups(tx: Tx, organization_id: str, after: str, limit: int) -> list[ProvisionedGroupListed]:
    rows = await tx.all(
        "SELECT g.id, g.display_name, g.external_id, g.changed_at, (SELECT count(*) FROM provisioned_members AS m"
        " WHERE m.group_id = g.id) AS members FROM provisioned_groups AS g WHERE g.organization_id = :id AND g.id > :after"
        " ORDER BY g.id LIMIT :limit",
        id=organization_id,
        after=after,
        limit=limit,
    )
    return rows_to(ProvisionedGroupListed, rows)


def _escaped(text: str) -> str:
    """Return a text as it stands in JSON, for LIKE."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_").replace("\\", "\\\\").replace('"', '\\"')
