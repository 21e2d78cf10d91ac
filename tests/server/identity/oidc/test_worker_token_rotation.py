"""A runner replaces its worker token: the old one ends when the new one is used, and nobody else can replace it."""

import pytest

from terracrew.server.secrets import credentials
from tests.builders.job_rows import change_runners
from tests.server.identity.identity_server import IdentityServer

pytestmark = pytest.mark.feature("A2.rotation")


async def test_both_tokens_are_good_until_the_new_one_is_used_and_then_only_that(server: IdentityServer) -> None:
    """Worker tokens never expired: a copy that was stolen once was good for ever."""
    runner, old = await server.runner(server.organization_id)
    client, new = f"{server.organization_id}:{runner}", credentials.new("tcw")
    assert (await server.exchange(client, new.text)).status_code == 401
    offered = await server.exchange(client, old, new.sha256)
    assert offered.json()["is_next_secret_accepted"]
    assert (await server.exchange(client, old)).status_code == 200, "a crash before the first use locks nobody out"
    assert (await server.exchange(client, new.text)).status_code == 200
    assert (await server.exchange(client, old)).status_code == 401
    assert (await server.exchange(client, new.text)).status_code == 200
    noted = await server.db.read(
        lambda tx: tx.all(
            "SELECT address FROM audit WHERE action = 'runner.token_rotate' AND target_id = :id", id=runner
        )
    )
    assert [bool(row["address"]) for row in noted] == [True]


async def test_a_token_that_several_processes_share_is_not_replaced(server: IdentityServer) -> None:
    runner, token = await server.runner(server.organization_id)
    await change_runners(server.db, runner, allow_multiple_instances=True)
    answer = await server.exchange(f"{server.organization_id}:{runner}", token, credentials.new("tcw").sha256)
    assert (answer.status_code, answer.json()["is_next_secret_accepted"]) == (200, False)


async def test_neither_a_wrong_secret_nor_a_service_account_nor_nonsense_replaces_anything(
    server: IdentityServer,
) -> None:
    runner, token = await server.runner(server.organization_id)
    account, _, secret = await server.account()
    new, prefix = credentials.new("tcw"), server.organization_id
    assert (await server.exchange(f"{prefix}:{runner}", "tcw_wrong", new.sha256)).status_code == 401
    assert not (await server.exchange(f"{prefix}:{account}", secret, new.sha256)).json()["is_next_secret_accepted"]
    assert (await server.exchange(f"{prefix}:{runner}", token, "not a hash")).status_code == 400
    offered = "SELECT id FROM runners WHERE next_worker_token_sha256 IS NOT NULL"
    assert await server.db.read(lambda tx: tx.all(offered)) == []
