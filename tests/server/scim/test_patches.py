"""PATCH operations and filters, in the forms that identity providers really send, and in those that attackers might."""

import time
from typing import Any

import pytest

from terracrew.server.scim import filters, patches
from terracrew.server.scim.errors import ScimRefusal
from terracrew.server.scim.schemas import GROUP_ATTRIBUTES, USER_ATTRIBUTES

ADA: dict[str, Any] = {
    "userName": "ada@example.com",
    "name": {"givenName": "Ada", "familyName": "King"},
    "emails": [{"value": "ada@example.com", "type": "work", "primary": True}],
    "active": True,
}


def patched(resource: dict[str, Any], *operations: Any, attributes: Any = USER_ATTRIBUTES) -> dict[str, Any]:
    return patches.apply(resource, {"Operations": list(operations)}, attributes)


@pytest.mark.parametrize(
    ("operation", "changed"),
    [
        # Entra ID
        ({"op": "Replace", "path": "active", "value": "False"}, {"active": False}),
        ({"op": "Replace", "path": "active", "value": False}, {"active": False}),
        ({"op": "Add", "path": "displayName", "value": "Ada King"}, {"displayName": "Ada King"}),
        (
            {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "a@b.c"},
            {"emails": [{"value": "a@b.c", "type": "work", "primary": True}]},
        ),
        (
            {"op": "Add", "path": 'emails[type eq "home"].value', "value": "h@b.c"},
            {"emails": [*ADA["emails"], {"type": "home", "value": "h@b.c"}]},
        ),
        ({"op": "Remove", "path": 'emails[type eq "work"].value'}, {"emails": []}),
        (
            {"op": "Replace", "path": "name.familyName", "value": "Lovelace"},
            {"name": {"givenName": "Ada", "familyName": "Lovelace"}},
        ),
        (
            {"op": "Add", "value": {"name.givenName": "A.", "displayName": "X"}},
            {"name": {"givenName": "A.", "familyName": "King"}, "displayName": "X"},
        ),
        (
            {
                "op": "Add",
                "path": "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department",
                "value": "IT",
            },
            {},
        ),
        ({"op": "Add", "path": 'phoneNumbers[type eq "work"].value', "value": "1"}, {}),
        # Okta
        ({"op": "replace", "value": {"active": False}}, {"active": False}),
        (
            {"op": "replace", "value": {"id": "usr_other", "schemas": [], "name": {"familyName": "L"}}},
            {"name": {"givenName": "Ada", "familyName": "L"}},
        ),
        # the standard
        ({"op": "replace", "path": "USERNAME", "value": "a"}, {"userName": "a"}),
        (
            {"op": "replace", "path": "urn:ietf:params:scim:schemas:core:2.0:User:userName", "value": "a"},
            {"userName": "a"},
        ),
        (
            {"op": "add", "path": "emails", "value": [{"value": "ada@example.com", "type": "home"}]},
            {"emails": [{"value": "ada@example.com", "type": "home"}]},
        ),
        (
            {"op": "add", "path": "emails", "value": [{"value": "n@b.c", "primary": True}]},
            {
                "emails": [
                    {"value": "ada@example.com", "type": "work", "primary": False},
                    {"value": "n@b.c", "primary": True},
                ]
            },
        ),
        ({"op": "replace", "path": "groups", "value": [{"value": "pgr_1"}]}, {}),
    ],
)
def test_a_person_is_changed_as_the_identity_provider_means_it(operation: dict[str, Any], changed: Any) -> None:
    assert patched(ADA, operation) == ADA | changed
    assert ADA["active"] is True, "the resource itself is not changed"


@pytest.mark.parametrize(
    ("operation", "members"),
    [
        ({"op": "Add", "path": "members", "value": [{"value": "c"}]}, ["a", "b", "c"]),
        ({"op": "Add", "path": "members", "value": [{"value": "a"}]}, ["b", "a"]),
        ({"op": "Remove", "path": "members", "value": [{"value": "a"}]}, ["b"]),
        ({"op": "Remove", "path": 'members[value eq "a"]'}, ["b"]),
        ({"op": "remove", "path": "members"}, []),
        ({"op": "replace", "path": "members", "value": [{"value": "c"}]}, ["c"]),
        ({"op": "replace", "value": {"displayName": "x", "members": [{"value": "c", "display": "C"}]}}, ["c"]),
        ({"op": "Remove", "path": 'members[value eq "nobody"]'}, ["a", "b"]),
    ],
)
def test_members_join_and_leave_a_group(operation: dict[str, Any], members: list[str]) -> None:
    group = {"displayName": "admins", "members": [{"value": "a"}, {"value": "b"}]}
    found = patched(group, operation, attributes=GROUP_ATTRIBUTES)
    assert [each["value"] for each in found.get("members", [])] == members


@pytest.mark.parametrize(
    "operations",
    [
        [],
        "x",
        [{"op": "delete", "path": "active"}],
        [{"op": "replace", "path": "active", "value": "maybe"}],
        [{"op": "replace", "path": "active", "value": 0}],
        [{"op": "replace", "path": "userName", "value": {"a": 1}}],
        [{"op": "replace", "path": "emails[type eq", "value": "x"}],
        [{"op": "replace", "path": "emails[type pr]", "value": "x"}],
        [{"op": "replace", "path": "a" * 501, "value": "x"}],
        [{"op": "replace", "path": ["active"], "value": True}],
        [{"op": "replace", "value": "x"}],
        [{"op": "remove"}],
        [None],
        [{"op": "replace", "path": "active", "value": True}] * 201,
    ],
)
def test_operations_that_mean_nothing_are_refused(operations: Any) -> None:
    with pytest.raises(ScimRefusal):
        patches.apply(ADA, {"Operations": operations}, USER_ATTRIBUTES)


def test_a_filter_is_read_and_never_evaluated() -> None:
    found = filters.parse('userName eq "ada\\"; DROP TABLE users" and active eq True')
    assert [(each.attribute, each.value) for each in found] == [
        ("username", 'ada"; DROP TABLE users'),
        ("active", True),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "userName",
        "userName eq",
        'userName co "a"',
        'userName eq "a" or userName eq "b"',
        'not (userName eq "a")',
        '(((((((((userName eq "a")))))))))',
        'userName eq "a" and',
        'userName eq "a',
        "userName eq 'a'",
        "userName eq __import__",
        " and ".join(['id eq "a"'] * 6),
        'userName eq "' + "a" * 1000 + '"',
        'userName eq "\\x"',
    ],
)
def test_other_filters_are_refused(text: str) -> None:
    with pytest.raises(ScimRefusal):
        filters.parse(text)


def test_a_request_with_many_operations_on_a_large_group_is_bounded() -> None:
    """One request of one organization kept the whole server busy for a minute."""
    members = [{"value": f"usr_{number}"} for number in range(20_000)]
    crew = {"displayName": "crew", "members": members}
    some = [{"op": "remove", "path": f'members[value eq "usr_{number}"]'} for number in range(200)]
    with pytest.raises(ScimRefusal, match="too many operations"):
        patched(crew, *some, attributes=GROUP_ATTRIBUTES)
    began_at = time.process_time()
    assert len(patched(crew, *some[:40], attributes=GROUP_ATTRIBUTES)["members"]) == 20_000 - 40
    assert time.process_time() - began_at < 3
