"""Tags of a repository become versions: each once, of the commit that the tag named first."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from terracrew import ids
from terracrew.api.modules import Archive
from terracrew.api.registry import RefusedTag
from terracrew.server.db.seam import Tx
from terracrew.server.forges import repository_store
from terracrew.server.forges.watching import RepositoryWatch
from terracrew.server.registry import reads, store, tags
from terracrew.server.registry.model import RegistryVersion
from terracrew.server.registry.tag_loop import TagLoop
from terracrew.server.tree.groups.quotas import Quotas
from terracrew.server.tree.modules import store as module_store
from tests.server.application import on_one
from tests.server.registry.publisher import address, create, download, group, publish
from tests.server.registry.tagged import PATH, Tagged

pytestmark = pytest.mark.feature("P7.tags")


async def test_tags_become_versions_once_and_a_tag_that_moves_changes_none(tagged: Tagged) -> None:
    await tagged.follow()
    first = tagged.tag("v1.0.0")
    tagged.tag("1.1.0", "-a", "-m", "an annotated tag")
    tagged.tag("release-1.2.0")
    tagged.tag("v1.2")
    await tagged.step()
    assert await tagged.versions() == {"1.0.0": first, "1.1.0": first}
    before = (await tagged.shown())["versions"]
    assert before[0]["created_by_name"] == "tags of team/vpc/aws"
    location = await download(tagged.app.admin, PATH, "1.0.0")
    content = (await tagged.app.stranger().get(str(location))).content
    await tagged.step()
    assert (await tagged.shown())["versions"] == before

    tagged.found.write("modules/net", 'output "other" { value = 2 }\n')
    tagged.found.repository.commit("second")
    second = tagged.tag("v1.0.0")
    await tagged.step()
    shown = {each["version"]: each for each in (await tagged.shown())["versions"]}
    assert (shown["1.0.0"]["moved_to"], shown["1.0.0"]["commit_id"]) == (second, first)
    assert shown["1.0.0"]["sha256"] == before[1]["sha256"]
    location = await download(tagged.app.admin, PATH, "1.0.0")
    assert (await tagged.app.stranger().get(str(location))).content == content
    tagged.found.repository.git("tag", "-f", "v1.0.0", first)
    await tagged.step()
    assert {each["moved_to"] for each in (await tagged.shown())["versions"]} == {""}
    assert await tagged.app.scalar("SELECT count(*) FROM audit WHERE action = 'registry.publish'") == 2


@on_one
async def test_a_monorepo_has_a_prefix_for_each_of_its_modules(tagged: Tagged) -> None:
    await tagged.follow(tag_prefix="net/")
    commit = tagged.tag("net/v1.0.0")
    tagged.tag("v9.0.0")
    tagged.tag("other/v8.0.0")
    await tagged.step()
    assert await tagged.versions() == {"1.0.0": commit}
    found = (await tagged.app.admin.get(f"{address(PATH)}/versions/1.0.0")).json()["documentation"]["main"]
    assert [each["name"] for each in found["outputs"]] == ["net"], "only the folder is published"


@on_one
async def test_a_tag_that_cannot_be_a_version_is_told_and_the_others_become_versions(tagged: Tagged) -> None:
    await tagged.follow()
    tagged.found.write("modules/net", 'module "x" { source = "../../x" }\n')
    tagged.found.repository.commit("leads out")
    tagged.tag("v1.0.0")
    tagged.found.write("modules/net", 'output "net" { value = 1 }\n')
    link = tagged.found.repository.folder / "modules/net/link"
    link.symlink_to("/etc/passwd")
    tagged.found.repository.commit("a link")
    tagged.tag("v1.1.0")
    link.unlink()
    tagged.found.repository.commit("good")
    good = tagged.tag("v1.2.0")
    await publish(tagged.app.admin, PATH, "1.3.0")
    tagged.tag("v1.3.0")
    await tagged.step()
    shown = await tagged.shown()
    assert await tagged.versions() == {"1.2.0": good, "1.3.0": ""}
    reasons = {each["tag"]: each["reason"] for each in shown["refused_tags"]}
    assert "not among the files" in reasons["v1.0.0"]
    assert "link" in reasons["v1.1.0"]
    assert "was uploaded already" in reasons["v1.3.0"]
    assert shown["problem"] == ""
    await tagged.step()
    shown = await tagged.shown()
    assert [each["tag"] for each in shown["refused_tags"]] == ["v1.3.0", "v1.1.0", "v1.0.0"]
    before = await tagged.app.scalar("SELECT count(*) FROM archives")
    await tagged.step()
    assert await tagged.app.scalar("SELECT count(*) FROM archives") == before, "what was refused is not read again"


@on_one
async def test_a_tag_becomes_a_version_once_the_organization_has_room_for_its_archive(tagged: Tagged) -> None:
    """It is none of its files that refuses it, so the tag is not among those that are never read again."""
    small = tagged.app.server.settings.model_copy(update={"max_archive_megabytes_per_organization": 1})
    full = Quotas(tagged.app.server.db, small)
    await tagged.app.server.db.write(lambda tx: _fill(tx, tagged.app.server.organization_id))
    tools, loops = tagged.tools, tagged.loops
    tagged.loops = [TagLoop(dataclasses.replace(each, quotas=full)) for each in tools]
    await tagged.follow()
    commit = tagged.tag("v1.0.0")
    await tagged.step()
    shown = await tagged.shown()
    assert (shown["versions"], shown["refused_tags"]) == ([], [])
    assert "its quota is 1,000,000" in shown["problem"]
    tagged.loops = loops
    await tagged.step()
    assert await tagged.versions() == {"1.0.0": commit}
    assert (await tagged.shown())["problem"] == ""


async def _fill(tx: Tx, organization_id: str) -> None:
    large = Archive(ids.new("arc"), organization_id, "0" * 64, 999_999, "test", tx.moment)
    await module_store.insert_archive(tx, large)


@on_one
async def test_many_tags_that_are_no_versions_keep_no_new_one_waiting(
    tagged: Tagged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tags, "MAX_REFUSED_TAGS", 2)
    monkeypatch.setattr(tags, "MAX_NEW_VERSIONS", 3)
    await tagged.follow(folder="nothing/here")
    for number in range(6):
        tagged.tag(f"v1.{number}.0")
    await tagged.step()
    tagged.found.write("nothing/here", "# good")
    tagged.found.repository.commit("good")
    good = tagged.tag("v2.0.0")
    await tagged.step()
    assert await tagged.versions() == {"2.0.0": good}


@on_one
async def test_without_a_connection_the_module_says_what_is_missing(tagged: Tagged) -> None:
    await group(tagged.app, "other")
    await create(tagged.app.admin, PATH, url="https://git.example.com/acme/vpc")
    await tagged.step()
    assert "connect the forge first" in (await tagged.shown())["problem"]
    await tagged.app.admin.patch(address(PATH), json={"url": tagged.found.url, "folder": "modules/net"})
    commit = tagged.tag("v1.0.0")
    await tagged.step()
    assert (await tagged.shown())["problem"] == ""
    assert await tagged.versions() == {"1.0.0": commit}
    await tagged.app.admin.patch(address(PATH), json={"url": "", "folder": ""})
    assert "uploaded" in await tagged.app.admin.refused("POST", f"{address(PATH)}/look", 409)
    tagged.tag("v2.0.0")
    await tagged.step()
    assert await tagged.versions() == {"1.0.0": commit}, "what is published stays, and nothing is read any more"


@on_one
async def test_why_the_repository_cannot_be_read_is_said(tagged: Tagged) -> None:
    """`the forge has not yet told the address of the repository`, a minute after the forge had said why not."""
    await tagged.follow()
    db = tagged.found.db
    await RepositoryWatch(db, reads.watched_sources).step()

    async def refuse(tx: Tx) -> None:
        for known in await repository_store.watched(tx):
            held = await repository_store.hold(tx, known.id)
            assert held is not None
            later = tx.moment + timedelta(minutes=10)
            await repository_store.save(tx, held, replace(held, problem="its address is not public", poll_at=later))

    await db.write(refuse)
    await tagged.loops[0].step()
    assert (await tagged.shown())["problem"].endswith("cannot be read: its address is not public")
    assert not await db.read(repository_store.has_due)
    await tagged.look()  # somebody has mended it, and does not wait for ten minutes
    assert await db.read(repository_store.has_due)


@on_one
async def test_a_look_at_a_module_that_was_changed_meanwhile_writes_nothing(tagged: Tagged) -> None:
    await tagged.follow()
    tagged.tag("v1.0.0")
    await tagged.step()
    tools = tagged.tools[0]
    published_id = (await tagged.shown())["id"]
    stale = await tagged.found.db.read(lambda tx: store.get(tx, published_id))
    assert stale is not None
    with pytest.raises(tags.LookTaken):
        await tagged.found.db.write(lambda tx: tags.hold(tx, tools, stale))


def version(number: str, tag: str, commit: str, moved: str = "") -> RegistryVersion:
    return RegistryVersion(
        id=f"pbv_{number}",
        published_id="pub_1",
        version=number,
        archive_id="arc_1",
        sha256="",
        size=1,
        tag=tag,
        commit_id=commit,
        moved_to=moved,
        created_by="",
        created_by_name="",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_the_plan_of_tags() -> None:
    known = [version("1.0.0", "v1.0.0", "a"), version("1.1.0", "", ""), version("1.2.0", "v1.2.0", "a", "b")]
    refused = [RefusedTag("v3.0.0", "f", "why"), RefusedTag("v4.0.0", "old", "why")]
    found = tags.plan(
        {
            "v1.0.0": "b",
            "1.0.0": "a",
            "v1.1.0": "c",
            "v1.2.0": "a",
            "v10.0.0": "d",
            "v2.0.0": "d",
            "2.0.0": "d",
            "2.1.0": "x",
            "v2.1.0": "y",
            "v3.0.0": "f",
            "v4.0.0": "new",
            "v1": "z",
            "latest": "z",
            "v1.0.0-" + "a" * 100: "z",
        },
        "",
        known,
        refused,
    )
    assert found.new == [
        ("10.0.0", "v10.0.0", "d"),
        ("4.0.0", "v4.0.0", "new"),
        ("2.1.0", "v2.1.0", "y"),
        ("2.0.0", "v2.0.0", "d"),
    ]
    assert found.moved == {"pbv_1.0.0": "b", "pbv_1.2.0": ""}
    assert [(each.tag, each.commit_id) for each in found.refused] == [("v1.1.0", "c"), ("v3.0.0", "f"), ("2.1.0", "x")]
