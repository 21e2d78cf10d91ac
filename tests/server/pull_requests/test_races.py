"""Merges, pushes and commands that meet: nothing older is applied over something newer, and no merge is lost."""

from typing import Any

import pytest

from terracrew.api.jobs import JobStatus
from terracrew.protocol.events import KeptPlan, PlanSummary, ResourceChange, Result
from terracrew.server.pull_requests import following
from tests.builders.deliveries import RUNNING, fact
from tests.forges import fake_forge
from tests.forges.fake_forge import Refusal
from tests.server.application import on_one
from tests.server.pull_requests.acting import app, changing_jobs, later, operator, push_to_main, rule
from tests.server.pull_requests.world import ADDS_ONE, HASH, NAME, NOTHING, World

pytestmark = pytest.mark.feature("F4.apply", "F4.merge")
DESTROYS = PlanSummary(destroy=1, existing=1, resources=[ResourceChange("terraform_data.all", "delete")])
PINNED = {"kind": "git", "url": f"ssh://git@127.0.0.1/{NAME}", "subdirectory": "app", "tag": "v1"}


@on_one
async def test_it_is_merged_where_the_branch_requires_the_status(world: World) -> None:
    merge_at = world.forge.merge_at

    def strict(request: Any, repository: Any, number: str, head: str) -> str:
        status = repository.statuses.get((head, "terracrew"))
        if status is None or status["state"] != "success":
            raise Refusal(405, "Required status check `terracrew` is pending.")
        return merge_at(request, repository, number, head)

    world.forge.merge_at = strict
    await rule(world, "on_command_then_merge")
    await operator(world)
    found = await world.planned()
    await world.comment(found, "terracrew apply")
    await world.apply((await app(world, found)).apply_job_id)
    await later(world, 2)
    assert found.state == "merged", (await world.show(found))[0].replies


@on_one
async def test_what_is_shown_on_a_page_is_applied_and_no_newer_plan(world: World) -> None:
    await rule(world, "on_command")
    found = await world.planned()
    shown = (await app(world, found)).plan_job_id
    push_to_main(world, "# pushed\n", "more.tf")
    await world.step()
    await world.plan(found, "team/app", DESTROYS)
    address = f"/api/v1/pull-requests/{(await world.show(found))[0].id}/apply"
    asked = {"head_commit": found.head_commit, "plans": [shown]}
    assert (await world.app.admin.post(address, json=asked)).json()["done"] == []
    assert await changing_jobs(world) == []


async def test_an_older_merge_is_not_applied_over_a_newer_one(world: World) -> None:
    await rule(world, "on_command")
    await operator(world)
    first = await world.planned("one")
    world.merge_on_forge(first)
    await world.step()
    second = world.forge.open(world.on_forge, "two")
    world.push(second, world.branch("two", "app", 'output "app" { value = 3 }\n'))
    await world.step()
    await world.plan(second, "team/app")
    world.merge_on_forge(second)
    await world.step()
    await world.comment(second, "terracrew apply")
    await world.apply((await app(world, second)).apply_job_id)
    await world.step()
    row = await app(world, first)
    assert (row.state, row.plan_job_id) == ("stale", None)
    await world.comment(first, "terracrew apply")
    await world.comment(first, "terracrew plan")
    assert len(await changing_jobs(world)) == 1
    assert (await app(world, first)).plan_job_id is None


@on_one
async def test_a_merge_that_was_taken_back_is_not_applied_by_a_command(world: World) -> None:
    await rule(world, "on_command")
    await operator(world)
    found = await world.planned()
    world.merge_on_forge(found)
    await world.step()
    push_to_main(world, 'output "app" { value = "taken back" }\n')
    await later(world, 2)
    await world.comment(found, "terracrew apply")
    assert await changing_jobs(world) == []
    assert "other files" in world.own_comments[-1]


async def test_a_merge_does_not_share_an_apply_whose_plan_was_made_before_it(world: World) -> None:
    await rule(world, "on_merge")
    first = await world.planned("one")
    push_to_main(world, "# another\n", "another.tf")
    world.merge_on_forge(first)
    await world.step()
    [job_id] = await changing_jobs(world)
    attempt = await world.runner.again(job_id)
    kept = KeptPlan(0, "cd" * 32, 2, "/workspaces/x", HASH)
    await attempt.deliver(RUNNING, fact(ADDS_ONE), fact(Result("WAITING", kept=kept)))
    job = await world.job(job_id)
    answer = await world.app.admin.post(f"/api/v1/jobs/{job_id}/approve", json={"plan": job.plan_attempt})
    assert answer.status_code == 200, answer.text
    assert (await world.job(job_id)).status is JobStatus.QUEUED
    second = world.forge.open(world.on_forge, "two")
    world.push(second, world.branch("two", "vpc", "# changed\n", app='output "app" { value = 4 }\n'))
    push_to_main(world, "# a third\n", "third.tf")
    world.merge_on_forge(second)
    await world.step()
    _, modules = await world.show(second)
    assert len(await changing_jobs(world)) == 1 + len(modules) == 3
    assert (await app(world, second)).apply_job_id != job_id


