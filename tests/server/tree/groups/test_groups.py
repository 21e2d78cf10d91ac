"""Groups form a tree of valid paths, and each user sees the part that their roles cover."""

import asyncio

import pytest

from terracrew.api.groups import GroupChange, NewGroup
from terracrew.server.tree.groups import service
from tests.builders.transactions import held_open, until_blocked
from tests.server.application import Application, on_one
from tests.server.hub.hub_clients import on_postgres


async def test_a_group_is_created_shown_listed_and_deleted(application: Application) -> None:
    made = await application.admin.made("/api/v1/groups", {"path": "a", "description": "first"})
    assert made["id"].startswith("grp_")
    assert (made["path"], made["name"], made["depth"], made["description"]) == ("a", "a", 1, "first")
    assert made.items() <= (await application.admin.get("/api/v1/groups/a")).json().items()
    assert made.items() <= (await application.admin.get(f"/api/v1/groups/{made['id']}")).json().items()
    assert (
        made.items()
        <= (await application.admin.get(f"/api/v1/groups/{made['id'].removeprefix('grp_')}")).json().items()
    )
    assert (await application.admin.get("/api/v1/groups")).json() == {"items": [made], "next": None}
    assert (await application.admin.delete("/api/v1/groups/a")).status_code == 204
    assert "no group `a`" in await application.admin.refused("GET", "/api/v1/groups/a", 404)


@pytest.mark.feature("X3.audit")
async def test_each_change_of_the_tree_is_in_the_audit(application: Application) -> None:
    rules = {"min_approvals": 2, "interrupted": "retry"}
    made = await application.admin.made("/api/v1/groups", {"path": "a"} | rules)
    await application.admin.delete("/api/v1/groups/a")
    entries = (await application.admin.get("/api/v1/audit", params={"target": made["id"]})).json()["items"]
    assert [(each["action"], each["actor_name"]) for each in entries] == [
        ("group.delete", "admin"),
        ("group.create", "admin"),
    ]
    assert entries[1]["details"] == {"path": "a"} | rules


@pytest.mark.feature("X3.audit")
async def test_an_administrator_of_elsewhere_leaves_the_entry_where_the_group_is(application: Application) -> None:
    """Its owners did not find the change in their audit log: it was in that of the administrator's organization."""
    owner = await application.person("olga", "owner", "", "other")
    made = await owner.made("/api/v1/groups", {"path": "a"})
    changed = await application.admin.patch(f"/api/v1/groups/{made['id']}", json={"description": "x"})
    assert changed.status_code == 200
    entries = await owner.listed("/api/v1/audit", action="group.update")
    assert [(each["actor_name"], each["target_id"]) for each in entries] == [("admin", made["id"])]


@on_postgres
async def test_two_changes_of_a_group_at_once_are_both_kept(application: Application) -> None:
    """The second one wrote what it had read before the first one, and so lifted a limit that had just been set."""
    made = await application.admin.made("/api/v1/groups", {"path": "a"})
    db, who, limit = application.server.db, application.admin.principal, GroupChange(max_running_jobs=2)
    async with held_open(db, lambda tx: service.change(tx, who, made["id"], limit)):
        other = asyncio.create_task(application.admin.patch("/api/v1/groups/a", json={"description": "x"}))
        await until_blocked(db)
    assert (await other).status_code == 200
    after = (await application.admin.get("/api/v1/groups/a")).json()
    assert (after["max_running_jobs"], after["description"]) == (2, "x")


async def test_parents_must_exist_unless_they_are_asked_for(application: Application) -> None:
    assert "no group `a/b`" in await application.admin.refused("POST", "/api/v1/groups", 404, json={"path": "a/b/c"})
    assert await application.scalar("SELECT count(*) FROM groups") == 1
    made = await application.admin.made("/api/v1/groups", {"path": "a/b/c"}, parents=True)
    assert made["depth"] == 3
    # A path is one segment of a URL.
    assert made.items() <= (await application.admin.get("/api/v1/groups/a%2Fb%2Fc")).json().items()
    inside = await application.admin.get("/api/v1/groups", params={"parent": "a"})
    assert [group["path"] for group in inside.json()["items"]] == ["a/b"]
    top = await application.admin.get("/api/v1/groups", params={"parent": ""})
    assert [group["path"] for group in top.json()["items"]] == ["a"]


