"""What a merge applies, however it was made and whatever the server saw first."""

import pytest

from terracrew.api.jobs import JobStatus
from tests.builders.deliveries import RUNNING
from tests.forges import fake_forge
from tests.forges.fake_forge import FakePullRequest
from tests.server.application import on_one
from tests.server.pull_requests.acting import app, changing_jobs, later, operator, push_to_main, rule
from tests.server.pull_requests.world import NOTHING, World

pytestmark = pytest.mark.feature("F4.apply", "F4.merge")
MONTH_SECONDS = 30 * 86_400


def tell(world: World, found: FakePullRequest, commit: str) -> None:
    """The forge says that a pull request is merged as this commit."""
    world.forge.merge(world.on_forge, found.number)
    found.merge_commit = world.on_forge.branches["main"] = commit


async def change_state(world: World, path: str) -> None:
    """Somebody applies a module by hand."""
    made = await world.app.admin.made(f"/api/v1/modules/{path.replace('/', '%2F')}/jobs", {"type": "APPLY"})
    await world.apply(made["id"])


async def both(world: World) -> FakePullRequest:
    """A pull request that changes two modules, planned."""
    found = world.forge.open(world.on_forge, "change")
    world.push(found, world.branch("change", "app", vpc="# changed\n"))
    await world.step()
    await world.plan(found, "team/app")
    await world.plan(found, "team/vpc")
    return found


@pytest.mark.parametrize("option", ["--ff-only", "--no-ff"])
@pytest.mark.parametrize("setting", ["on_merge", "on_command"])
@on_one
async def test_the_push_of_a_merge_may_be_seen_before_the_merge(world: World, option: str, setting: str) -> None:
    await rule(world, setting)
    await operator(world)
    found = await world.planned()
    git = world.repository.git
    git("merge", "-q", option, *([] if option == "--ff-only" else ["-m", "merged"]), found.head_commit)
    world.on_forge.branches["main"] = git("rev-parse", "HEAD")
    await world.step()
    tell(world, found, git("rev-parse", "HEAD"))
    await later(world)
    await world.comment(found, "terracrew apply")
    [job_id] = await changing_jobs(world)
    assert (await world.job(job_id)).plan_job_id is not None, "the plan that was shown"


@on_one
async def test_a_branch_that_is_what_the_target_branch_is_touches_nothing(world: World) -> None:
    found = world.open_on_forge("change", "app")
    await world.step()
    world.push(found, world.repository.git("rev-parse", "main"))
    await later(world)
    assert world.status["terracrew"] == ("success", "no module is touched")
    await world.comment(found, "terracrew help")
    assert "terracrew plan [PATH" in world.own_comments[-1]


@on_one
async def test_settings_count_as_they_were_when_it_was_merged(world: World) -> None:
    found = await both(world)
    await rule(world, "on_command")
    world.merge_on_forge(found)
    await later(world)
    await rule(world, "on_merge")
    await later(world, 2)
    await later(world, 2, seconds=MONTH_SECONDS)
    assert not (await world.show(found))[0].is_active
    await world.comment(found, "terracrew help", by="ada")
    await later(world, 2)
    assert await changing_jobs(world) == []


@on_one
async def test_a_comment_on_an_old_merge_applies_nothing(world: World) -> None:
    await rule(world, "on_merge")
    found = world.open_on_forge("change", "app")
    await world.step()
    await world.plan(found, "team/app", NOTHING)
    world.merge_on_forge(found)
    await later(world, 2)
    await change_state(world, "team/app")
    await later(world, seconds=MONTH_SECONDS)
    before = await changing_jobs(world)
    await world.comment(found, "terracrew help", by="ada")
    await later(world, 2)
    assert await changing_jobs(world) == before


@on_one
async def test_commits_that_the_forge_serves_late_are_waited_for(world: World) -> None:
    await rule(world, "on_merge")
    found = await world.planned()
    git = world.repository.git
    commit = world.branch("change", "vpc", "# changed\n")
    found.head_commit = commit
    git("merge", "-q", "--squash", commit)
    git("commit", "-q", "-m", "squashed")
    git("branch", "-D", "change")
    tell(world, found, git("rev-parse", "HEAD"))
    await world.step()
    git("update-ref", f"refs/pull/{found.number}/head", commit)
    await later(world)
    assert set((await world.show(found))[1]) == {"team/app", "team/vpc"}


