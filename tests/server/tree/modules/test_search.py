"""Lists of modules and runners are limited by the same words and filters as their pages."""

from typing import Any

import pytest

from tests.server.application import Application, Person

SOURCE = {"kind": "local", "path": "/srv/sources/x"}


async def paths(person: Person, what: str = "modules", **query: Any) -> list[str]:
    return [each["path"] for each in await person.listed(f"/api/v1/{what}", **query)]


@pytest.fixture
async def admin(application: Application) -> Person:
    admin = application.admin
    for group in ("net", "net/eu", "web"):
        await admin.made("/api/v1/groups", {"path": group})
    for path, more in (
        ("net/vpc", {"description": "the Backbone"}),
        ("net/eu/vpc", {"team": "backbone"}),
        ("web/shop", {"engine": "terraform"}),
        ("web/blog", {}),
    ):
        await admin.made("/api/v1/modules", {"path": path, "source": SOURCE, "engine": "tofu", **more})
    await admin.made("/api/v1/modules/web%2Fblog/jobs", {"type": "PLAN"})
    return admin


@pytest.mark.feature("P4.commands")
async def test_modules_are_found_by_words_status_and_engine(admin: Person) -> None:
    assert await paths(admin, search="VPC") == ["net/vpc", "net/eu/vpc"], "ordered by group and name"
    assert await paths(admin, search="backbone vpc") == ["net/vpc", "net/eu/vpc"]
    assert await paths(admin, search="vpc", group="net/eu") == ["net/eu/vpc"]
    assert await paths(admin, search="vpc", group="net") == ["net/vpc", "net/eu/vpc"], "also below the group"
    assert await paths(admin, search="100%_") == [], "no character is a pattern"
    assert await paths(admin, engine="terraform") == ["web/shop"]
    assert await paths(admin, status="QUEUED") == await paths(admin, status="open") == ["web/blog"]
    assert await paths(admin, status="none") == ["net/vpc", "net/eu/vpc", "web/shop"]
    assert await paths(admin, status="none", engine="tofu", search="eu") == ["net/eu/vpc"]
    assert await paths(admin, attention=True) == []
    assert await paths(admin, runner="nothing") == []
    await admin.refused("GET", "/api/v1/modules?status=SLEEPING", 400)


@pytest.mark.feature("P4.commands")
async def test_every_page_of_what_was_found_follows_the_one_before(admin: Person) -> None:
    whole = await paths(admin, status="none")
    assert await paths(admin, status="none", limit=1) == whole
    assert await paths(admin, search="vpc", limit=1) == ["net/vpc", "net/eu/vpc"]


@pytest.mark.feature("P4.commands", "X4.tenants")
async def test_nobody_finds_what_they_may_not_see(application: Application, admin: Person) -> None:
    vera = await application.person("vera", "viewer", "net/eu")
    eve = await application.person("eve", "owner", organization="elsewhere")
    assert await paths(vera, search="vpc") == ["net/eu/vpc"]
    assert await paths(vera, status="none") == ["net/eu/vpc"]
    assert await paths(vera, search="vpc", group="net") == ["net/eu/vpc"]
    assert await paths(eve, search="vpc") == await paths(eve, status="none") == []


@pytest.mark.feature("P4.commands")
async def test_runners_are_found_by_words(application: Application, admin: Person) -> None:
    for name, group, description in (("b", "net", "Fast disks"), ("a", "net/eu", "fast"), ("slow", "web", "")):
        await admin.made("/api/v1/runners", {"name": name, "group": group, "description": description})
    assert await paths(admin, "runners", search="FAST") == ["net/b", "net/eu/a"]
    assert await paths(admin, "runners", search="fast", limit=1) == ["net/b", "net/eu/a"]
    assert await paths(admin, "runners", search="fast", group="net/eu") == ["net/eu/a"]
    assert await paths(admin, "runners", search="fast", status="ONLINE") == []
    otto = await application.person("otto", "viewer", "web")
    assert await paths(otto, "runners", search="fast") == []
    await admin.refused("GET", "/api/v1/runners?search=a&after=bmV0", 400)