@on_one
async def test_a_fetch_that_fails_throws_nothing_away(world: World) -> None:
    await rule(world, "on_command")
    await operator(world)
    found = await world.planned()
    await world.comment(found, "terracrew apply")
    job_id = (await app(world, found)).apply_job_id
    world.git.fails_with = 403
    await later(world)
    world.git.fails_with = 0
    assert (await world.job(job_id)).status is JobStatus.QUEUED
    assert (await app(world, found)).apply_job_id == job_id


@on_one
async def test_what_was_applied_is_remembered_during_a_conflict(world: World) -> None:
    await rule(world, "on_command")
    await operator(world)
    found = await world.planned()
    await world.comment(found, "terracrew apply")
    await world.apply((await app(world, found)).apply_job_id)
    push_to_main(world, 'output "app" { value = 77 }\n')
    await world.step()
    assert (await world.show(found))[0].problem
    git = world.repository.git
    git("checkout", "-q", "change")
    git("reset", "-q", "--hard", "main")
    world.write("docs", "words", name="x.txt")
    world.push(found, world.repository.commit("only words"))
    git("checkout", "-q", "main")
    await world.step()
    assert await world.states(found) == {"team/app": "waiting"}, "what was applied is taken back by the merge"


async def test_one_that_was_opened_and_merged_before_anybody_looked_is_applied(world: World) -> None:
    await rule(world, "on_merge")
    found = world.open_on_forge("change", "app")
    world.merge_on_forge(found)
    await world.step()
    [job_id] = await changing_jobs(world)
    assert (await world.job(job_id)).needs_approval
    assert set((await world.show(found))[1]) == {"team/app"}
    await later(world)
    assert len(await changing_jobs(world)) == 1


@on_one
async def test_modules_that_only_the_last_commit_changes_are_applied_by_the_merge(world: World) -> None:
    await rule(world, "on_merge")
    found = await world.planned()
    world.push(found, world.branch("change", "vpc", "# changed\n"))
    world.merge_on_forge(found)
    await world.step()
    _, modules = await world.show(found)
    assert {path: row.apply_job_id is not None for path, row in modules.items()} == {"team/app": True, "team/vpc": True}


@on_one
async def test_a_merge_that_has_solved_a_conflict_is_applied(world: World) -> None:
    await rule(world, "on_merge")
    found = await world.planned()
    push_to_main(world, 'output "app" { value = 77 }\n')
    await world.step()
    git = world.repository.git
    git("merge", "-q", "--no-ff", "-X", "theirs", "-m", "merged", found.head_commit)
    commit = git("rev-parse", "HEAD")
    world.forge.merge(world.on_forge, found.number)
    found.merge_commit = world.on_forge.branches["main"] = commit
    await world.step()
    assert len(await changing_jobs(world)) == 1


@on_one
async def test_the_merge_of_a_fork_that_nobody_has_allowed_waits_for_a_person(world: World) -> None:
    await rule(world, "on_merge")
    found = world.open_on_forge("change", "app", is_fork=True)
    await world.step()
    world.merge_on_forge(found)
    await world.step()
    [job_id] = await changing_jobs(world)
    assert (await world.job(job_id)).needs_approval


@on_one
async def test_a_command_on_a_closed_one_is_answered_and_not_carried_out_later(world: World) -> None:
    await rule(world, "on_command")
    await operator(world)
    found = await world.planned()
    world.forge.close(world.on_forge, found.number)
    await world.step()
    await world.comment(found, "Terracrew apply")
    assert "was closed" in world.own_comments[-1]
    world.clock.advance(3600)
    found.state = "open"
    await world.step()
    assert await changing_jobs(world) == []


@on_one
async def test_one_that_is_opened_again_is_planned_again(world: World) -> None:
    found = world.open_on_forge("change", "app")
    await world.step()
    world.forge.close(world.on_forge, found.number)
    await world.step()
    assert await world.states(found) == {"team/app": "canceled"}
    found.state = "open"
    await later(world, 2)
    assert await world.states(found) == {"team/app": "waiting"}


async def test_a_commit_that_nobody_asked_for_is_not_merged(world: World) -> None:
    await rule(world, "on_command_then_merge")
    await operator(world)
    found = world.open_on_forge("change", "app")
    found.is_draft = True
    await world.step()
    await world.plan(found, "team/app")
    await world.comment(found, "terracrew apply")
    await world.apply((await app(world, found)).apply_job_id)
    world.push(found, world.branch("change", ".github", "steal"))
    found.is_draft = False
    await world.step()
    await world.plan(found, "team/app", NOTHING)
    await later(world)
    assert (found.state, world.status["terracrew"][0]) == ("open", "pending")
    await world.comment(found, "terracrew apply")
    await later(world)
    assert found.state == "merged"


