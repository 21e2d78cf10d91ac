"""A runner replaces its worker token: when the old one ends, and who cannot have it replaced."""

import httpx
import pytest

from terracrew.server.secrets import credentials
from tests.server.identity.world import World

pytestmark = pytest.mark.feature("A2", "R5")


async def ask(world: World, client_id: str, secret: str, next_sha256: str = "") -> httpx.Response:
    form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}
    async with world.client() as client:
        return await client.post(
            "/connect/token", data=form | ({"next_secret_sha256": next_sha256} if next_sha256 else {})
        )


async def test_both_tokens_are_good_until_the_new_one_is_used_and_then_only_that(world: World) -> None:
    """Worker tokens never expired: a copy that was stolen once was good for ever."""
    runner, old = await world.runner(world.organization_id)
    client, new = f"{world.organization_id}:{runner}", credentials.new("tcw")
    assert (await ask(world, client, new.text)).status_code == 401
    offered = await ask(world, client, old, new.sha256)
    assert offered.json()["is_next_secret_accepted"]
    assert (await ask(world, client, old)).status_code == 200, "a crash before the first use locks nobody out"
    assert (await ask(world, client, new.text)).status_code == 200
    assert (await ask(world, client, old)).status_code == 401
    assert (await ask(world, client, new.text)).status_code == 200
    noted = await world.db.read(
        lambda tx: tx.all(
            "SELECT address FROM audit WHERE action = 'runner.token_rotate' AND target_id = :id", id=runner
        )
    )
    assert [bool(row["address"]) for row in noted] == [True]


async def test_a_token_that_several_processes_share_is_not_replaced(world: World) -> None:
    runner, token = await world.runner(world.organization_id)
    await world.run("UPDATE runners SET allow_multiple_instances = true WHERE id = :id", id=runner)
    answer = await ask(world, f"{world.organization_id}:{runner}", token, credentials.new("tcw").sha256)
    assert (answer.status_code, answer.json()["is_next_secret_accepted"]) == (200, False)


async def test_neither_a_wrong_secret_nor_a_service_account_nor_nonsense_replaces_anything(world: World) -> None:
    runner, token = await world.runner(world.organization_id)
    account, _, secret = await world.account()
    new, prefix = credentials.new("tcw"), world.organization_id
    assert (await ask(world, f"{prefix}:{runner}", "tcw_wrong", new.sha256)).status_code == 401
    assert not (await ask(world, f"{prefix}:{account}", secret, new.sha256)).json()["is_next_secret_accepted"]
    assert (await ask(world, f"{prefix}:{runner}", token, "not a hash")).status_code == 400
    offered = "SELECT id FROM runners WHERE next_worker_token_sha256 IS NOT NULL"
    assert await world.db.read(lambda tx: tx.all(offered)) == []
