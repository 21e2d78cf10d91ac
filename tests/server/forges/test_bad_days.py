"""Deliveries are lost, repeated and reordered, servers end, forges are away: what is known becomes right again by asking."""

from collections.abc import AsyncIterator
from datetime import timedelta
from random import Random

import pytest

from terracrew.server.db.seam import Database
from terracrew.server.forges import deliveries, delivery_store, polling, repository_store
from tests.builders.clock import ShiftedClock
from tests.forges.fake_forge import STATUSES, Answer
from tests.server.application import on_one
from tests.server.forges.watched import POLL_SECONDS, Watched, give_token, watched

SEEDS = range(4)


@pytest.fixture
async def place(database: Database, clock: ShiftedClock) -> AsyncIterator[Watched]:
    async with watched(database, clock) as found:
        yield found


@pytest.mark.feature("F2.polling", "F2.order")
@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])
async def test_facts_become_right_whatever_happens_to_deliveries_and_servers(
    database: Database, clock: ShiftedClock, kind: str
) -> None:
    for seed in SEEDS:
        async with watched(database, clock, kind) as place:
            await _walk(place, Random(f"{kind}{seed}"))


async def _walk(place: Watched, random: Random) -> None:
    """Let people and the forge do things at random, and lose, repeat and reorder what is delivered. Some servers end in the middle."""
    opened: list[int] = []
    written: dict[int, set[str]] = {}
    under_way = [place.fake.deliveries.pop() for _ in list(place.fake.deliveries)]
    for number in range(30):
        act = random.choice(["open", "push", "comment", "close", "merge", "arrive", "arrive", "handle", "end", "poll"])
        still_open = [each for each in opened if place.state.pull_requests[each].state == "open"]
        if act == "open" or not still_open:
            opened.append(place.fake.open(place.state, f"feature-{number}").number)
        elif act == "push":
            place.fake.push(place.state, place.state.pull_requests[random.choice(still_open)].head_branch)
        elif act == "comment":
            about = random.choice(still_open)
            place.fake.write(place.state, about, f"terracrew plan {number}")
            written.setdefault(about, set()).add(f"terracrew plan {number}")
        elif act == "close":
            place.fake.close(place.state, random.choice(still_open))
        elif act == "merge":
            place.fake.merge(place.state, random.choice(still_open))
        elif act == "arrive":
            random.shuffle(under_way)
            kept = [each for each in under_way if random.random() > 0.3]
            await place.arrive(kept + random.sample(kept, k=len(kept) // 2))
            under_way = []
        elif act == "handle":
            await place.handle()
        elif act == "end":
            await _server_that_ends(place)
        else:
            await place.poll()
        under_way += place.fake.deliveries
        place.fake.deliveries.clear()
    await place.poll(61.0)  # a minute is enough, also for a repository that a server had claimed when it ended
    facts, truth = await place.facts(), await place.truth()
    assert {number: each.state for number, each in facts.items() if each.state == "open"} == {
        number: each.state for number, each in truth.items() if each.state == "open"
    }
    assert all(facts[number] == truth[number] for number in facts)
    seen = {number: set(await place.commands(number)) for number in facts}
    assert seen == {number: written.get(number, set()) for number in facts}
    assert (await place.repository()).default_commit == place.state.branches["main"]


async def _server_that_ends(place: Watched) -> None:
    """Claim what is due as a server does that is killed before it has finished anything."""
    await place.db.write(lambda tx: delivery_store.claim_due(tx, deliveries.LEASE_SECONDS, 200))
    await place.db.write(lambda tx: repository_store.claim_due(tx, "srv_ended", polling.LEASE_SECONDS, 64))


@pytest.mark.feature("F2.polling")
async def test_without_any_delivery_everything_is_found_within_the_time_of_a_poll(place: Watched) -> None:
    number = place.fake.open(place.state, "feature").number
    place.fake.write(place.state, number, "terracrew plan")
    await place.poll()
    known = await place.known(number)
    assert known is not None
    assert known.is_open
    assert await place.commands(number) == ["terracrew plan"]
    merged = place.fake.merge(place.state, number)
    await place.poll()
    assert await place.facts() == await place.truth()
    assert (await place.repository()).default_commit == merged


@pytest.mark.feature("F2.polling")
async def test_a_poll_of_what_has_not_changed_reads_nothing_anew(place: Watched) -> None:
    place.fake.open(place.state, "feature")
    await place.poll()
    await place.poll(400.0)
    place.fake.asked.clear()
    answers: list[int] = []
    place.fake.instead = lambda request: answers.append(1 if "if-none-match" in request.headers else 0)
    await place.poll()
    assert answers == [1, 1]  # the list and the branch, each with its tag


@pytest.mark.feature("F2.polling", "F2.limits")
async def test_a_command_on_a_pull_request_that_is_merged_is_asked_for_rarely_where_hooks_deliver(
    place: Watched,
) -> None:
    """Each question without a tag counts against the limits of GitHub: twelve an hour were 12,000 for a thousand repositories."""
    number = place.fake.open(place.state, "feature").number
    place.fake.merge(place.state, number)
    place.fake.deliveries.clear()
    await place.poll()
    place.fake.write(place.state, number, "terracrew plan")
    [lost] = place.fake.deliveries
    await place.poll(polling.COMMENTS_SECONDS + 1)
    assert await place.commands(number) == ["terracrew plan"]
    await place.arrive([lost])
    await place.handle()
    await place.poll()
    place.fake.write(place.state, number, "terracrew help")
    place.fake.deliveries.clear()
    await place.poll(polling.COMMENTS_SECONDS * 2)
    assert await place.commands(number) == ["terracrew plan"]
    await place.poll(polling.DELIVERED_COMMENTS_SECONDS)
    assert await place.commands(number) == ["terracrew plan", "terracrew help"]
    await place.poll(polling.DELIVERS_SECONDS)
    place.fake.write(place.state, number, "terracrew cancel")
    place.fake.deliveries.clear()
    await place.poll(polling.COMMENTS_SECONDS + 1)
    assert len(await place.commands(number)) == 3


async def test_a_repository_is_polled_by_one_server_at_a_time(place: Watched) -> None:
    other = place.server("srv_2")
    place.clock.advance(POLL_SECONDS * 2)
    claimed = await place.db.write(lambda tx: repository_store.claim_due(tx, "srv_2", polling.LEASE_SECONDS, 64))
    assert len(claimed) == 1
    assert await place.loops.polling.step() == 0
    longer = polling.LEASE_SECONDS * 2
    await place.db.write(lambda tx: repository_store.renew_leases(tx, "srv_2", [claimed[0].id], longer))
    place.clock.advance(polling.LEASE_SECONDS + 1)
    assert await place.loops.polling.step() == 0
    place.clock.advance(polling.LEASE_SECONDS)
    assert await place.loops.polling.step() == 1
    assert await other.polling.step() == 0
    assert (await place.repository()).lease_holder is None


@pytest.mark.feature("F2.limits")
async def test_a_forge_that_is_away_for_an_hour_is_asked_rarely_and_nothing_is_lost(place: Watched) -> None:
    place.fake.instead = lambda _: Answer(502, {"message": "bad gateway"})
    number = place.fake.open(place.state, "feature").number
    await place.arrive(place.fake.deliveries)
    place.fake.asked.clear()
    for _ in range(60):
        place.clock.advance(60.0)
        await place.loops.polling.step()
        await place.loops.deliveries.step()
    assert await place.counted() < 70
    connection = await place.connection()
    assert "its own error 502" in connection.problem
    assert connection.away_until is not None
    place.fake.instead = lambda _: None
    await place.poll(400.0)
    await place.handle()
    assert await place.facts() == await place.truth()
    assert (await place.known(number)) is not None
    connection = await place.connection()
    assert (connection.problem, connection.failures, connection.away_until) == ("", 0, None)
    assert [each.problem for each in await place.delivered()] == [""]


@pytest.mark.feature("F2.limits")
@on_one
async def test_a_forge_that_asks_to_wait_is_left_alone_until_then(place: Watched) -> None:
    place.fake.instead = lambda _: Answer(
        403, {"message": "limit"}, {"X-RateLimit-Remaining": "0", "Retry-After": "900"}
    )
    place.fake.open(place.state, "feature")
    await place.arrive(place.fake.deliveries)
    await place.handle()
    place.fake.instead = lambda _: None
    place.fake.asked.clear()
    for _ in range(14):
        await place.poll(60.0)
        await place.handle()
    assert await place.counted() == 0
    assert "asks to wait for 900 seconds" in (await place.connection()).problem
    await place.poll(90.0)
    await place.handle()
    assert await place.facts() == await place.truth()
    assert (await place.connection()).problem == ""


async def test_a_revoked_token_is_told_and_a_new_one_is_used_at_once(place: Watched) -> None:
    place.fake.tokens.clear()
    await place.poll()
    problem = (await place.connection()).problem
    assert "does not accept the token" in problem
    assert "terracrew forge update" in problem
    place.fake.open(place.state, "feature")
    place.fake.tokens["new"] = place.fake.own
    await give_token(place, "new")
    await place.poll(1.0)
    assert await place.facts() == await place.truth()
    assert (await place.connection()).problem == ""


@pytest.mark.feature("F2.hooks")
@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])
@on_one
async def test_a_hook_that_the_forge_has_disabled_is_enabled_again_and_shown(
    database: Database, clock: ShiftedClock, kind: str
) -> None:
    async with watched(database, clock, kind) as place:
        [hook] = place.state.hooks.values()
        hook.active, hook.is_disabled_by_forge = False, True
        await place.poll(6.1 * 3600)
        repository = await place.repository()
        assert repository.hook_status == "enabled"
        assert "disabled" in repository.hook_message
        place.fake.open(place.state, "feature")
        assert len(place.fake.deliveries) == 1