@on_one
async def test_a_command_after_a_failed_apply_of_a_merge_is_answered(world: World) -> None:
    await rule(world, "on_merge")
    await operator(world)
    found = await world.planned()
    world.merge_on_forge(found)
    await world.step()
    job = await world.job((await app(world, found)).apply_job_id)
    attempt = await world.runner.again(job.id, job.attempt)
    await attempt.deliver(RUNNING, fact(Result("FAILED", "no such thing")))
    await later(world)
    assert not (await world.show(found))[0].is_active
    await world.comment(found, "terracrew plan")
    assert "because the pull request is merged" in world.own_comments[-1]
    assert not (await world.show(found))[0].is_active


@pytest.mark.parametrize("setting", ["on_merge", "on_command"])
@on_one
async def test_a_module_that_was_pinned_is_not_applied(world: World, setting: str) -> None:
    await rule(world, setting)
    await operator(world)
    found = await world.planned()
    answer = await world.app.admin.patch("/api/v1/modules/team%2Fapp", json={"source": PINNED})
    assert answer.status_code == 200, answer.text
    world.merge_on_forge(found)
    await world.step()
    await world.comment(found, "terracrew apply")
    assert await changing_jobs(world) == []


@on_one
async def test_a_status_that_was_refused_for_a_while_is_written_later(world: World) -> None:
    found = world.open_on_forge("change", "app")
    await world.step()
    may = world.forge.own.may
    world.forge.own.may = may - {fake_forge.STATUSES}
    await world.end_plan(await app(world, found))
    await later(world)
    assert "does not allow" in (await world.show(found))[0].show_problem
    world.forge.own.may = may
    await later(world)
    assert world.status["terracrew"][0] == "success"
    assert (await world.show(found))[0].show_problem == ""


@on_one
async def test_an_approval_on_the_forge_counts_for_what_the_merge_applies(world: World) -> None:
    await rule(world, "on_merge", min_approvals=1, self_approval=False, forge_approvals=True)
    await world.link("ada", await world.app.person("ada-here", "approver", "team"))
    found = world.forge.open(world.on_forge, "change", by="bob")
    world.push(found, world.branch("change", "app"))
    await world.step()
    await world.plan(found, "team/app")
    world.forge.approve(world.on_forge, found.number, by="ada")
    world.merge_on_forge(found)
    found.merged_by = world.forge.users["bob"]
    await later(world, 2)
    assert await world.states(found) == {"team/app": "applying"}


@on_one
async def test_a_branch_that_was_deleted_after_the_merge_ends_it(world: World) -> None:
    await rule(world, "on_merge")
    world.repository.git("branch", "release", "main")
    world.on_forge.branches["release"] = world.on_forge.branches["main"]
    await world.module("app", branch="release")
    found = world.forge.open(world.on_forge, "change")
    found.base_branch = "release"
    world.push(found, world.branch("change", "app"))
    await world.step()
    await world.plan(found, "team/app-release")
    world.repository.git("branch", "-D", "release")
    world.forge.merge(world.on_forge, found.number)
    await later(world, 2)
    row, modules = await world.show(found)
    assert (row.is_active, modules["team/app-release"].state) == (False, "apply_failed")


@on_one
async def test_an_apply_that_ends_after_a_week_is_shown(world: World) -> None:
    await rule(world, "on_merge")
    found = await world.planned()
    push_to_main(world, "# more\n", "more.tf")
    world.merge_on_forge(found)
    await world.step()
    job_id = (await app(world, found)).apply_job_id
    await later(world, seconds=8 * 86_400)
    await world.app.admin.post(f"/api/v1/jobs/{job_id}/cancel", json={})
    await later(world, 2)
    assert await world.states(found) == {"team/app": "apply_failed"}


class Killed(BaseException):
    """The server ends here."""


@on_one
async def test_a_server_that_ends_after_its_first_look_is_followed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def follow(*_: Any) -> Any:
        raise Killed

    found = world.open_on_forge("change", "app")
    await world.poll()
    with monkeypatch.context() as patched:
        patched.setattr(following, "follow", follow)
        with pytest.raises(BaseExceptionGroup):
            await world.loops[0].step()
    assert (await app(world, found)).plan_job_id is None
    world.clock.advance(21)
    await world.step(polls=False)
    assert (await app(world, found)).plan_job_id is not None


@on_one
async def test_what_is_allowed_while_a_server_looks_is_looked_at_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await world.app.person("mia", "owner")
    found = world.open_on_forge("change", "app", is_fork=True)
    await world.step()
    address = f"/api/v1/pull-requests/{(await world.show(found))[0].id}/allow"
    asked: list[int] = []

    async def follow(*given: Any) -> Any:
        if not asked:
            asked.append((await owner.post(address, json={"commit": found.head_commit})).status_code)
        return await followed(*given)

    followed = following.follow
    monkeypatch.setattr(following, "follow", follow)
    await later(world)
    assert asked == [200]
    await world.step(polls=False)
    assert await world.states(found) == {"team/app": "waiting"}
