"""A runner may introduce itself by its path; a credential learns nothing about the runners that it may not serve."""

from typing import Any

import pytest

from terracrew.protocol import limits
from tests.server.application import on_one
from tests.server.hub.hub_clients import Client, Hub


async def _service_account(hub: Hub, name: str, group: str) -> tuple[str, str]:
    """Create a service account; return its id and an access token that was requested with its path."""
    admin = hub.crew.app.admin
    made = await admin.made("/api/v1/service-accounts", {"name": name, "group": group})
    secret = (await admin.made(f"/api/v1/service-accounts/{made['id']}/secrets", {}))["client_secret"]
    client_id = f"{made['organization_id']}:{f'{group}/{name}'.lstrip('/')}"
    token = await hub.server.identity.tokens.exchange(client_id, secret, "127.0.0.1")
    return made["id"], token.access_token


async def _ask(client: Client, hub: Hub, **changes: Any) -> dict[str, Any]:
    return await client.ask(hub.hello(**({"runner_id": ""} | changes)))


@pytest.mark.feature("A1.exchange", "O2.interval", "R2.path", "T1.paths")
async def test_a_runner_and_its_service_account_can_be_named_by_their_paths(hub: Hub) -> None:
    admin = hub.crew.app.admin
    await admin.made("/api/v1/groups", {"path": "spectre"})
    account, token = await _service_account(hub, "bot", "spectre")
    body = {"name": "impatient", "group": "spectre", "service_account": account}
    runner = await admin.made("/api/v1/runners", body)
    async with hub.connected(token) as client:
        welcome = await _ask(client, hub, runner_path="spectre/impatient")
        assert (welcome["type"], welcome["runner_id"]) == ("welcome", runner["id"])
        assert welcome["heartbeat_seconds"] == 10
    async with hub.connected(token) as client:  # the id wins, so that a runner that has connected once can be moved
        welcome = await _ask(client, hub, runner_id=runner["id"], runner_path="no/such", instance_key="n" * 32)
        assert welcome["type"] == "welcome"


@pytest.mark.feature("A5.one", "T1.paths", "X2.enforced")
async def test_a_path_reveals_nothing_about_runners_of_other_credentials(hub: Hub) -> None:
    admin = hub.crew.app.admin
    await admin.made("/api/v1/groups", {"path": "spectre"})
    _, token = await _service_account(hub, "bot", "spectre")
    await admin.made("/api/v1/runners", {"name": "secret", "group": "spectre"})
    answers: list[dict[str, Any]] = []
    for path in ("spectre/secret", "spectre/none", "crew"):  # one that exists, one that does not, the shared one
        async with hub.connected(token) as client:
            answers.append(await _ask(client, hub, runner_path=path))
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["code"] == "not_found"
    async with hub.connected(token) as client:
        assert (await _ask(client, hub, runner_path="../x"))["code"] == "invalid"
    async with hub.connected(token) as client:
        assert (await _ask(client, hub))["code"] == "invalid"


@on_one
@pytest.mark.feature("C3.hello", "T5.values")
async def test_the_hub_refuses_what_the_settings_refuse(hub: Hub) -> None:
    """Instance names of 101 to 128 characters passed the settings, and the hub refused them."""
    longest = "n" * limits.MAX_INSTANCE_NAME_CHARACTERS
    for wrong in (
        {"instance": longest + "n"},
        {"instance": "  "},
        {"instance": "a\nb"},
        {"capacity": 0},
        {"capacity": limits.MAX_CAPACITY + 1},
    ):
        async with hub.connected(await hub.token()) as client:
            answer = await client.ask(hub.hello(**wrong))
            assert (answer["type"], answer["code"]) == ("refused", "invalid"), wrong
    async with hub.connected(await hub.token()) as client:
        assert (await client.ask(hub.hello(instance=longest, capacity=limits.MAX_CAPACITY)))["type"] == "welcome"