@on_one
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("..", "'..' has no meaning here"),
        ("a/../b", "'..' has no meaning here"),
        ("a//b", "a name between its slashes is missing"),
        ("/a", "a name between its slashes is missing"),
        ("a/", "a name between its slashes is missing"),
        ("A", "use lowercase letters"),
        ("-a", "starts with a hyphen"),
        ("a b", "use lowercase letters"),
        ("a\u0000", "NUL"),
        ("a\n", "use lowercase letters"),
        ("ü", "use lowercase letters"),
        ("a" * 64, "64 characters is too long"),
        ("/".join("a" * 100), "100 levels deep: at most 20"),
        ("/".join(["a" * 63] * 21), "too long"),
        ("", "the organization itself"),
    ],
)
async def test_what_is_no_path_is_refused_in_words(application: Application, path: str, words: str) -> None:
    assert words in await application.admin.refused(
        "POST", "/api/v1/groups", 400, json={"path": path}, params={"parents": 1}
    )
    assert await application.scalar("SELECT count(*) FROM groups") == 1


async def test_a_path_of_twenty_levels_is_possible_and_one_that_leaves_the_tree_is_not(
    application: Application,
) -> None:
    path = "/".join("a" * 20)
    assert (await application.admin.made("/api/v1/groups", {"path": path}, parents=True))["depth"] == 20
    assert "no meaning here" in await application.admin.refused("GET", "/api/v1/groups/..%2F..%2Fetc", 400)


async def test_a_name_is_taken_once_by_groups_and_modules_together(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "a"})
    assert "a group `a` already" in await application.admin.refused("POST", "/api/v1/groups", 409, json={"path": "a"})
    source = {"kind": "local", "path": "/srv/sources/m"}
    await application.admin.made("/api/v1/modules", {"path": "a/m", "source": source})
    words = await application.admin.refused("POST", "/api/v1/groups", 409, json={"path": "a/m"})
    assert "a module `a/m` already" in words
    body = {"path": "a", "source": source}
    assert "a group `a` already" in await application.admin.refused("POST", "/api/v1/modules", 409, json=body)


async def test_of_many_who_want_one_path_at_once_one_gets_it(application: Application) -> None:
    module = {"path": "a", "source": {"kind": "local", "path": "/srv/sources/m"}}
    answers = await asyncio.gather(
        *(application.admin.post("/api/v1/groups", json={"path": "a"}) for _ in range(8)),
        *(application.admin.post("/api/v1/modules", json=module) for _ in range(8)),
    )
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 15


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_a_path_is_reserved_until_its_transaction_ends(application: Application) -> None:
    db, who = application.server.db, application.admin.principal
    body = {"path": "a", "source": {"kind": "local", "path": "/srv/sources/m"}}
    async with held_open(db, lambda tx: service.create(tx, who, NewGroup(path="a"), False)):
        module = asyncio.create_task(application.admin.post("/api/v1/modules", json=body))
        await until_blocked(db)
    assert (await module).status_code == 409


async def test_servers_that_start_at_once_make_one_organization(application: Application) -> None:
    made = await asyncio.gather(
        *(application.server.db.write(lambda tx: service.ensure_organization(tx, "new")) for _ in range(8)),
    )
    assert len({organization.id for organization in made}) == 1
    assert await application.scalar("SELECT count(*) FROM groups WHERE organization_id = :id", id=made[0].id) == 1


async def test_only_an_empty_group_is_deleted(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "a/b"}, parents=True)
    await application.admin.made(
        "/api/v1/modules", {"path": "a/m", "source": {"kind": "local", "path": "/srv/sources/m"}}
    )
    await application.admin.made("/api/v1/runners", {"name": "r", "group": "a"})
    words = await application.admin.refused("DELETE", "/api/v1/groups/a", 409)
    assert "1 group, 1 module, 1 runner" in words
    root = await application.scalar("SELECT id FROM groups WHERE path = ''")
    assert "cannot be deleted" in await application.admin.refused("DELETE", f"/api/v1/groups/{root}", 409)