@on_one
async def test_a_fast_forward_of_which_nothing_was_known_says_that_it_is_not_applied(world: World) -> None:
    await rule(world, "on_merge")
    found = world.open_on_forge("change", "app")
    world.repository.git("merge", "-q", "--ff-only", found.head_commit)
    tell(world, found, found.head_commit)
    await later(world)
    row, modules = await world.show(found)
    assert modules == {}
    assert "nothing says where its branch began" in row.replies[0]
    assert "nothing says where its branch began" in world.own_comments[-1]


@on_one
async def test_a_change_that_was_applied_and_is_taken_back_is_planned_until_it_is_applied(world: World) -> None:
    await rule(world, "on_command")
    await operator(world)
    found = await world.planned()
    await world.comment(found, "terracrew apply")
    await world.apply((await app(world, found)).apply_job_id)
    git = world.repository.git
    git("checkout", "-q", "change")
    git("revert", "--no-edit", "HEAD")
    world.push(found, git("rev-parse", "HEAD"))
    git("checkout", "-q", "main")
    await world.step()
    await world.plan(found, "team/app")
    await later(world)
    assert await world.states(found) == {"team/app": "changes"}


@pytest.mark.parametrize("setting", ["never", "on_merge"])
@on_one
async def test_modules_that_no_command_applies_do_not_keep_it_from_being_merged(world: World, setting: str) -> None:
    await rule(world, "on_command_then_merge")
    await operator(world)
    answer = await world.app.admin.patch("/api/v1/modules/team%2Fvpc", json={"pull_request_apply": setting})
    assert answer.status_code == 200, answer.text
    found = await both(world)
    await world.comment(found, "terracrew apply")
    await world.apply((await app(world, found)).apply_job_id)
    await later(world, 2)
    assert (found.state, world.status["terracrew"][0]) == ("merged", "success")


@on_one
async def test_writes_that_are_refused_do_not_keep_it_from_being_merged(world: World) -> None:
    folders = [f"m{number}" for number in range(10)]
    for folder in folders:
        world.write(folder, 'output "app" { value = 1 }\n')
    world.on_forge.branches["main"] = world.repository.commit("ten")
    for folder in folders:
        await world.module(folder)
    await rule(world, "on_command_then_merge")
    await operator(world)
    found = world.forge.open(world.on_forge, "change")
    world.push(found, world.branch("change", "app", **dict.fromkeys(folders, "# changed\n")))
    await world.step()
    for path in await world.states(found):
        await world.end_plan((await world.show(found))[1][path])
    await later(world, seconds=61)
    await world.comment(found, "terracrew apply")
    world.forge.own.may -= {fake_forge.STATUSES}
    for row in (await world.show(found))[1].values():
        await world.apply(row.apply_job_id)
    await later(world, 4, seconds=61)
    assert found.state == "merged"


@on_one
async def test_one_that_was_closed_is_at_rest_while_its_apply_runs(world: World) -> None:
    await rule(world, "on_command")
    await operator(world)
    found = await both(world)
    await world.comment(found, "terracrew apply team/app")
    job = await world.job((await app(world, found)).apply_job_id)
    await (await world.runner.again(job.id, job.attempt)).deliver(RUNNING)
    world.forge.close(world.on_forge, found.number)
    await later(world)
    await change_state(world, "team/vpc")
    await later(world)
    assert await world.loops[0].step() == 0
    assert (await world.job(job.id)).status is JobStatus.PROCESSING


@on_one
async def test_a_merge_by_rebasing_is_applied(world: World) -> None:
    await rule(world, "on_merge")
    found = world.open_on_forge("change", "app")
    push_to_main(world, "# x\n", "other.tf")
    world.repository.git("cherry-pick", found.head_commit)
    tell(world, found, world.repository.git("rev-parse", "HEAD"))
    await later(world)
    assert len(await changing_jobs(world)) == 1