@on_one
async def test_a_connection_that_may_not_make_hooks_polls_and_says_what_is_missing(place: Watched) -> None:
    await give_token(place, place.fake.token_without("hooks"))
    await place.poll(6.1 * 3600)
    repository = await place.repository()
    assert repository.hook_status == "missing"
    assert "the repository is polled" in repository.hook_message
    place.fake.open(place.state, "feature")
    await place.poll()
    assert await place.facts() == await place.truth()
    assert (await place.connection()).problem == ""


@on_one
async def test_a_delivery_about_a_repository_that_is_not_watched_says_so(place: Watched) -> None:
    await place.give_up()
    place.fake.open(place.state, "feature")
    await place.arrive(place.fake.deliveries)
    await place.handle()
    [found] = await place.delivered()
    assert "is not watched" in found.problem
    assert found.handled_at is not None


@pytest.mark.feature("F1.hostile")
@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])
@on_one
async def test_whatever_a_forge_answers_the_repository_says_what_was_wrong_and_recovers(
    database: Database, clock: ShiftedClock, kind: str
) -> None:
    nonsense = [
        Answer(200, raw=b"<html>log in</html>"),
        Answer(200, raw=b"[" * 100_000),
        Answer(200, raw=b"\xff\xfe"),
        Answer(200, [{"number": -1}]),
        Answer(200, {"items": "none"}),
        Answer(200, None),
        Answer(302, headers={"Location": "http://169.254.169.254/"}),
        Answer(418, {"message": {"reason": ["\u0000\u001b[31m" * 1000]}}),
    ]
    async with watched(database, clock, kind) as place:
        place.fake.open(place.state, "feature")
        for each in nonsense:
            place.fake.instead = lambda _, answer=each: answer
            await place.poll(700.0)
            repository, connection = await place.repository(), await place.connection()
            said = repository.problem or connection.problem
            assert said
            assert "\u001b" not in said
            assert len(said) < 1000
        place.fake.instead = lambda _: None
        await place.poll(700.0)
        assert await place.facts() == await place.truth()
        assert (await place.repository()).problem == ""