@pytest.mark.feature("X3.roles")
async def test_a_viewer_sees_and_changes_nothing(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "a/b"}, parents=True)
    viewer = await application.person("vera", "viewer", "a")
    assert (await viewer.get("/api/v1/groups/a%2Fb")).status_code == 200
    await viewer.refused("POST", "/api/v1/groups", 403, json={"path": "a/c"})
    await viewer.refused("DELETE", "/api/v1/groups/a%2Fb", 403)
    assert await application.scalar("SELECT count(*) FROM groups") == 3


@pytest.mark.feature("X3.roles")
async def test_a_list_shows_what_one_may_see_and_the_way_there(application: Application) -> None:
    for path in ("a/b/c", "a/d", "e"):
        await application.admin.made("/api/v1/groups", {"path": path}, parents=True)
    person = await application.person("olga", "owner", "a/b")
    found = (await person.get("/api/v1/groups")).json()["items"]
    assert {group["path"] for group in found} == {"a", "a/b", "a/b/c"}
    await person.refused("GET", "/api/v1/groups/a%2Fd", 404)
    await person.refused("GET", "/api/v1/groups", 404, params={"parent": "e"})
    await person.made("/api/v1/groups", {"path": "a/b/x"})
    await person.refused("POST", "/api/v1/groups", 404, json={"path": "a/x"})


@pytest.mark.feature("X3.roles", "X4.tenants")
async def test_another_organization_has_no_such_group(application: Application) -> None:
    made = await application.admin.made("/api/v1/groups", {"path": "a"})
    other = await application.person("mallory", "owner", "", "other")
    await other.refused("GET", f"/api/v1/groups/{made['id']}", 404)
    await other.refused("GET", "/api/v1/groups/a", 404)
    await other.refused("DELETE", f"/api/v1/groups/{made['id']}", 404)
    assert (await other.get("/api/v1/groups")).json()["items"] == []
    # The same path is free there.
    await other.made("/api/v1/groups", {"path": "a"})


async def test_a_role_does_not_outlive_its_group(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "a"})
    person = await application.person("olga", "owner", "a")
    assert (await person.delete("/api/v1/groups/a")).status_code == 204
    await application.admin.made("/api/v1/groups", {"path": "a"})
    await person.refused("GET", "/api/v1/groups/a", 404)


async def test_a_group_and_the_organization_can_limit_how_many_jobs_run_at_once(application: Application) -> None:
    made = await application.admin.made("/api/v1/groups", {"path": "a", "max_running_jobs": 3})
    assert made["max_running_jobs"] == 3
    changed = await application.admin.patch("/api/v1/groups/a", json={"max_running_jobs": 5})
    assert changed.json()["max_running_jobs"] == 5
    await application.admin.patch("/api/v1/groups/a", json={"description": "other"})
    assert (await application.admin.get("/api/v1/groups/a")).json()["max_running_jobs"] == 5
    freed = await application.admin.patch("/api/v1/groups/a", json={"max_running_jobs": None})
    assert freed.json()["max_running_jobs"] is None
    limited = await application.admin.patch("/api/v1/groups/%2F", json={"max_running_jobs": 10})
    assert limited.json()["id"] == made["parent_id"]
    assert (limited.json()["path"], limited.json()["max_running_jobs"]) == ("", 10)


@on_one
@pytest.mark.parametrize("limit", [0, -1, 1_000_001, "5", 1.5, True])
async def test_a_limit_of_running_jobs_that_is_no_positive_number_is_refused(
    application: Application, limit: object
) -> None:
    await application.admin.made("/api/v1/groups", {"path": "a"})
    for method, address in (("POST", "/api/v1/groups"), ("PATCH", "/api/v1/groups/a")):
        body = {"max_running_jobs": limit} | ({"path": "b"} if method == "POST" else {})
        assert "max_running_jobs" in await application.admin.refused(method, address, 400, json=body)


@on_one
async def test_only_an_owner_of_a_group_limits_how_many_of_its_jobs_run(application: Application) -> None:
    made = await application.admin.made("/api/v1/groups", {"path": "a"})
    operator = await application.person("otto", "operator", "a")
    await operator.refused("PATCH", "/api/v1/groups/a", 403, json={"max_running_jobs": 1})
    owner = await application.person("olga", "owner", "a")
    assert (await owner.patch("/api/v1/groups/a", json={"max_running_jobs": 1})).status_code == 200
    await owner.refused("PATCH", f"/api/v1/groups/{made['parent_id']}", 403, json={"max_running_jobs": 1})
