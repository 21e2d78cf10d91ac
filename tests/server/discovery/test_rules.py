"""A rule makes modules from the folders of a repository that have a root configuration, and marks those whose folder is gone."""

import asyncio

import pytest

from terracrew.api.jobs import JobStatus
from terracrew.server.db.seam import Tx
from terracrew.server.discovery import decide, making, store
from terracrew.server.discovery.loop import LEASE_SECONDS, Discovery
from tests.server.application import on_one
from tests.server.discovery.found import LIBRARY, ROOT, Found

RULE = "/api/v1/discovery-rules/team%2Fall"


@pytest.mark.feature("F6.rule")
async def test_a_push_of_a_folder_makes_a_module_and_local_modules_make_none(found: Found) -> None:
    await found.rule()
    await found.step()
    assert set(await found.modules()) == {"team/prod/app", "team/prod/network"}
    module = (await found.modules())["team/prod/network"]
    assert (module["source"]["url"], module["source"]["subdirectory"]) == (found.url, "prod/network")
    assert module["engine"] == "tofu"
    found.write("prod/database", ROOT)
    commit = await found.push()
    assert set(await found.modules()) == {"team/prod/app", "team/prod/database", "team/prod/network"}
    shown = await found.show()
    assert (shown.commit_id, shown.problem) == (commit, "")
    assert shown.counts == {"made": 3}
    entries = (await found.app.admin.get("/api/v1/audit?limit=50")).json()["items"]
    made = [
        each
        for each in entries
        if each["action"] in ("module.create", "group.create") and each["actor_kind"] == "system"
    ]
    assert {each["actor_name"] for each in made} == {"discovery rule all"}
    assert {each["actor_id"] for each in made} == {shown.id}
    assert sorted(each["path"] for each in made) == ["team/prod", *sorted(await found.modules())]


@pytest.mark.feature("F6.gone")
async def test_a_folder_that_is_gone_marks_its_module_and_one_that_is_back_takes_the_mark(found: Found) -> None:
    await found.rule()
    await found.step()
    before = await found.modules()
    found.remove("prod/network")
    commit = await found.push()
    after = await found.modules()
    assert set(after) == set(before), "nothing is deleted"
    assert after["team/prod/network"]["source_gone"] == commit
    assert after["team/prod/app"]["source_gone"] == ""
    assert await found.states() == {"prod/app": "made", "prod/network": "gone"}
    assert await found.app.scalar("SELECT count(*) FROM jobs") == 0, "nothing is planned or destroyed"
    later = await found.push("something else")
    assert (await found.modules())["team/prod/network"]["source_gone"] == commit != later
    found.write("prod/network", ROOT)
    await found.push()
    assert (await found.modules())["team/prod/network"]["source_gone"] == ""
    assert (await found.modules())["team/prod/network"]["id"] == before["team/prod/network"]["id"]
    assert await found.states() == {"prod/app": "made", "prod/network": "made"}


@pytest.mark.feature("F6.gone")
async def test_a_folder_that_is_renamed_makes_another_module_and_marks_the_old_one(found: Found) -> None:
    await found.rule()
    await found.step()
    found.repository.git("mv", "prod/network", "prod/net")
    await found.push()
    modules = await found.modules()
    assert modules["team/prod/network"]["source_gone"]
    assert modules["team/prod/net"]["source_gone"] == ""
    assert await found.states() == {"prod/app": "made", "prod/net": "made", "prod/network": "gone"}


@on_one
@pytest.mark.feature("F6.gone")
async def test_a_branch_that_is_gone_marks_nothing(found: Found) -> None:
    await found.rule(branch="release")
    found.repository.git("branch", "release", "main")
    await found.step()
    assert len(await found.modules()) == 2
    found.repository.git("branch", "-D", "release")
    found.clock.advance(61)
    await found.step()
    assert {each["source_gone"] for each in (await found.modules()).values()} == {""}
    assert "no branch release" in (await found.show()).problem