@on_one
async def test_an_old_delivery_is_forgotten_after_a_week(place: Watched) -> None:
    place.fake.open(place.state, "feature")
    await place.arrive(place.fake.deliveries)
    await place.handle()
    await place.loops.deliveries.prune()
    assert len(await place.delivered()) == 1
    place.clock.advance(timedelta(days=8).total_seconds())
    await place.loops.deliveries.prune()
    assert await place.delivered() == []


@pytest.mark.feature("F2.polling")
@pytest.mark.parametrize("is_delivered", [True, False], ids=["with hooks", "by polling"])
@on_one
async def test_a_merge_queue_goes_on_with_the_required_status(
    database: Database, clock: ShiftedClock, is_delivered: bool
) -> None:
    async with watched(database, clock, "github") as place:
        await place.loops.polling.step()
        branch = "gh-readonly-queue/main/pr-1-" + "a" * 40
        queued = place.fake.commit()
        place.state.branches[branch] = queued
        other = place.fake.push(place.state, "gh-readonly")
        if is_delivered:
            place.fake.tell_of_push(place.state, branch, queued)
            await place.arrive(place.fake.deliveries)
            await place.loops.deliveries.step()
        else:
            clock.advance(400)
            await place.loops.polling.step()
        assert place.state.statuses[queued, "terracrew"]["state"] == "success"
        assert (other, "terracrew") not in place.state.statuses


@on_one
async def test_a_token_that_may_write_no_status_does_not_keep_a_merge_queue_from_being_polled(
    database: Database, clock: ShiftedClock
) -> None:
    async with watched(database, clock, "github") as place:
        place.state.branches["gh-readonly-queue/main/pr-1"] = place.fake.commit()
        await give_token(place, place.fake.token_without(STATUSES))
        await place.loops.polling.step()
        repository = await place.repository()
        assert (repository.problem, repository.polled_at is not None) == ("", True)
