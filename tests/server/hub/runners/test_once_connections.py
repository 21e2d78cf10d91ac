"""A machine with a once token claims one job and nothing else: not after a crash, not beside another machine, not after its end."""

import asyncio
import re
from typing import Any

import msgspec
import pytest

from terracrew import ids
from terracrew.api.runners import DEFAULT_SECONDS, MAX_SECONDS, MIN_SECONDS, MadeOnceToken, NewOnceToken
from terracrew.errors import CredentialEnded
from terracrew.protocol import messages
from terracrew.protocol.events import Result
from terracrew.protocol.messages import AttemptRef, Granted
from terracrew.server.hub.notify import HubNotifier
from terracrew.server.jobs.attempts import claims
from terracrew.server.jobs.attempts.claim_store import Claimant, ClaimRequest
from terracrew.server.runners import once_token_service
from terracrew.server.runners.once_tokens import store
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import RUNNING, delivery, fact
from tests.builders.job_rows import change_instances, change_runners
from tests.builders.transactions import held_open, until_blocked
from tests.server.hub.hub_clients import TIMEOUT_SECONDS, Client, Hub, on_postgres, refusal

pytestmark = pytest.mark.feature("A2.once")

OTHER: dict[str, Any] = {"instance": "two", "instance_key": "t" * 32}


async def made(hub: Hub, seconds: int = DEFAULT_SECONDS) -> MadeOnceToken:
    who = hub.crew.app.admin.principal
    new = NewOnceToken(seconds)
    return await hub.server.db.write(
        lambda tx: once_token_service.create(tx, who, hub.runner_id, new, "http://crew.test")
    )


async def several(hub: Hub) -> None:
    """Let the runner have several instances."""
    await change_runners(hub.crew.rows.db, hub.runner_id, allow_multiple_instances=True)


async def access(hub: Hub, token: MadeOnceToken) -> str:
    return (await hub.server.identity.tokens.exchange(hub.runner_id, token.token, "127.0.0.1")).access_token


async def come(hub: Hub, client: Client, **hello: Any) -> dict[str, Any]:
    return await client.ask(hub.hello(**hello))


async def notified(hub: Hub, token: MadeOnceToken) -> None:
    """What the server does as soon as a token has changed."""
    hub.server.identity.tokens.forget(token.id)
    await HubNotifier(hub.server.hub.runners).step({("access", token.id)})


async def status(hub: Hub, token: MadeOnceToken) -> str:
    found = await hub.server.db.read(lambda tx: store.find(tx, token.id))
    assert found is not None
    return found.status


async def succeed(hub: Hub, job: str) -> None:
    await hub.crew.rows.take(delivery(AttemptRef(job, 1), 1, RUNNING, fact(Result("SUCCEEDED"))))


async def test_it_claims_one_job_and_the_second_claim_ends_the_connection(hub: Hub) -> None:
    token, first, second = await made(hub), await hub.job(), await hub.job()
    async with hub.connected(await access(hub, token)) as client:
        assert (await come(hub, client, capacity=64))["type"] == "welcome"
        assert hub.session().slots == 1, "it may not hold more, whatever it says"
        await client.granted(first)
        assert await status(hub, token) == "running"
        await succeed(hub, first)
        assert not await client.claim(second)
        assert (await refusal(client))[0] == "credential_ended"
    assert await status(hub, token) == "used"
    assert (await hub.crew.rows.load(second)).status == "QUEUED"
    assert await hub.crew.rows.attempts(second) == []


async def test_of_two_claims_at_once_one_is_granted(hub: Hub) -> None:
    """The claims of one connection share a transaction."""
    token, jobs = await made(hub), [await hub.job() for _ in range(4)]
    async with hub.connected(await access(hub, token)) as client:
        await come(hub, client)
        await change_instances(hub.crew.rows.db, token.id, capacity=4)
        found = await asyncio.gather(*map(client.begin_claim, jobs))
    assert sorted(found) == [False, False, False, True]
    assert sum([len(await hub.crew.rows.attempts(job)) for job in jobs]) == 1


