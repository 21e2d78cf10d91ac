"""A pull request is applied when it was asked for, and nothing else is: by a command, by the merge, or before the merge."""

import pytest

from terracrew.api.jobs import JobStatus
from terracrew.protocol.spec import GitSource, JobType
from tests.forges.fake_forge import FakePullRequest
from tests.server.pull_requests.acting import changing_jobs, operator, rule
from tests.server.pull_requests.world import NOTHING, World

pytestmark = pytest.mark.feature("F4.apply")


async def test_a_command_applies_the_plan_as_it_was_shown(world: World) -> None:
    await rule(world, "on_command")
    bob = await operator(world)
    found = await world.planned()
    await world.comment(found, "terracrew apply team/app")
    row = (await world.show(found))[1]["team/app"]
    job = await world.job(row.apply_job_id)
    assert (row.state, job.plan_job_id, job.created_by) == ("applying", row.plan_job_id, bob.principal.id)
    assert job.origin is not None
    assert job.origin.name == f"acme/network #{found.number}"
    await world.apply(job.id)
    assert await world.states(found) == {"team/app": "applied"}
    world.clock.advance(61)
    await world.step()
    assert world.status["terracrew"] == ("success", "1 module applied")
    assert "applied: `team/app`" in world.own_comments[0]


@pytest.mark.parametrize("setting", ["never", "on_merge"])
async def test_a_command_applies_nothing_where_the_setting_does_not_say_so(world: World, setting: str) -> None:
    await rule(world, setting)
    await operator(world)
    found = await world.planned()
    await world.comment(found, "terracrew apply")
    assert await changing_jobs(world) == []
    assert f"its setting for pull requests is `{setting}`" in world.own_comments[0]


async def test_nobody_unknown_and_nobody_without_the_right_applies_anything(world: World) -> None:
    await rule(world, "on_command")
    found = await world.planned()
    await world.comment(found, "terracrew apply")
    assert "bob is not linked to a user" in world.own_comments[0]
    await operator(world, role="viewer")
    await world.comment(found, "terracrew apply")
    assert await changing_jobs(world) == []
    await world.link("ada", await world.app.person("elsewhere", "operator", "", organization="other"))
    await world.comment(found, "terracrew apply", by="ada")
    assert await changing_jobs(world) == []


async def test_a_plan_that_was_made_after_the_comment_is_not_applied(world: World) -> None:
    await rule(world, "on_command")
    await operator(world)
    found = await world.planned()
    world.push(found, world.branch("change", "app", 'output "app" { value = 3 }\n'))
    await world.comment(found, "terracrew apply")
    assert await changing_jobs(world) == [], "the commit was pushed before the servers saw the comment"
    await world.plan(found, "team/app")
    assert await changing_jobs(world) == []


async def test_a_push_cancels_an_apply_that_has_not_begun(world: World) -> None:
    await rule(world, "on_command")
    await operator(world)
    found = await world.planned()
    await world.comment(found, "terracrew apply")
    job = await world.job((await world.show(found))[1]["team/app"].apply_job_id)
    world.push(found, world.branch("change", "app", 'output "app" { value = 3 }\n'))
    await world.step()
    assert (await world.job(job.id)).status is JobStatus.CANCELED
    assert await world.states(found) == {"team/app": "waiting"}


async def test_a_merge_applies_the_plan_if_its_files_are_what_the_branch_has(world: World) -> None:
    await rule(world, "on_merge")
    ada = await operator(world, "ada")
    found = await world.planned()
    await world.step()
    assert await changing_jobs(world) == []
    world.merge_on_forge(found)
    await world.step()
    row = (await world.show(found))[1]["team/app"]
    job = await world.job(row.apply_job_id)
    assert (job.plan_job_id, job.status, job.created_by) == (row.plan_job_id, JobStatus.QUEUED, ada.principal.id)
    await world.apply(job.id)
    row, modules = await world.show(found)
    assert (modules["team/app"].state, row.is_active) == ("applied", False)


