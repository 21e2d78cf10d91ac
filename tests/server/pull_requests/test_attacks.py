"""What somebody gets who may push to a repository, or open pull requests of a fork, and wants more than that."""

import hashlib
import subprocess
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from terracrew.forges.model import Comment
from terracrew.server.db.seam import Tx
from terracrew.server.forges import answers
from terracrew.server.forges import store as forge_store
from tests.forges.fake_forge import FakeUser
from tests.server.application import on_one
from tests.server.pull_requests.acting import changing_jobs, operator, rule
from tests.server.pull_requests.world import NAME, World

pytestmark = pytest.mark.feature("F4.apply", "F5.fork")
OTHER_CONTENT = 'output "app" { value = 666 }\n'


async def test_a_merge_into_another_branch_than_the_modules_applies_nothing(world: World) -> None:
    await rule(world, "on_merge")
    found = await world.planned()
    git = world.repository.git
    git("checkout", "-q", "-b", "elsewhere", "main")
    git("merge", "-q", "--no-ff", "-m", "merged", found.head_commit)
    commit = git("rev-parse", "HEAD")
    git("checkout", "-q", "main")
    found.base_branch = "elsewhere"
    world.forge.merge(world.on_forge, found.number)
    found.merge_commit = commit
    await world.step()
    assert (await world.facts(found)).state == "merged"
    assert await changing_jobs(world) == []


def _two_that_begin_alike(world: World, digits: int) -> tuple[str, str]:
    """Make two commits with different content whose ids begin with the same digits."""
    commits = [world.branch("good", "app"), world.branch("bad", "app", OTHER_CONTENT)]
    in_folder = ["git", "-C", str(world.repository.folder)]
    bodies = [
        subprocess.run([*in_folder, "cat-file", "commit", each], capture_output=True, check=True).stdout
        for each in commits
    ]
    seen: list[dict[str, bytes]] = [{}, {}]
    for number in range(1 << 22):
        for kind in (0, 1):
            body = bodies[kind] + b"%d\n" % number
            beginning = hashlib.sha1(b"commit %d\0" % len(body) + body).hexdigest()[:digits]
            seen[kind][beginning] = body
            if beginning in seen[1 - kind]:
                pair = [each[beginning] for each in seen]
                write = [*in_folder, "hash-object", "-t", "commit", "-w", "--stdin"]
                made = [subprocess.run(write, input=each, capture_output=True, check=True).stdout for each in pair]
                return made[0].decode().strip(), made[1].decode().strip()
    raise AssertionError("no two commits begin alike")


@on_one
async def test_who_allows_a_commit_does_not_allow_another_one_that_begins_alike(world: World) -> None:
    good, bad = _two_that_begin_alike(world, 7)
    assert good != bad
    found = world.forge.open(world.on_forge, "change", is_fork=True)
    world.push(found, good)
    await world.step()
    await world.link("bob", await world.app.person("mia", "owner"))
    world.push(found, bad)
    await world.poll()
    for words in (good[:7], good):
        await world.comment(found, f"terracrew allow {words}")
        row, modules = await world.show(found)
        assert (row.allowed_commit, modules) == ("", {})
    await world.comment(found, f"terracrew allow {bad}")
    assert await world.states(found) == {"team/app": "waiting"}


@on_one
async def test_a_commit_that_is_allowed_for_one_branch_is_not_allowed_for_another(world: World) -> None:
    git = world.repository.git
    git("branch", "production", "main")
    world.on_forge.branches["production"] = world.on_forge.branches["main"]
    await world.module("app", branch="production")
    found = world.open_on_forge("change", "app", is_fork=True)
    await world.step()
    await world.link("bob", await world.app.person("mia", "owner"))
    await world.comment(found, f"terracrew allow {found.head_commit}")
    assert await world.states(found) == {"team/app": "waiting"}
    found.base_branch = "production"
    await world.step()
    assert "team/app-production" not in await world.states(found)
    await world.comment(found, f"terracrew allow {found.head_commit}")
    assert await world.states(found) == {"team/app-production": "waiting"}


async def test_a_comment_that_arrives_late_does_not_apply_a_newer_plan(world: World) -> None:
    await rule(world, "on_command")
    await operator(world)
    found = await world.planned()
    written = world.forge.write(world.on_forge, found.number, "terracrew apply", by="bob")
    at = await world.db.read(_moment)
    world.clock.advance(30)
    world.push(found, world.branch("change", "app", OTHER_CONTENT))
    await world.step()
    world.clock.advance(30)
    await world.plan(found, "team/app")
    world.clock.advance(30)
    late = Comment(
        id=str(written.id),
        number=found.number,
        author="bob",
        author_id=str(written.author.id),
        body=written.body,
        url="https://forge.example.com/1",
        created_at=at + timedelta(seconds=1),
    )
    await world.db.write(lambda tx: answers.save_comments(tx, world.watched.id, [late]))
    await world.step()
    assert await changing_jobs(world) == []
    assert "made after the comment" in world.own_comments[0]