async def test_credits_get_one_job_as_well(hub: Hub) -> None:
    """A client that sends credits for many slots, and keeps its slot free by what it says, is granted one of the new jobs."""
    token, scheduler = await made(hub), hub.server.scheduler
    with scheduler.freshness.watching(hub.server.db):
        async with hub.connected(await access(hub, token)) as client:
            await come(hub, client, capacity=9)
            await hub.until(lambda: hub.session().takes_jobs)
            await change_instances(hub.crew.rows.db, token.id, capacity=9)
            hub.session().slots = 9
            await client.send(messages.Credits(9, 0))
            await hub.until(lambda: hub.session().credits > 0)
            await scheduler.sweep()
            modules = [await hub.crew.rows.module() for _ in range(3)]
            paths = [f"/api/v1/modules/{module}/jobs" for module in modules]
            jobs = [(await hub.crew.app.admin.made(path, {"type": "PLAN"}))["id"] for path in paths]
            assert (await client.get("granted"))["spec"]["job_id"] == jobs[0]
    assert [len(await hub.crew.rows.attempts(job)) for job in jobs] == [1, 0, 0]
    assert [(await hub.crew.rows.load(job)).status for job in jobs[1:]] == ["QUEUED", "QUEUED"]


async def test_it_claims_another_job_if_the_answer_to_its_claim_was_lost(hub: Hub) -> None:
    """The token was used up by a claim that its machine never heard of, so the machine ended and the job waited for another."""
    token, job = await made(hub), await hub.job()
    async with hub.connected(await access(hub, token)) as client:
        await come(hub, client)
        session = hub.session()
        claimant = Claimant(job, 1, session.runner_id, session.instance_id, session.epoch)
        unheard = ClaimRequest(claimant, claims.make_credentials())
        assert await hub.server.claiming.claim(unheard) is not None
        assert await status(hub, token) == "running"
        hub.server.hub.runners.grants.take_back(unheard)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while await status(hub, token) != "waiting":
                await asyncio.sleep(0.01)
        await client.granted(job, attempt=2)
    assert [each.outcome for each in await hub.crew.rows.attempts(job)] == ["handed_back", None]
    assert await returns(hub) == [token.id]


async def test_it_claims_another_job_if_its_machine_had_gone_before_the_grant_was_sent(hub: Hub) -> None:
    token, job = await made(hub), await hub.job()
    async with hub.connected(await access(hub, token)) as client:
        await come(hub, client)
        hub.server.registry.has = lambda _: False  # pyright: ignore[reportAttributeAccessIssue]  (it is gone for the sender)
        client.begin_claim(job)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not await returns(hub):
                    await asyncio.sleep(0.01)
        finally:
            del hub.server.registry.has
    await hub.until(lambda: not hub.server.registry.runners)
    assert await status(hub, token) == "waiting"
    async with hub.connected(await access(hub, token)) as again:
        await come(hub, again)
        await again.granted(job, attempt=2)


@pytest.mark.parametrize("is_revoked", [False, True])
async def test_what_is_given_back_does_not_come_back_to_life(hub: Hub, clock: ShiftedClock, is_revoked: bool) -> None:
    token, job = await made(hub), await hub.job()
    async with hub.connected(await access(hub, token)) as client:
        await come(hub, client)
        granted = await client.granted(job)
    if is_revoked:
        await hub.server.db.write(lambda tx: store.revoke(tx, hub.runner_id, token.id))
    else:
        clock.advance(DEFAULT_SECONDS + 1)
    await claims.take_back(hub.server.db, AttemptRef(job, 1), granted.credentials, "the database went away")
    assert await status(hub, token) == ("revoked" if is_revoked else "expired")


async def returns(hub: Hub) -> list[str]:
    """Return the tokens that were given back, as the audit log says."""
    rows = await hub.server.db.read(
        lambda tx: tx.all("SELECT details FROM audit WHERE action = 'runner.once_token_return'")
    )
    return [msgspec.json.decode(row["details"])["token"] for row in rows]


async def test_of_two_machines_with_one_token_one_gets_a_job_and_the_other_is_dropped(hub: Hub) -> None:
    await several(hub)
    token, first, second = await made(hub), await hub.job(), await hub.job()
    async with hub.connected(await access(hub, token)) as one, hub.connected(await access(hub, token)) as two:
        assert (await come(hub, one))["type"] == (await come(hub, two, **OTHER))["type"] == "welcome"
        found = await asyncio.gather(one.begin_claim(first), two.begin_claim(second))
        assert sorted(found) == [False, True]
        loser = two if found[0] else one
        assert (await refusal(loser))[0] == "credential_ended"
    assert len([*await hub.crew.rows.attempts(first), *await hub.crew.rows.attempts(second)]) == 1


@on_postgres
async def test_a_claim_waits_for_another_transaction_that_uses_the_token_and_then_fails(hub: Hub) -> None:
    """Two servers decide at the same time; only the row of the token makes one of them wait."""
    await several(hub)
    token, first, second = await made(hub), await hub.job(), await hub.job()
    async with hub.connected(await access(hub, token)) as client:
        await come(hub, client)
        async with held_open(hub.server.db, lambda tx: store.use(tx, token.id, first, 1, "ins_elsewhere")):
            decided = client.begin_claim(second)
            await until_blocked(hub.server.db)
        assert not await decided
        assert (await refusal(client))[0] == "credential_ended"
    assert await hub.crew.rows.attempts(second) == []