@pytest.mark.feature("F6.kept")
async def test_what_people_have_made_is_kept_and_shown(found: Found) -> None:
    source = {"kind": "git", "url": f"{found.url}.git", "subdirectory": "prod/network"}
    await found.app.admin.made("/api/v1/groups", {"path": "team/prod"})
    await found.app.admin.made("/api/v1/modules", {"path": "team/by-hand", "source": source})
    other = {"kind": "local", "path": "/srv/sources/a"}
    by_hand = await found.app.admin.made("/api/v1/modules", {"path": "team/prod/app", "source": other})
    await found.rule()
    await found.step()
    assert await found.states() == {"prod/app": "conflict", "prod/network": "kept"}
    [conflict, kept] = (await found.show()).folders
    assert "there is a module `team/prod/app` already" in conflict.reason
    assert kept.path == "team/by-hand"
    assert set(await found.modules()) == {"team/by-hand", "team/prod/app"}
    assert (await found.modules())["team/prod/app"]["source"]["path"] == "/srv/sources/a"
    await found.app.admin.delete(f"/api/v1/modules/{by_hand['id']}")
    found.clock.advance(301)
    await found.step()
    assert await found.states() == {"prod/app": "made", "prod/network": "kept"}
    found.remove("prod/network")
    await found.push()
    assert (await found.modules())["team/by-hand"]["source_gone"], "modules of the group are marked, too"


@pytest.mark.feature("F6.kept")
async def test_a_module_that_was_deleted_or_moved_is_not_made_again(found: Found) -> None:
    await found.rule()
    await found.step()
    network = (await found.modules())["team/prod/network"]["id"]
    app = (await found.modules())["team/prod/app"]["id"]
    await found.app.admin.made("/api/v1/groups", {"path": "elsewhere"})
    assert (await found.app.admin.delete(f"/api/v1/modules/{network}")).status_code < 300
    moved = await found.app.admin.post(f"/api/v1/modules/{app}/move", json={"path": "elsewhere/app"})
    assert moved.status_code < 300, moved.text
    await found.push()
    assert set(await found.modules()) == {"elsewhere/app"}
    assert await found.states() == {"prod/app": "made", "prod/network": "deleted"}
    found.remove("prod/app")
    found.remove("prod/network")
    await found.push()
    assert (await found.modules())["elsewhere/app"]["source_gone"], "what the rule has made is marked wherever it is"
    found.write("prod/network", ROOT)
    await found.push()
    assert set(await found.modules()) == {"elsewhere/app", "team/prod/network"}


@on_one
@pytest.mark.feature("F6.kept")
async def test_a_module_with_another_source_is_not_marked(found: Found) -> None:
    await found.rule()
    await found.step()
    network = (await found.modules())["team/prod/network"]
    found.remove("prod/network")
    await found.push()
    source = network["source"] | {"subdirectory": "prod/app"}
    changed = await found.app.admin.patch(f"/api/v1/modules/{network['id']}", json={"source": source})
    assert changed.json()["source_gone"] == ""
    await found.push()
    assert (await found.modules())["team/prod/network"]["source_gone"] == ""


@pytest.mark.feature("F6.rule")
async def test_two_folders_with_one_path_and_a_root_within_a_root_are_conflicts(found: Found) -> None:
    found.write("stage/app", ROOT)
    found.write("prod", ROOT)
    found.repository.commit("more")
    await found.rule(module_path="{dir}")
    await found.step()
    assert await found.states() == {
        "prod": "made",
        "prod/app": "conflict",
        "prod/network": "made",
        "stage/app": "conflict",
    }
    await found.rule(name="again", include=["prod/network"])
    await found.app.admin.made("/api/v1/groups", {"path": "other"})
    await found.rule(name="paths", group="other", include=["prod", "prod/**"], module_path="deep/{path}")
    await found.step()
    assert await found.states("team/again") == {"prod/network": "kept"}
    reasons = {each.folder: each.reason for each in (await found.show("other/paths")).folders}
    assert "needs the group `other/deep/prod`" in reasons["prod/app"]
    assert set(await found.modules()) == {"team/network", "team/prod", "other/deep/prod"}


