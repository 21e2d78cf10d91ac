"""Pages show every item once, whatever is inserted meanwhile."""

from tests.server.application import Application


async def test_pages_hold_every_item_once_while_others_are_inserted(application: Application) -> None:
    names = [f"g{number}" for number in range(25)]
    for name in names:
        await application.admin.made("/api/v1/groups", {"path": name})
    seen: list[str] = []
    cursor: str | None = None
    pages = 0
    while True:
        params = {"limit": 10} | ({"after": cursor} if cursor else {})
        page = (await application.admin.get("/api/v1/groups", params=params)).json()
        seen += [group["path"] for group in page["items"]]
        pages += 1
        if pages == 1:
            await application.admin.made("/api/v1/groups", {"path": "a-new-one"})
            await application.admin.delete(f"/api/v1/groups/{seen[0]}")
        cursor = page["next"]
        if cursor is None:
            break
        assert len(page["items"]) == 10
    assert seen == [*names, "a-new-one"]
    assert pages == 3


async def test_a_page_is_filled_from_what_one_may_see(application: Application) -> None:
    for number in range(12):
        await application.admin.made("/api/v1/groups", {"path": f"hidden{number}"})
        await application.admin.made("/api/v1/groups", {"path": f"a/g{number}"}, parents=True)
    person = await application.person("vera", "viewer", "a")
    first = (await person.get("/api/v1/groups", params={"limit": 7})).json()
    rest = (await person.get("/api/v1/groups", params={"limit": 200, "after": first["next"]})).json()
    assert [group["path"] for group in first["items"] + rest["items"]] == [
        "a",
        *(f"a/g{number}" for number in range(12)),
    ]
    assert rest["next"] is None


async def test_a_full_last_page_is_the_last_one(application: Application) -> None:
    for number in range(3):
        await application.admin.made("/api/v1/groups", {"path": f"g{number}"})
    page = (await application.admin.get("/api/v1/groups", params={"limit": 3})).json()
    assert len(page["items"]) == 3
    assert page["next"] is None


async def test_a_bad_limit_or_cursor_is_refused_in_words(application: Application) -> None:
    assert "limit" in await application.admin.refused("GET", "/api/v1/groups", 400, params={"limit": 201})
    assert "limit" in await application.admin.refused("GET", "/api/v1/groups", 400, params={"limit": 0})
    assert "limit" in await application.admin.refused("GET", "/api/v1/groups", 400, params={"limit": "many"})
    assert "is not a cursor" in await application.admin.refused("GET", "/api/v1/groups", 400, params={"after": "ü"})
    assert "is not a cursor" in await application.admin.refused("GET", "/api/v1/groups", 400, params={"after": "a"})