@pytest.mark.parametrize("path", [".policy.json", "policy.md", "../policy.json"])
@on_one
async def test_a_merge_applies_no_plan_that_has_read_what_was_not_merged(world: World, path: str) -> None:
    """What is planned reads a file that does not belong to the module; it is made harmless before people look and merge."""
    await rule(world, "on_merge", forge_approvals=True)
    git = world.repository.git
    git("checkout", "-q", "-b", "change", "main")
    world.write("app", f'resource "terraform_data" "a" {{\n  input = file("{path}")\n}}\n')
    world.write("app", '{"principal": "attacker"}\n', name=path)
    hostile = world.repository.commit("hostile")
    git("checkout", "-q", "main")
    found = world.forge.open(world.on_forge, "change")
    world.push(found, hostile)
    await world.step()
    await world.plan(found, "team/app")
    git("checkout", "-q", "change")
    world.write("app", '{"principal": "team"}\n', name=path)
    harmless = world.repository.commit("harmless")
    git("checkout", "-q", "main")
    world.push(found, harmless)
    await world.poll()
    world.merge_on_forge(found)
    await world.step()
    [job_id] = await changing_jobs(world)
    job = await world.job(job_id)
    assert (job.plan_job_id, job.needs_approval) == (None, True)


async def test_neither_the_author_nor_who_merges_approves_what_a_merge_applies(world: World) -> None:
    """Two pull requests share one apply of what the branch has. A program merges the first one."""
    await rule(world, "on_merge", min_approvals=1, self_approval=False)
    ada, bob = await operator(world, "ada", "approver"), await operator(world, "bob", "approver")
    first = await world.planned("one")
    second = world.forge.open(world.on_forge, "two", by="bob")
    world.repository.git("checkout", "-q", "-b", "two", "main")
    world.write("app", "# more\n", name="more.tf")
    world.push(second, world.repository.commit("more"))
    world.repository.git("checkout", "-q", "main")
    await world.step()
    await world.plan(second, "team/app")
    world.merge_on_forge(first)
    world.merge_on_forge(second)
    first.merged_by = FakeUser("queue[bot]", 4711)
    await world.step()
    [job_id] = await changing_jobs(world)
    job = await world.job(job_id)
    assert {ada.principal.id, bob.principal.id} <= {*job.queued_by, *job.replanned_by}


@on_one
async def test_a_stranger_puts_no_link_into_the_comment(world: World) -> None:
    found = await world.planned()
    await world.comment(found, "terracrew `[![x](//e.io/x)](//e.io)", by="ada")
    assert "there is no such command" in world.own_comments[0]
    assert "[![x" not in world.own_comments[0]


@on_one
async def test_a_comment_that_somebody_else_has_edited_at_once_is_no_command(world: World) -> None:
    await rule(world, "on_command")
    await operator(world)
    found = await world.planned()
    written = world.forge.write(world.on_forge, found.number, "looks good to me", by="bob")
    written.body, written.updated_at = "terracrew apply", written.created_at + timedelta(seconds=1)
    seen = await world.forges.of(world.connection).comments(NAME, written.created_at - timedelta(seconds=60))
    await world.db.write(lambda tx: answers.save_comments(tx, world.watched.id, seen))
    world.clock.advance(61)
    await world.step()
    assert await changing_jobs(world) == []


@on_one
async def test_somebody_without_rights_on_the_connection_has_nothing_merged_with_it(world: World) -> None:
    """A module elsewhere says that it watches a folder of somebody else, so that a change there touches it alone."""
    await world.db.write(lambda tx: forge_store.save(tx, world.connection, replace(world.connection, merges=False)))
    await world.app.admin.made("/api/v1/groups", {"path": "elsewhere"})
    mallory = await world.app.person("mallory", "owner", "elsewhere")
    source = {"kind": "git", "url": f"ssh://git@127.0.0.1/{NAME}", "subdirectory": "app"}
    wanted = {"path": "elsewhere/thief", "watch": ["/ci/**"], "pull_request_apply": "on_command_then_merge"}
    assert (await mallory.post("/api/v1/modules", json={**wanted, "source": source})).status_code == 201
    found = world.forge.open(world.on_forge, "ci")
    world.push(found, world.branch("ci", "ci", "x\n"))
    await world.step()
    await world.plan(found, "elsewhere/thief")
    row, modules = await world.show(found)
    asked = {"head_commit": found.head_commit, "plans": [modules["elsewhere/thief"].plan_job_id]}
    answer = await mallory.post(f"/api/v1/pull-requests/{row.id}/apply", json=asked)
    assert answer.json()["done"] == ["elsewhere/thief"], answer.text
    await world.step()
    await world.apply((await world.show(found))[1]["elsewhere/thief"].apply_job_id)
    world.clock.advance(61)
    await world.step()
    assert found.state == "open"
    assert "does not merge" in world.own_comments[-1]


@on_one
async def test_replies_that_name_modules_are_not_shown_to_who_does_not_see_them(world: World) -> None:
    await rule(world, "on_command")
    await world.app.admin.made("/api/v1/groups", {"path": "other"})
    source = {"kind": "git", "url": f"ssh://git@127.0.0.1/{NAME}", "subdirectory": "vpc"}
    await world.app.admin.made("/api/v1/modules", {"path": "other/secret-project", "source": source})
    found = world.forge.open(world.on_forge, "both")
    world.push(found, world.branch("both", "vpc", "# changed\n", app="# changed\n"))
    await world.step()
    await world.link("bob", await world.app.person("mia", "owner"))
    await world.comment(found, "terracrew apply")
    address = f"/api/v1/pull-requests/{(await world.show(found))[0].id}"
    assert "secret-project" in (await world.app.admin.get(address)).text
    reader = await world.app.person("reader", "viewer", "team")
    answer = await reader.get(address)
    assert answer.status_code == 200
    assert "secret-project" not in answer.text


async def _moment(tx: Tx) -> datetime:
    return tx.moment