@on_one
@pytest.mark.feature("F6.rule")
async def test_more_than_the_limit_are_not_made(found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "MAX_NEW_MODULES", 3)
    for number in range(4):
        found.write(f"stage/{number}", ROOT)
    found.repository.commit("many")
    await found.rule()
    await found.step()
    assert await found.modules() == {}
    shown = await found.show()
    assert "it would make 6 modules at once, and at most 3 are made" in shown.problem
    assert shown.counts == {"new": 6}
    await found.app.admin.patch(RULE, json={"exclude": ["stage/**"]})
    await found.step()
    assert (await found.show()).problem == ""
    assert len(await found.modules()) == 2


@pytest.mark.feature("F6.rule")
async def test_two_servers_and_a_repeat_make_each_module_once(found: Found) -> None:
    for number in range(10):
        found.write(f"stage/{number}", ROOT)
    found.repository.commit("many")
    await found.rule()
    await asyncio.gather(*(each.step() for each in [*found.loops, *found.loops]))
    await found.step()
    assert len(await found.modules()) == 12
    assert await found.app.scalar("SELECT count(*) FROM audit WHERE action = 'module.create'") == 12
    assert (await found.show()).counts == {"made": 12}


@pytest.mark.feature("F6.rule")
async def test_a_server_that_ends_between_two_modules_is_replaced(
    found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        found.write(f"stage/{number}", ROOT)
    found.repository.commit("many")
    await found.rule()
    make, made, reached = making.modules.create, 0, asyncio.Event()

    async def ends(*arguments: object) -> object:
        nonlocal made
        made += 1
        if made == 3:
            reached.set()
            await asyncio.Event().wait()
        return await make(*arguments)  # pyright: ignore

    with monkeypatch.context() as patched:
        patched.setattr(making.modules, "create", ends)
        step = asyncio.create_task(found.loops[0].step())
        await asyncio.wait_for(reached.wait(), 10)
        step.cancel()
        await asyncio.wait([step])
    assert len(await found.modules()) == 2
    await found.loops[1].step()
    assert len(await found.modules()) == 2, "the other server waits until the lease ends"
    found.clock.advance(LEASE_SECONDS + 1)
    await found.loops[1].step()
    assert len(await found.modules()) == 6
    assert await found.app.scalar("SELECT count(*) FROM audit WHERE action = 'module.create'") == 6


@on_one
async def test_a_rule_that_was_changed_meanwhile_makes_nothing_more(
    found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    await found.rule()
    make = making.modules.create

    async def changes(tx: Tx, *arguments: object) -> object:
        await tx.run("UPDATE discovery_rules SET revision = revision + 1, exclude = '[\"prod/network\"]'")
        return await make(tx, *arguments)  # pyright: ignore

    with monkeypatch.context() as patched:
        patched.setattr(making.modules, "create", changes)
        await found.loops[0].step()
    assert len(await found.modules()) == 1
    await found.step()
    assert await found.states() == {"prod/app": "made"}


@on_one
@pytest.mark.feature("F6.rule")
async def test_a_new_module_is_planned_at_once_and_never_applied(found: Found) -> None:
    await found.rule(plans_new=True, tags=["eu"], needs_approval=True, engine_version="~> 1.9")
    await found.step()
    jobs = (await found.app.admin.get("/api/v1/jobs")).json()["items"]
    assert {(each["type"], each["status"]) for each in jobs} == {("PLAN", JobStatus.QUEUED.value)}
    assert {each["origin"]["kind"] for each in jobs} == {"discovery"}
    module = (await found.modules())["team/prod/app"]
    assert (module["tags"], module["needs_approval"], module["engine_version"]) == (["eu"], True, "~> 1.9")
    await found.push()
    assert len((await found.app.admin.get("/api/v1/jobs")).json()["items"]) == 2, "once"


@on_one
@pytest.mark.feature("F6.hostile")
async def test_hostile_names_stay_in_the_repository(found: Found) -> None:
    for folder in ("größe", "a b", "x" * 200, "-rf", "$(id)", "<b>", "..a", "con.trol", "https:x", "A/../B"):
        found.write(folder, ROOT)
    (found.repository.folder / "link").symlink_to("/etc")
    (found.repository.folder / "linked").mkdir()
    (found.repository.folder / "linked/main.tf").symlink_to("/etc/passwd")
    found.write("uses", 'module "a" { source = "../../../../etc" }\nmodule "b" { source = "/etc" }\n')
    found.repository.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},submodule")
    found.repository.commit("hostile")
    await found.rule(exclude=["prod/**", "modules/**"])
    await found.step()
    assert set(await found.modules()) == {"team/a-b", "team/b", "team/con-trol", "team/rf", "team/uses"}
    states = await found.states()
    assert states["größe"] == states["x" * 200] == states["$(id)"] == states["<b>"] == states["https:x"] == "invalid"
    assert "linked" not in states
    assert "..a" not in states, "a hidden folder is left out"
    sources = [each["source"]["subdirectory"] for each in (await found.modules()).values()]
    assert all(not each.startswith(("/", "..")) for each in sources)


@on_one
async def test_a_pulumi_rule_finds_programs(found: Found) -> None:
    found.write("program", "name: a\nruntime: yaml\n", "Pulumi.yaml")
    found.repository.commit("program")
    await found.rule(engine="pulumi")
    await found.step()
    assert {path: each["engine"] for path, each in (await found.modules()).items()} == {"team/program": "pulumi"}


@on_one
async def test_a_rule_of_the_organization_makes_modules_at_the_top(found: Found) -> None:
    rule = await found.rule(group="", module_path="{flat}")
    await found.step()
    assert rule == "all"
    assert set(await found.modules()) == {"prod-app", "prod-network"}


@on_one
async def test_a_disabled_rule_does_nothing_and_a_deleted_one_leaves_its_modules(found: Found) -> None:
    await found.rule(is_enabled=False)
    await found.step()
    assert await found.modules() == {}
    refused = await found.app.admin.post(f"{RULE}/run", json={})
    assert refused.status_code == 409
    await found.app.admin.patch(RULE, json={"is_enabled": True})
    await found.step()
    found.remove("prod/network")
    await found.push()
    assert (await found.modules())["team/prod/network"]["source_gone"]
    assert (await found.app.admin.delete(RULE)).status_code < 300
    assert {each["source_gone"] for each in (await found.modules()).values()} == {""}
    assert len(await found.modules()) == 2


@on_one
async def test_a_repository_that_is_away_is_told_and_looked_at_again(found: Found) -> None:
    await found.rule()
    found.git.fails_with = 503
    for _ in range(6):
        await found.step()
        found.clock.advance(121)
    assert (await found.show()).problem
    assert await found.modules() == {}
    found.git.fails_with = 0
    found.clock.advance(121)
    await found.step()
    shown = await found.show()
    assert (shown.problem, shown.counts) == ("", {"made": 2})


@on_one
async def test_a_rule_whose_connection_is_deleted_says_so(found: Found) -> None:
    await found.rule()
    await found.step()
    await found.app.admin.delete("/api/v1/forges/plain")
    found.clock.advance(301)
    for each in found.loops:
        await each.step()
    assert "no connection to a forge" in (await found.show()).problem
    assert len(await found.modules()) == 2


@on_one
async def test_an_unknown_failure_of_one_rule_does_not_stop_the_others(found: Found) -> None:
    await found.rule()
    other = await found.rule(name="other", include=["modules/*"], exclude=[], module_path="lib/{dir}")
    await found.db.write(lambda tx: _damage(tx, "all"))
    found.write("modules/vpc", LIBRARY)
    found.repository.commit("more")
    await found.know()
    await Discovery(found.tools[0]).step()
    assert "team/lib/vpc" in await found.modules(), other


async def _damage(tx: Tx, name: str) -> None:
    await tx.run("UPDATE discovery_rules SET include = 'no JSON' WHERE name = :name", name=name)
    assert await tx.value(f"SELECT count(*) AS found FROM {store.RULES.name}") == 2
