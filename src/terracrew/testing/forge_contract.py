"""The contract of a forge as tests: inherit `ForgeContract` in a pytest file, and say how people do things on the forge."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

import pytest

from terracrew.errors import TerracrewError
from terracrew.forges.contract import Forge, ForgeAway, ForgeRefused, WrongSignature
from terracrew.forges.model import (
    BranchMoved,
    CommentWritten,
    ForgeEvent,
    PullRequest,
    PullRequestChanged,
    Status,
    StatusState,
)

SECRET = "a secret of the hook"  # noqa: S105 (only tests sign with it)


class Delivered(Protocol):
    """What a forge has posted to the address of a hook."""

    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> bytes: ...


class ForgePlace(Protocol):
    """A forge with one repository, and what people do there. The default branch is `main`."""

    @property
    def forge(self) -> Forge: ...
    @property
    def repository(self) -> str: ...
    @property
    def hook_url(self) -> str: ...

    async def open(self, branch: str, *, is_fork: bool = False) -> int:
        """Open a pull request of `ada` from a new branch, and return its number."""
        ...

    async def push(self, branch: str) -> str:
        """Push a new commit to a branch, and return it."""
        ...

    async def comment(self, number: int, body: str) -> str:
        """Write a comment as `bob`, and return its id."""
        ...

    async def edit_comment(self, comment_id: str, body: str) -> None: ...
    async def delete_comment(self, comment_id: str) -> None: ...
    async def approve(self, number: int) -> None:
        """Approve as `bob`."""
        ...

    async def close(self, number: int) -> None: ...
    async def merge(self, number: int) -> None:
        """Merge as a person."""
        ...

    async def statuses(self, commit: str) -> dict[str, str]:
        """Return the words of the statuses beside a commit, by their names."""
        ...

    async def body_of(self, number: int, comment_id: str) -> str: ...
    async def hooks(self) -> int:
        """Return how many enabled hooks deliver to `hook_url`."""
        ...

    async def disable_hooks(self) -> None:
        """Disable the hooks, as the forge or a person does it."""
        ...

    async def delivered(self, count: int) -> Sequence[Delivered]:
        """Wait for so many deliveries since the last call, and return all of them."""
        ...

    async def limited(self) -> Forge:
        """Return the forge with a token that can only read."""
        ...

    async def unknown(self) -> Forge:
        """Return the forge with a token that it does not know."""
        ...


class ForgeContract:
    @pytest.fixture
    async def place(self) -> ForgePlace:
        raise NotImplementedError

    async def test_a_repository_is_found_by_its_name(self, place: ForgePlace) -> None:
        found = await place.forge.repository(place.repository)
        assert found.name == place.repository
        assert found.default_branch == "main"
        assert found.clone_url.endswith(f"/{place.repository}.git")
        assert "@" not in found.clone_url

    async def test_a_repository_that_does_not_exist_is_refused(self, place: ForgePlace) -> None:
        for name in ("acme/nothing", "../user", "acme/net work", "acme/network?x=1", ""):
            with pytest.raises(ForgeRefused) as error:
                await place.forge.repository(name)
            assert error.value.answer_status == 404

    async def test_a_pull_request_has_its_facts(self, place: ForgePlace) -> None:
        number = await place.open("feature")
        found = await place.forge.pull_request(place.repository, number)
        assert (found.number, found.state, found.author, found.base_branch) == (number, "open", "ada", "main")
        assert found.head_branch == "feature"
        assert found.author_id
        assert not found.is_fork
        assert str(number) in found.head_ref
        assert str(number) in found.url
        assert (found.merge_commit, found.merged_by) == ("", "")
        pushed = await place.push("feature")
        after = await place.forge.pull_request(place.repository, number)
        assert after.head_commit == pushed != found.head_commit

    async def test_a_list_has_all_open_pull_requests_and_a_tag_says_that_nothing_changed(
        self, place: ForgePlace
    ) -> None:
        forge, repository = place.forge, place.repository
        closed, first, second = [await place.open(branch) for branch in ("one", "two", "three")]
        await place.close(closed)
        page = await forge.open_pull_requests(repository, "")
        assert [each.number for each in _items(page.items)] == [first, second]
        assert _items(page.items)[0] == await forge.pull_request(repository, first)
        assert page.etag
        again = await forge.open_pull_requests(repository, page.etag)
        assert (again.items, again.etag) == (None, page.etag)
        pushed = await place.push("three")
        changed = await forge.open_pull_requests(repository, page.etag)
        assert [each.head_commit for each in _items(changed.items)][1] == pushed

    async def test_a_pull_request_of_a_fork_is_known_as_one(self, place: ForgePlace) -> None:
        number = await place.open("feature", is_fork=True)
        assert (await place.forge.pull_request(place.repository, number)).is_fork

    async def test_what_has_become_of_a_pull_request_is_told(self, place: ForgePlace) -> None:
        closed, merged = await place.open("one"), await place.open("two")
        await place.close(closed)
        await place.merge(merged)
        assert (await place.forge.pull_request(place.repository, closed)).state == "closed"
        found = await place.forge.pull_request(place.repository, merged)
        assert (found.state, bool(found.merge_commit), bool(found.merged_by)) == ("merged", True, True)
        head = await place.forge.branch(place.repository, "main", "")
        assert head.commit == found.merge_commit
        with pytest.raises(ForgeRefused) as error:
            await place.forge.pull_request(place.repository, 9999)
        assert error.value.answer_status == 404

    async def test_the_newest_commit_of_a_branch_is_told(self, place: ForgePlace) -> None:
        forge, repository = place.forge, place.repository
        before = await forge.branch(repository, "main", "")
        assert before == await forge.branch(repository, "", "")
        if before.etag:
            assert (await forge.branch(repository, "main", before.etag)).commit is None
        pushed = await place.push("main")
        assert (await forge.branch(repository, "main", before.etag)).commit == pushed
        with pytest.raises(ForgeRefused):
            await forge.branch(repository, "nothing", "")

    async def test_comments_are_told_unless_somebody_has_edited_them(self, place: ForgePlace) -> None:
        forge, repository = place.forge, place.repository
        since = datetime.now(UTC) - timedelta(hours=1)
        number = await place.open("feature")
        kept = await place.comment(number, "terracrew plan\nwith a second line: ünïcode")
        edited = await place.comment(number, "looks good")
        await place.edit_comment(edited, "terracrew apply")
        found = await forge.comments(repository, since)
        assert [(each.id, each.number, each.author) for each in found] == [(kept, number, "bob")]
        assert found[0].body == "terracrew plan\nwith a second line: ünïcode"
        assert found[0].author_id
        assert await forge.comments(repository, found[0].created_at + timedelta(seconds=30)) == []

    async def test_approvals_are_told(self, place: ForgePlace) -> None:
        number = await place.open("feature")
        assert await place.forge.approvals(place.repository, number) == []
        await place.approve(number)
        [found] = await place.forge.approvals(place.repository, number)
        head = (await place.forge.pull_request(place.repository, number)).head_commit
        assert found.user == "bob"
        assert found.commit in ("", head)

    async def test_a_later_status_of_the_same_name_replaces_the_earlier_one(self, place: ForgePlace) -> None:
        forge, repository = place.forge, place.repository
        commit = (await forge.pull_request(repository, await place.open("feature"))).head_commit
        told: list[tuple[StatusState, str]] = [
            ("pending", "planning"),
            ("pending", "planning still"),
            ("success", "2 changes " + "x" * 500),
        ]
        for state, words in told:
            status = Status(context="terracrew", state=state, description=words, url="https://example.com/1")
            await forge.set_status(repository, commit, status)
        other = Status(context="terracrew/app", state="failure", description="failed", url="https://example.com/2")
        await forge.set_status(repository, commit, other)
        found = await place.statuses(commit)
        assert found.keys() == {"terracrew", "terracrew/app"}
        assert found["terracrew"].startswith("2 changes x")

    async def test_a_comment_is_written_found_edited_and_missed(self, place: ForgePlace) -> None:
        forge, repository = place.forge, place.repository
        number = await place.open("feature")
        await place.comment(number, "<!-- marker --> copied by somebody")
        assert await forge.find_comment(repository, number, "<!-- marker -->") == ""
        made = await forge.write_comment(repository, number, "<!-- marker --> a plan", "")
        assert await forge.find_comment(repository, number, "<!-- marker -->") == made
        assert await forge.write_comment(repository, number, "<!-- marker --> another plan", made) == made
        assert await place.body_of(number, made) == "<!-- marker --> another plan"
        await place.delete_comment(made)
        with pytest.raises(ForgeRefused) as error:
            await forge.write_comment(repository, number, "again", made)
        assert error.value.answer_status == 404
        assert await forge.find_comment(repository, number, "<!-- marker -->") == ""

    async def test_only_the_commit_that_was_meant_is_merged(self, place: ForgePlace) -> None:
        forge, repository = place.forge, place.repository
        number = await place.open("feature")
        before = (await forge.pull_request(repository, number)).head_commit
        await place.push("feature")
        with pytest.raises(ForgeRefused):
            await _merged(forge, repository, number, before)
        assert (await forge.pull_request(repository, number)).state == "open"
        head = (await forge.pull_request(repository, number)).head_commit
        merged = await _merged(forge, repository, number, head)
        found = await forge.pull_request(repository, number)
        assert (found.state, found.merge_commit) == ("merged", merged)
        assert (await forge.branch(repository, "main", "")).commit == merged

    async def test_a_hook_is_made_once_and_enabled_again(self, place: ForgePlace) -> None:
        made = await place.forge.set_hook(place.repository, place.hook_url, SECRET)
        assert made.is_enabled
        again = await place.forge.set_hook(place.repository, place.hook_url, SECRET)
        assert (again.id, again.is_enabled, again.message) == (made.id, True, "")
        assert await place.hooks() == 1
        await place.disable_hooks()
        assert await place.hooks() == 0
        repaired = await place.forge.set_hook(place.repository, place.hook_url, SECRET)
        assert repaired.is_enabled
        assert "disabled" in repaired.message
        assert await place.hooks() == 1

    async def test_deliveries_say_what_has_changed_and_are_known_by_their_ids(self, place: ForgePlace) -> None:
        forge = place.forge
        await forge.set_hook(place.repository, place.hook_url, SECRET)
        number = await place.open("feature")
        opened = _events(forge, await place.delivered(1))
        assert PullRequestChanged(place.repository, number) in opened
        await place.push("feature")
        assert PullRequestChanged(place.repository, number) in _events(forge, await place.delivered(2))
        comment = await place.comment(number, "terracrew plan ünïcode")
        [written] = [each for each in _events(forge, await place.delivered(1)) if isinstance(each, CommentWritten)]
        assert (written.comment.id, written.comment.number, written.comment.author) == (comment, number, "bob")
        assert written.comment.body == "terracrew plan ünïcode"
        pushed = await place.push("main")
        deliveries = await place.delivered(1)
        assert BranchMoved(place.repository, "main", pushed) in _events(forge, deliveries)
        ids = [forge.delivery_id(each.headers, each.body) for each in deliveries]
        assert all(ids)
        assert len(ids) == len(set(ids))
        assert [forge.delivery_id(each.headers, each.body) for each in deliveries] == ids

    async def test_a_delivery_without_the_right_signature_is_refused(self, place: ForgePlace) -> None:
        forge, now = place.forge, datetime.now(UTC)
        await forge.set_hook(place.repository, place.hook_url, SECRET)
        await place.open("feature")
        [delivery, *_] = await place.delivered(1)
        for secret in ("", "another secret", SECRET + " "):
            with pytest.raises(WrongSignature):
                forge.events(delivery.headers, delivery.body, secret, now)
        unsigned = {name: each for name, each in delivery.headers.items() if SECRET not in each and "sig" not in name}
        with pytest.raises(WrongSignature):
            forge.events(unsigned, delivery.body, SECRET, now)
        assert forge.events(delivery.headers, delivery.body, SECRET, now)

    async def test_a_check_names_what_is_missing(self, place: ForgePlace) -> None:
        found = await place.forge.check(place.repository)
        assert [each.message for each in found if not each.is_good] == []
        assert {"sign in", "find the repository", "write commit statuses", "write comments"} <= {
            each.name for each in found
        }
        limited = {each.name: each for each in await (await place.limited()).check(place.repository)}
        assert not limited["write commit statuses"].is_good
        assert "give" in limited["write commit statuses"].message
        [unknown] = [each for each in await (await place.unknown()).check(place.repository) if not each.is_good]
        assert unknown.name == "sign in"
        missing = await place.forge.check("acme/nothing")
        assert [each.name for each in missing if not each.is_good] == ["find the repository"]

    async def test_a_token_that_is_not_known_is_refused_and_the_message_says_what_to_do(
        self, place: ForgePlace
    ) -> None:
        with pytest.raises(ForgeRefused, match="terracrew forge update") as error:
            await (await place.unknown()).repository(place.repository)
        assert error.value.answer_status == 401

    async def test_what_a_token_may_not_do_is_refused(self, place: ForgePlace) -> None:
        number = await place.open("feature")
        with pytest.raises(TerracrewError):
            await (await place.limited()).write_comment(place.repository, number, "text", "")

    async def test_git_gets_a_user_and_a_password(self, place: ForgePlace) -> None:
        found = await place.forge.git_credential(place.repository)
        assert found is not None
        assert found.username
        assert found.password


async def _merged(forge: Forge, repository: str, number: int, head: str) -> str:
    """Merge as soon as the forge has found out whether that is possible."""
    for _ in range(60):
        try:
            return await forge.merge(repository, number, head)
        except ForgeAway:
            await asyncio.sleep(0.5)
    raise AssertionError("the forge has not found out whether the pull request can be merged")


def _items(found: list[PullRequest] | None) -> list[PullRequest]:
    assert found is not None
    return found


def _events(forge: Forge, deliveries: Sequence[Delivered]) -> list[ForgeEvent]:
    now = datetime.now(UTC)
    return [event for each in deliveries for event in forge.events(each.headers, each.body, SECRET, now)]
