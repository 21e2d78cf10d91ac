"""A pull request is planned: the modules that it touches, from the result of its merge, again when that or the state changes."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from terracrew.api.jobs import JobStatus
from terracrew.errors import Conflict
from terracrew.protocol.spec import GitSource
from terracrew.server.db.seam import Tx
from terracrew.server.pull_requests import decide, store
from terracrew.server.tree.groups.quotas import Admission, Quotas
from tests.server.application import on_one
from tests.server.pull_requests.world import ADDS_ONE, NOTHING, World
from tests.thoroughness import IS_THOROUGH


@pytest.mark.feature("F3.touched")
async def test_only_modules_that_the_merge_changes_are_planned_and_the_forge_shows_it(world: World) -> None:
    found = world.open_on_forge("change", "app")
    await world.step()
    assert await world.states(found) == {"team/app": "waiting"}
    row, modules = await world.show(found)
    job = await world.job(modules["team/app"].plan_job_id)
    assert isinstance(job.source, GitSource)
    assert job.source.merge
    assert (job.source.merge.head, job.source.merge.base) == (found.head_commit, row.base_commit)
    assert job.origin is not None
    assert (job.origin.kind, job.origin.name, job.origin.author) == (
        "pull_request",
        f"acme/network #{found.number}",
        "ada",
    )
    assert (job.origin.commit, job.origin.base_commit) == (found.head_commit, row.base_commit)
    assert world.status["terracrew"] == ("pending", "0 of 1 module finished")
    world.clock.advance(61)
    await world.plan(found, "team/app")
    assert await world.states(found) == {"team/app": "changes"}
    assert world.status["terracrew"] == ("success", "1 module changes")
    assert world.status["terracrew/team/app"] == ("success", "changes: 1 to add, 0 to change, 0 to destroy")
    [comment] = world.own_comments
    assert "terraform_data.a" in comment
    assert f"/dashboard/jobs/{job.id}" in comment


@pytest.mark.feature("F3.touched")
async def test_a_change_of_a_local_module_touches_those_that_use_it(world: World) -> None:
    found = world.forge.open(world.on_forge, "net")
    world.push(found, world.branch("net", "modules/net", 'output "net" { value = 2 }\n'))
    await world.step()
    assert await world.states(found) == {"team/vpc": "waiting"}
    other = world.forge.open(world.on_forge, "readme")
    world.repository.git("checkout", "-q", "-b", "readme", "main")
    world.write("app", "words", name="README.md")
    world.push(other, world.repository.commit("words"))
    await world.step()
    assert await world.states(other) == {}
    assert world.status["terracrew"] == ("success", "no module is touched")
    assert len(world.own_comments) == 1, "nothing is said where nothing is touched"


async def test_a_new_commit_replaces_the_plan_also_if_it_changes_no_file_of_the_module(world: World) -> None:
    found = world.open_on_forge("change", "app")
    await world.step()
    first = (await world.show(found))[1]["team/app"].plan_job_id
    world.push(found, world.branch("change", "app", 'output "app" { value = 3 }\n'))
    await world.step()
    second = (await world.show(found))[1]["team/app"].plan_job_id
    assert second != first
    assert (await world.job(first)).status is JobStatus.CANCELED
    await world.plan(found, "team/app")
    world.push(found, world.branch("change", "docs", "words"))
    await world.step()
    row, modules = await world.show(found)
    assert row.head_commit == modules["team/app"].head_commit == found.head_commit
    assert modules["team/app"].state == "waiting"
    third = modules["team/app"].plan_job_id
    await world.step()
    assert (await world.show(found))[1]["team/app"].plan_job_id == third != second


@pytest.mark.feature("F4.stale")
async def test_an_apply_of_the_module_makes_the_plan_stale_and_it_is_made_again(world: World) -> None:
    touched, other = await world.planned("one", "app"), await world.planned("two", "vpc")
    before, kept = (await world.show(touched))[1]["team/app"], (await world.show(other))[1]["team/vpc"]
    made = await world.app.admin.made("/api/v1/modules/team%2Fapp/jobs", {"type": "APPLY"})
    await world.apply(made["id"])
    after = (await world.show(touched))[1]["team/app"]
    assert (after.state, after.reason) == ("stale", "the state of the module has changed since it was planned")
    assert after.plan_job_id not in (None, before.plan_job_id)
    assert (await world.show(other))[1]["team/vpc"] == kept
    await world.plan(touched, "team/app", NOTHING)
    assert await world.states(touched) == {"team/app": "no_changes"}


async def test_the_target_branch_moves_and_only_what_that_changes_is_planned_again(world: World) -> None:
    found = world.forge.open(world.on_forge, "both")
    world.branch("both", "app")
    world.push(found, world.branch("both", "vpc", 'module "net" { source = "../modules/net" }\n# more\n'))
    await world.step()
    before = (await world.show(found))[1]
    world.write("modules/net", 'output "net" { value = 5 }\n')
    world.on_forge.branches["main"] = world.repository.commit("the branch moves")
    await world.step()
    row, after = await world.show(found)
    assert row.base_commit == world.on_forge.branches["main"]
    assert after["team/app"].plan_job_id == before["team/app"].plan_job_id
    assert after["team/vpc"].plan_job_id != before["team/vpc"].plan_job_id


async def test_a_conflict_is_said_and_ends_with_a_commit_that_can_be_merged(world: World) -> None:
    found = world.open_on_forge("change", "app")
    world.write("app", 'output "app" { value = 9 }\n')
    world.on_forge.branches["main"] = world.repository.commit("the branch moves")
    await world.step()
    assert await world.states(found) == {}
    state, words = world.status["terracrew"]
    assert state == "failure"
    assert "both change app/main.tf" in words
    world.repository.git("checkout", "-q", "change")
    world.repository.git("merge", "-q", "-X", "theirs", "main")
    world.write("app", 'output "app" { value = 10 }\n')
    world.push(found, world.repository.commit("solved"))
    world.repository.git("checkout", "-q", "main")
    world.clock.advance(61)
    await world.step()
    assert await world.states(found) == {"team/app": "waiting"}


@pytest.mark.feature("F5.fork")
async def test_nothing_of_a_fork_runs_before_a_member_allows_the_commit(world: World) -> None:
    found = world.open_on_forge("change", "app", is_fork=True)
    await world.step()
    assert await world.states(found) == {}
    assert await world.app.admin.listed("/api/v1/jobs") == []
    assert world.status["terracrew"][0] == "pending"
    assert f"terracrew allow {found.head_commit}" in world.own_comments[0].replace("\\", "")
    operator = await world.app.person("olga", "operator", "team")
    await world.link("ada", operator)
    await world.comment(found, f"terracrew allow {found.head_commit}", by="ada")
    assert await world.states(found) == {}, "an operator may not run other code with the module's credentials"
    maintainer = await world.app.person("mia", "owner")
    await world.link("bob", maintainer)
    await world.comment(found, f"terracrew allow {found.head_commit}", by="bob")
    assert await world.states(found) == {"team/app": "waiting"}
    pending = (await world.show(found))[1]["team/app"].plan_job_id
    world.push(found, world.branch("change", "app", 'output "app" { value = 3 }\n'))
    await world.step()
    assert await world.states(found) == {"team/app": "canceled"}, "another commit was not looked at"
    assert (await world.job(pending)).status is JobStatus.CANCELED


async def test_a_folder_that_is_removed_destroys_nothing(world: World) -> None:
    found = world.forge.open(world.on_forge, "gone")
    world.repository.git("checkout", "-q", "-b", "gone", "main")
    (world.repository.folder / "app" / "main.tf").unlink()
    world.push(found, world.repository.commit("removed"))
    world.repository.git("checkout", "-q", "main")
    await world.step()
    row = (await world.show(found))[1]["team/app"]
    assert (row.state, row.plan_job_id) == ("no_changes", None)
    assert "nothing is destroyed" in row.reason


async def test_settings_say_what_is_planned(world: World) -> None:
    await world.app.admin.patch("/api/v1/modules/team%2Fapp", json={"pull_request_plans": False})
    await world.app.admin.patch("/api/v1/modules/team%2Fvpc", json={"watch": ["/shared/**"]})
    found = world.open_on_forge("change", "app")
    await world.step()
    assert await world.states(found) == {}
    other = world.forge.open(world.on_forge, "shared")
    world.push(other, world.branch("shared", "shared", "words"))
    await world.step()
    assert await world.states(other) == {"team/vpc": "waiting"}


async def test_a_closed_pull_request_cancels_its_plans_and_one_that_is_opened_again_is_planned_again(
    world: World,
) -> None:
    found = world.open_on_forge("change", "app")
    await world.step()
    job_id = (await world.show(found))[1]["team/app"].plan_job_id
    world.forge.close(world.on_forge, found.number)
    await world.step()
    assert (await world.job(job_id)).status is JobStatus.CANCELED
    assert not (await world.show(found))[0].is_active
    found.state = "open"
    await world.step()
    assert (await world.show(found))[0].is_active


@on_one
async def test_a_server_that_is_killed_in_the_middle_leaves_its_turn_to_another(world: World) -> None:
    found = world.open_on_forge("change", "app")
    await world.step()

    row, _ = await world.show(found)
    assert await world.db.write(lambda tx: store.claim(tx, row.id, "srv_killed", 0.5)) is not None
    assert await world.db.write(lambda tx: store.claim(tx, row.id, "srv_0", 0.5)) is None
    await asyncio.sleep(0.6)
    world.push(found, world.branch("change", "app", 'output "app" { value = 3 }\n'))
    await world.step()
    assert (await world.show(found))[0].lease_holder is None
    assert await world.states(found) == {"team/app": "waiting"}


@pytest.mark.feature("F3.bounded")
async def test_many_modules_are_shown_with_few_writes(world: World) -> None:
    """Five hundred modules in the thorough run, and sixty otherwise."""
    count = 500 if IS_THOROUGH else 60
    folders = [f"m/{number:03d}" for number in range(count)]
    for each in folders:
        world.write(each, "")
        await world.module(each)
    world.on_forge.branches["main"] = world.repository.commit("many")
    found = world.forge.open(world.on_forge, "all")
    world.push(found, world.branch("all", folders[0], "# 2\n", **dict.fromkeys(folders[1:], "# 2\n")))
    await world.step()
    assert set((await world.states(found)).values()) == {"waiting"}

    def writes() -> int:
        return sum(count for what, count in world.forge.asked.items() if what.startswith(("POST", "PATCH")))

    assert 0 < writes() <= decide.MAX_WRITES_PER_MINUTE
    _, modules = await world.show(found)
    for number, path in enumerate(sorted(modules)):
        await world.end_plan(modules[path], ADDS_ONE)
        if number % 20 == 0:
            await world.step()
    await world.step()
    assert writes() <= decide.MAX_WRITES_PER_MINUTE
    for _ in range(3):
        world.clock.advance(61)
        row, _ = await world.show(found)
        await world.db.write(lambda tx, row=row: store.make_due(tx, row.id))
        await world.step()
    assert world.status["terracrew"] == ("success", f"{count} modules change")
    assert len([name for name in world.status if name.startswith("terracrew/")]) == 10
    assert len(world.own_comments) == 1


@on_one
async def test_plans_wait_for_room_in_the_quota_of_the_organization(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Admission(0, Conflict("its quota is full", quota="queued_jobs"))
    found = world.open_on_forge("change", "app")
    with monkeypatch.context() as patched:
        patched.setattr(Quotas, "admit_jobs", _refusing(full))
        await world.step()
        row = (await world.show(found))[1]["team/app"]
        assert (row.state, row.reason, row.plan_job_id) == ("waiting", "its quota is full", None)
    world.clock.advance(301)
    await world.step()
    row = (await world.show(found))[1]["team/app"]
    assert (row.reason, row.plan_job_id is not None) == ("", True)


def _refusing(full: Admission) -> Any:
    async def admit_jobs(_: Quotas, __: Tx, wanted: Mapping[str, int]) -> dict[str, Admission]:
        return dict.fromkeys(wanted, full)

    return admit_jobs
