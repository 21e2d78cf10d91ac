"""A connection gives a forge to ask, and asks its own addresses only."""

import base64
from collections.abc import AsyncIterator

import pytest

from terracrew.errors import Undecryptable
from terracrew.forges.contract import ForgeAway, ForgeRefused, ForgeRequest
from terracrew.server.db.seam import Database
from terracrew.server.forges.clients import Forges
from terracrew.server.outgoing.client import OutgoingClient
from terracrew.server.secrets.keyring import Keyring
from tests.forges import fake_forge
from tests.forges.fake_forge import OWNER_TOKEN
from tests.forges.fake_gitea import FakeGitea
from tests.forges.sending import LOOPBACK
from tests.server.application import on_one
from tests.server.forges import forge_rows

KEYS = Keyring([b"k" * 32])


@pytest.fixture
def forges() -> Forges:
    return Forges(OutgoingClient(LOOPBACK), KEYS)


@pytest.fixture
async def fake() -> AsyncIterator[FakeGitea]:
    async with fake_forge.running(FakeGitea()) as running:
        running.repository()
        yield running


@on_one
async def test_a_connection_gives_a_forge_and_what_git_authenticates_with(
    database: Database, forges: Forges, fake: FakeGitea
) -> None:
    connection = await forge_rows.connection(database, KEYS, OWNER_TOKEN, base_url=fake.url)
    repository = await forge_rows.repository(database, connection)
    assert (await forges.of(connection).repository("acme/network")).clone_url == f"{fake.url}/acme/network.git"
    login = await forges.git_login(connection, repository)
    assert login is not None
    kind, _, given = login.authorization.partition(" ")
    assert (kind, base64.b64decode(given).decode()) == ("Basic", f"git:{OWNER_TOKEN}")
    assert OWNER_TOKEN not in repr(login) + repr(forges.credential(connection)) + repr(connection)


@on_one
async def test_a_forge_is_kept_while_its_credential_stays(database: Database, forges: Forges, fake: FakeGitea) -> None:
    connection = await forge_rows.connection(database, KEYS, OWNER_TOKEN, base_url=fake.url)
    assert forges.of(connection) is forges.of(connection)
    other = await forge_rows.connection(database, KEYS, "another", base_url=fake.url, name="other")
    assert forges.of(other) is not forges.of(connection)
    with pytest.raises(Undecryptable):
        Forges(OutgoingClient(LOOPBACK), Keyring([b"o" * 32])).of(connection)


@on_one
@pytest.mark.feature("F1.hostile")
async def test_a_credential_goes_to_the_address_of_its_connection_only(
    database: Database, forges: Forges, fake: FakeGitea
) -> None:
    connection = await forge_rows.connection(database, KEYS, OWNER_TOKEN, base_url=f"{fake.url}/git")
    send = forges.sender(connection)
    for url in (f"{fake.url}/api", f"{fake.url}/git.evil/x", f"{fake.url}/gitx", "http://127.0.0.1:1/git/"):
        with pytest.raises(ForgeRefused, match="was not sent"):
            await send(ForgeRequest("GET", url, {}))
    assert fake.asked == {}


@on_one
@pytest.mark.feature("M3.addresses")
async def test_a_private_address_is_refused_with_what_to_do_and_a_forge_that_is_gone_is_away(
    database: Database, forges: Forges
) -> None:
    connection = await forge_rows.connection(database, KEYS, base_url="http://127.0.0.1:1")
    with pytest.raises(ForgeRefused, match="private_destinations"):
        await Forges(OutgoingClient(), KEYS).of(connection).repository("acme/network")
    with pytest.raises(ForgeAway):
        await forges.of(connection).repository("acme/network")