async def test_a_machine_that_connects_after_another_has_the_job_is_refused(hub: Hub) -> None:
    await several(hub)
    token, job = await made(hub), await hub.job()
    before = await access(hub, token)
    async with hub.connected(await access(hub, token)) as one:
        await come(hub, one)
        await one.granted(job)
        for bearer in (before, await access(hub, token)):
            async with hub.connected(bearer) as two:
                await two.send(hub.hello(**OTHER))
                assert (await refusal(two))[0] == "credential_ended"
        async with hub.connected(before) as thief:  # it takes the name, too, but does not have the key
            await thief.send(hub.hello(instance_key="t" * 32))
            assert (await refusal(thief))[0] == "conflict"
    assert (await hub.crew.rows.load(job)).status == "CLAIMED", "the job of the first machine was not touched"


async def test_the_machine_reconnects_with_the_same_directory_and_reports_its_attempt(hub: Hub) -> None:
    """A runner that was killed is started again: it adopts, and gets no other job."""
    token, job, other = await made(hub), await hub.job(), await hub.job()
    async with hub.connected(await access(hub, token)) as one:
        await come(hub, one)
        await one.granted(job)
    await hub.until(lambda: not hub.server.registry.runners)
    ref = AttemptRef(job, 1)
    async with hub.connected(await access(hub, token)) as again:
        welcome = await come(hub, again, attempts=[ref], is_draining=False)
        assert (welcome["type"], welcome["unknown"]) == ("welcome", [])
        assert not await again.claim(other)
        await again.send(messages.Gone(job, 1, saw_process=True, reason="killed", last=0, is_delivered=True))
        assert (await again.get("settled"))["job_id"] == job
    assert await hub.crew.rows.attempts(other) == []
    assert await status(hub, token) == "used"
    with pytest.raises(CredentialEnded, match="for one job, which has ended"):
        await access(hub, token)


async def test_it_does_not_take_the_place_of_an_instance_with_another_credential(hub: Hub) -> None:
    """Whoever takes an instance over without its attempts has them queued again."""
    job = await hub.job()
    async with hub.runner() as worker:
        await worker.granted(job)
    await hub.until(lambda: not hub.server.registry.runners)
    token = await made(hub)
    async with hub.connected(await access(hub, token)) as hostile:
        await hostile.send(hub.hello(instance_key="t" * 32))
        assert await refusal(hostile) == ("conflict", True)
    assert (await hub.crew.rows.load(job)).attempt == 1
    async with hub.runner(attempts=[AttemptRef(job, 1)]):
        async with hub.connected(await access(hub, token)) as hostile:
            await hostile.send(hub.hello(**OTHER))
            assert await refusal(hostile) == ("conflict", True)
        assert len(hub.server.registry.runners) == 1


async def test_a_machine_that_was_made_anew_before_there_was_a_job_may_come_again(hub: Hub) -> None:
    token, job = await made(hub), await hub.job()
    async with hub.connected(await access(hub, token)) as one:
        await come(hub, one)
    await hub.until(lambda: not hub.server.registry.runners)
    async with hub.connected(await access(hub, token)) as again:
        assert (await come(hub, again, instance_key="t" * 32))["type"] == "welcome"
        await again.granted(job)


async def test_it_expires_while_it_waits(hub: Hub, clock: ShiftedClock) -> None:
    token, job = await made(hub, MIN_SECONDS), await hub.job()
    async with hub.connected(await access(hub, token)) as client, hub.connected(await access(hub, token)) as late:
        await come(hub, client)
        clock.advance(MIN_SECONDS + 1)
        await late.send(hub.hello(**OTHER))
        assert (await refusal(late))[0] in ("credential_ended", "unauthenticated", "conflict")
        await HubNotifier(hub.server.hub.runners).sweep()
        assert (await refusal(client))[0] == "credential_ended"
    with pytest.raises(CredentialEnded, match="has expired before there was one"):
        await access(hub, token)
    assert await hub.crew.rows.attempts(job) == []


@pytest.mark.parametrize("is_revoked", [False, True])
async def test_a_claim_after_the_end_is_refused_before_anybody_notices_the_end(
    hub: Hub, clock: ShiftedClock, is_revoked: bool
) -> None:
    token, job = await made(hub), await hub.job()
    async with hub.connected(await access(hub, token)) as client:
        await come(hub, client)
        assert not await client.claim(ids.new("job")), "the server has checked the token before this"
        if is_revoked:
            await hub.server.db.write(lambda tx: store.revoke(tx, hub.runner_id, token.id))
        else:
            clock.advance(DEFAULT_SECONDS + 1)
        assert not await client.claim(job)
        assert (await refusal(client))[0] == "credential_ended"
    assert await hub.crew.rows.attempts(job) == []