async def test_a_merge_after_the_branch_has_moved_plans_again_and_waits_for_a_person(world: World) -> None:
    await rule(world, "on_merge")
    found, other = await world.planned("one"), world.forge.open(world.on_forge, "two")
    world.push(other, world.branch("two", "app", "# another file\n"))
    world.repository.git("checkout", "-q", "main")
    world.write("app", "# more\n", name="more.tf")
    world.repository.commit("pushed to the branch without a pull request")
    world.merge_on_forge(found)
    await world.step()
    jobs = await changing_jobs(world)
    job = await world.job(jobs[0])
    assert (len(jobs), job.needs_approval, job.plan_job_id, job.type) == (1, True, None, JobType.APPLY)
    assert isinstance(job.source, GitSource)
    assert not job.source.merge, "it runs what the branch has"
    assert job.origin is not None
    assert (job.origin.kind, job.origin.commit) == ("merge", found.merge_commit)


async def test_two_merges_that_wait_share_one_apply_of_what_the_branch_has(world: World) -> None:
    await rule(world, "on_merge")
    first = await world.planned("one")
    second = world.forge.open(world.on_forge, "two")
    world.repository.git("checkout", "-q", "-b", "two", "main")
    world.write("app", "# more\n", name="more.tf")
    world.push(second, world.repository.commit("more"))
    world.repository.git("checkout", "-q", "main")
    await world.step()
    await world.plan(second, "team/app")
    world.merge_on_forge(first)
    world.merge_on_forge(second)
    await world.step()
    assert len(await changing_jobs(world)) == 1
    jobs = {(await world.show(each))[1]["team/app"].apply_job_id for each in (first, second)}
    assert len(jobs) == 1


async def test_a_pull_request_that_was_closed_applies_nothing(world: World) -> None:
    await rule(world, "on_command")
    await operator(world)
    found = await world.planned()
    await world.comment(found, "terracrew apply")
    job_id = (await world.show(found))[1]["team/app"].apply_job_id
    world.forge.close(world.on_forge, found.number)
    await world.step()
    assert (await world.job(job_id)).status is JobStatus.CANCELED
    await world.comment(found, "terracrew apply")
    assert len(await changing_jobs(world)) == 1


@pytest.mark.feature("F4.merge")
async def test_a_pull_request_is_merged_when_everything_was_applied(world: World) -> None:
    await rule(world, "on_command_then_merge")
    await operator(world)
    found = world.forge.open(world.on_forge, "both")
    world.branch("both", "app")
    world.push(found, world.branch("both", "vpc", "# changed\n"))
    await world.step()
    await world.plan(found, "team/app")
    await world.plan(found, "team/vpc", NOTHING)
    assert world.status["terracrew"][0] == "pending", "it must not be merged before the apply"
    await world.comment(found, "terracrew apply")
    await world.apply((await world.show(found))[1]["team/app"].apply_job_id)
    assert found.state == "merged"
    assert len(await changing_jobs(world)) == 1


@pytest.mark.feature("F4.approvals")
async def test_approvals_of_the_forge_count_where_the_setting_says_so(world: World) -> None:
    await rule(world, "on_command", min_approvals=1, self_approval=False)
    await operator(world)
    found = await world.planned()
    await world.comment(found, "terracrew apply")
    assert await world.states(found) == {"team/app": "needs_approval"}
    await world.link("ada", await world.app.person("ada-here", "approver", "team"))
    world.forge.approve(world.on_forge, found.number, by="ada")
    world.clock.advance(301)
    await world.step()
    assert await world.states(found) == {"team/app": "needs_approval"}
    await rule(world, "on_command", forge_approvals=True)
    world.clock.advance(301)
    await world.step()
    assert await world.states(found) == {"team/app": "applying"}


async def approve_old_commit(world: World, found: FakePullRequest) -> None:
    world.forge.approve(world.on_forge, found.number, by="ada")
    world.push(found, world.branch("change", "app", 'output "app" { value = 3 }\n'))
    await world.step()
    await world.plan(found, "team/app")


async def test_an_approval_of_an_older_commit_does_not_count(world: World) -> None:
    await rule(world, "on_command", min_approvals=1, self_approval=False, forge_approvals=True)
    await operator(world)
    await world.link("ada", await world.app.person("ada-here", "approver", "team"))
    found = await world.planned()
    await approve_old_commit(world, found)
    await world.comment(found, "terracrew apply")
    world.clock.advance(61)
    await world.step()
    assert await world.states(found) == {"team/app": "needs_approval"}
