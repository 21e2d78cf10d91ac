"""A worker token ends: by rotation, or when nobody has used it for long. The use of one that was replaced raises an alert."""

import pytest

from terracrew.api.runners import AlertKind, RunnerAlert
from terracrew.server.identity.access import credential_store
from terracrew.server.identity.oidc import tokens
from terracrew.server.runners.alerts import store as alert_store
from terracrew.server.secrets import credentials
from tests.builders.clock import ShiftedClock
from tests.builders.job_rows import change_runners
from tests.server.identity.identity_server import IdentityServer

pytestmark = pytest.mark.feature("A2.rotation")

DAY_SECONDS = 24 * 3600.0


async def expires_in(server: IdentityServer, runner: str) -> float | None:
    """Return after how many seconds the token of a runner ends."""
    row = await server.db.read(
        lambda tx: tx.one(
            "SELECT worker_token_expires_at - CAST(:now AS double precision) AS remaining FROM runners WHERE id = :id",
            id=runner,
            now=tx.now,
        )
    )
    assert row is not None
    return row["remaining"]


async def alerts(server: IdentityServer, runner: str) -> list[RunnerAlert]:
    return await server.db.read(lambda tx: alert_store.shown(tx, runner, 100))


async def rotated(server: IdentityServer) -> tuple[str, str, str, str]:
    """Return a runner, its client id, its first token, which it has replaced, and the one that it has now."""
    runner, old = await server.runner(server.organization_id)
    client, new = f"{server.organization_id}:{runner}", credentials.new("tcw")
    assert (await server.exchange(client, old, new.sha256)).status_code == 200
    assert (await server.exchange(client, new.text)).status_code == 200
    return runner, client, old, new.text


async def test_an_expired_token_is_refused_and_its_holder_is_told_why(
    server: IdentityServer, clock: ShiftedClock
) -> None:
    runner, token = await server.runner(server.organization_id)
    client = f"{server.organization_id}:{runner}"
    assert (await server.exchange(client, token)).status_code == 200
    clock.advance(tokens.WORKER_TOKEN_SECONDS + 1)
    refused = await server.exchange(client, token)
    assert (refused.status_code, refused.json()["error_description"]) == (401, tokens.EXPIRED)
    other = await server.exchange(client, "tcw_wrong")
    assert other.json()["error_description"] != tokens.EXPIRED, "without the token, nothing is told"


async def test_the_access_token_of_a_worker_token_ends_with_it(server: IdentityServer, clock: ShiftedClock) -> None:
    runner, token = await server.runner(server.organization_id)
    client = f"{server.organization_id}:{runner}"
    access = (await server.exchange(client, token)).json()["access_token"]
    principal = await server.container.identity.tokens.principal(access)
    assert await server.container.identity.tokens.is_live(principal)
    clock.advance(tokens.WORKER_TOKEN_SECONDS + 1)
    assert not await server.container.identity.tokens.is_live(principal)


async def test_a_token_that_its_runner_does_not_replace_is_valid_for_as_long_as_it_is_used(
    server: IdentityServer, clock: ShiftedClock
) -> None:
    runner, token = await server.runner(server.organization_id)
    for _ in range(3):
        assert (await server.exchange(f"{server.organization_id}:{runner}", token)).status_code == 200
        clock.advance(tokens.WORKER_TOKEN_SECONDS - DAY_SECONDS)
    assert (await server.exchange(f"{server.organization_id}:{runner}", token)).status_code == 200
    left = await expires_in(server, runner)
    assert left is not None
    assert abs(left - tokens.WORKER_TOKEN_SECONDS) < 600


async def test_use_extends_a_token_of_a_runner_that_has_stopped_to_replace_its_tokens(
    server: IdentityServer, clock: ShiftedClock
) -> None:
    """Symptom: a runner in daily use, whose owner had turned the replacement off, was refused after ninety days."""
    runner, client, _, token = await rotated(server)
    for _ in range(3):
        clock.advance(tokens.WORKER_TOKEN_SECONDS - DAY_SECONDS)
        assert (await server.exchange(client, token)).status_code == 200
        left = await expires_in(server, runner)
        assert left is not None
        assert abs(left - tokens.WORKER_TOKEN_SECONDS) < 600


async def test_tokens_of_shared_runners_have_no_end(server: IdentityServer) -> None:
    shared, token = await server.runner(None, "shared")
    assert (await server.exchange(shared, token)).status_code == 200
    assert await expires_in(server, shared) is None


async def test_the_use_of_a_replaced_token_raises_one_alert_and_is_audited(server: IdentityServer) -> None:
    runner, client, old, _ = await rotated(server)
    assert await alerts(server, runner) == []
    for _ in range(3):
        assert (await server.exchange(client, old)).status_code == 401
    [alert] = await alerts(server, runner)
    assert (alert.kind, alert.count, alert.is_urgent) == (AlertKind.ENDED_TOKEN, 3, True)
    assert alert.address
    noted = await server.db.read(lambda tx: tx.all("SELECT target_id FROM audit WHERE action = 'runner.token_reuse'"))
    assert [row["target_id"] for row in noted] == [runner]


async def test_a_runner_that_tries_all_its_tokens_after_the_last_one_expired_raises_no_alert(
    server: IdentityServer, clock: ShiftedClock
) -> None:
    runner, client, old, new = await rotated(server)
    clock.advance(tokens.WORKER_TOKEN_SECONDS + 1)
    for token in (new, old):
        assert (await server.exchange(client, token)).status_code == 401
    assert await alerts(server, runner) == []


async def test_a_process_that_still_has_the_tokens_from_before_a_registration_raises_no_alert(
    server: IdentityServer,
) -> None:
    runner, client, old, new = await rotated(server)
    sha256 = credentials.new("tcw").sha256
    await change_runners(server.db, runner, worker_token_sha256=sha256, is_worker_token_rotated=False)
    for token in (new, old):
        assert (await server.exchange(client, token)).status_code == 401
    assert await alerts(server, runner) == []


async def test_replaced_tokens_are_forgotten_after_a_time(server: IdentityServer) -> None:
    await rotated(server)
    assert await server.db.write(lambda tx: credential_store.prune_ended_tokens(tx, tx.now - 1, 10)) == 0
    assert await server.db.write(lambda tx: credential_store.prune_ended_tokens(tx, tx.now + 1, 10)) == 1