@pytest.mark.parametrize("has_job", [False, True])
async def test_a_revoked_one_ends_at_once_and_its_executor_still_delivers(hub: Hub, has_job: bool) -> None:
    token, job = await made(hub), await hub.job()
    async with hub.connected(await access(hub, token)) as client:
        await come(hub, client)
        granted: Granted | None = await client.granted(job) if has_job else None
        answered = await hub.crew.app.admin.delete(f"/api/v1/runners/{hub.runner_id}/once-tokens/{token.id}")
        assert answered.status_code == 204
        await notified(hub, token)
        assert (await refusal(client))[0] == "credential_ended"
    with pytest.raises(CredentialEnded, match="was revoked"):
        await access(hub, token)
    if granted is not None:
        async with hub.executor(granted):
            await succeed(hub, job)
        assert (await hub.crew.rows.load(job)).status == "SUCCEEDED"


async def test_a_connection_is_not_renewed_with_another_once_token(hub: Hub) -> None:
    one, two = await made(hub), await made(hub, MAX_SECONDS)
    async with hub.connected(await access(hub, one)) as client:
        await come(hub, client)
        await client.send(messages.Renew(await access(hub, two)))
        assert (await refusal(client))[0] == "unauthenticated"


async def test_the_end_of_its_job_ends_the_connection_with_the_next_sweep(hub: Hub) -> None:
    token, job = await made(hub), await hub.job()
    async with hub.connected(await access(hub, token)) as client:
        await come(hub, client)
        await client.granted(job)
        await HubNotifier(hub.server.hub.runners).sweep()
        assert hub.session(), "it stays as long as the job"
        await succeed(hub, job)
        await HubNotifier(hub.server.hub.runners).sweep()
        assert (await refusal(client))[0] == "credential_ended"


async def test_it_opens_nothing_but_the_hub(hub: Hub) -> None:
    """No operation of the application accepts the token, or the access token of it, unless it asks nobody who they are."""
    token, job = await made(hub), await hub.job()
    bearer = await access(hub, token)
    async with hub.connected(bearer) as client:
        await come(hub, client)
        await client.granted(job)
    values = {"job": job, "job_id": job, "attempt": "1", "index": "1", "runner": hub.runner_id, "once_token": token.id}
    tried = 0
    for route in hub.crew.app.app.routes:
        handlers: dict[str, Any] = getattr(route, "route_handler_map", {})
        for method, (handler, *_) in handlers.items():
            if method == "OPTIONS" or handler.opt.keys() & {"public", "ignores_credentials"}:
                continue
            url = re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], "1"), route.path_format)
            for secret in (token.token, bearer):
                answered = await hub.crew.bearer(secret).request(method, url, json={})
                is_login = answered.status_code == 303 and answered.headers["Location"].startswith("/login")
                assert answered.status_code == 401 or is_login, (method, url, answered.text)
                tried += 1
    assert tried > 300
    async with hub.connected(token.token) as client:  # which is refused before its hello
        assert (await refusal(client))[0] == "unauthenticated"


async def test_the_outcome_is_told_to_the_credential_of_the_attempt(hub: Hub) -> None:
    job = await hub.job()
    async with hub.runner() as client:
        granted = await client.granted(job)
    executor = hub.crew.bearer(granted.credentials.hub)
    path = f"/runnerhub/attempts/{job}/1/outcome"
    assert (await executor.get(path)).json()["outcome"] is None
    await succeed(hub, job)
    found = (await executor.get(path)).json()
    assert (found["outcome"], found["job_number"]) == ("succeeded", (await hub.crew.rows.load(job)).number)
    assert (await executor.get(f"/runnerhub/attempts/{await hub.job()}/1/outcome")).status_code == 403


async def test_the_use_is_audited_with_the_job_and_without_the_secret(hub: Hub) -> None:
    token, job = await made(hub), await hub.job()
    async with hub.connected(await access(hub, token)) as client:
        await come(hub, client)
        await client.granted(job)
    rows = await hub.server.db.read(
        lambda tx: tx.all("SELECT action, details FROM audit WHERE action LIKE 'runner.once%'")
    )
    assert [row["action"] for row in rows] == ["runner.once_token_create", "runner.once_token_use"]
    assert msgspec.json.decode(rows[1]["details"])["token"] == token.id
    assert token.token not in str(rows)
