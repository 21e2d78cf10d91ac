"""A link counts only while the principal that made it may still give somebody control of the account."""

import httpx
import pytest

from terracrew.api.access import Role, UserChange
from terracrew.errors import Unauthenticated
from terracrew.server.identity.access import role_store, users
from terracrew.server.identity.people import logins, service, user_reads
from terracrew.server.principals.model import Principal
from tests.builders.job_rows import change_users
from tests.server.identity.identity_server import IdentityServer

pytestmark = pytest.mark.feature("X3.people")
PASSWORD = "a long enough one"


async def _invited(server: IdentityServer, maker: httpx.AsyncClient, name: str) -> str:
    """Create a user, and return the token of the link."""
    made = await maker.post("/api/v1/users", json={"name": name})
    assert made.status_code == 201, made.text
    return made.json()["link"].rpartition("/")[2]


async def _refused(server: IdentityServer, link: str) -> None:
    for use in (
        service.link_owner(server.identity, link, "a"),
        service.redeem_link(server.identity, link, "a", PASSWORD),
    ):
        with pytest.raises(Unauthenticated, match="used up, expired or wrong"):
            await use


async def _promoted(server: IdentityServer, admin: Principal, name: str) -> None:
    await users.change(server.db, admin, name, UserChange(is_system_admin=True))


async def test_an_owners_links_end_when_their_users_become_administrators(server: IdentityServer) -> None:
    """The owner of an organization who kept the link of a user became an administrator of the server with that user."""
    admin, olga = await server.user("root", is_system_admin=True), await server.user("olga", Role.OWNER)
    owner = server.client(await server.local_token(olga))
    invitation = await _invited(server, owner, "ada")
    vera = await server.user("vera", Role.VIEWER)
    reset = (await owner.post("/api/v1/users/vera/reset")).json()["link"].rpartition("/")[2]
    for name in ("ada", "vera"):
        await _promoted(server, admin, name)
    await _refused(server, invitation)
    await _refused(server, reset)
    listed = await server.db.read(lambda tx: user_reads.of_id(tx, vera.id))
    assert listed is not None
    assert not listed.is_invited, "people are told that the user cannot log in"


async def test_a_link_that_was_made_while_its_user_became_more_is_refused(server: IdentityServer) -> None:
    """The row of the link may be inserted after the change of rights, by a transaction that began before it."""
    olga, vera = await server.user("olga", Role.OWNER), await server.user("vera", Role.VIEWER)
    _, link = await users.reset(server.db, olga, "vera")
    await change_users(server.db, vera.id, is_system_admin=True)
    await _refused(server, link)


async def test_an_owners_link_ends_when_its_user_gets_a_role_in_another_organization(server: IdentityServer) -> None:
    admin, elsewhere = await server.user("root", is_system_admin=True), await server.organization("elsewhere")
    owner = server.client(await server.local_token(await server.user("olga", Role.OWNER)))
    link = await _invited(server, owner, "ada")
    there = server.client(await server.local_token(admin), headers={"Terracrew-Organization": "elsewhere"})
    granted = await there.post("/api/v1/roles", json={"principal": "ada", "role": "owner"})
    assert (granted.status_code, granted.json()["organization_id"]) == (201, elsewhere)
    await _refused(server, link)


async def test_a_link_ends_with_the_rights_of_its_maker(server: IdentityServer) -> None:
    olga, otto = await server.user("olga", Role.OWNER), await server.user("otto", Role.OWNER)
    first = await _invited(server, server.client(await server.local_token(olga)), "ada")
    second = await _invited(server, server.client(await server.local_token(otto)), "bea")
    for link in (first, second):
        assert await service.link_owner(server.identity, link, "a")
    await server.run("DELETE FROM role_bindings WHERE principal_id = :id", id=olga.id)
    await change_users(server.db, otto.id, is_disabled=True)
    for link in (first, second):
        await _refused(server, link)


async def test_a_service_account_creates_users_and_gets_no_links(server: IdentityServer) -> None:
    account, _, secret = await server.account()
    await server.db.write(
        lambda tx: role_store.bind_role(
            tx, server.organization_id, "service_account", account, "owner", "group", "", "test"
        )
    )
    access = (await server.exchange(f"{server.organization_id}:{account}", secret)).json()["access_token"]
    made = await server.client(access).post("/api/v1/users", json={"name": "cleo"})
    assert (made.status_code, made.json()["link"]) == (201, None)


async def test_links_of_administrators_of_the_machine_and_of_the_user_stay_valid(server: IdentityServer) -> None:
    admin = await server.user("root", is_system_admin=True)
    _, invitation = await service.create_user(server.db, admin, "ada", False)
    assert invitation is not None
    vera, paul = await server.user("vera"), await server.user("paul")
    of_machine = await service.make_link(server.db, vera.id)
    own = await service.make_link(server.db, paul.id, paul)
    for name in ("ada", "vera", "paul"):
        await _promoted(server, admin, name)
    for link in (invitation, of_machine, own):
        assert await service.redeem_link(server.identity, link, "a", PASSWORD)


async def test_a_new_password_ends_the_links_that_were_made_before(server: IdentityServer) -> None:
    """Somebody who had used another person's session to make a link could log in with it after the password was changed."""
    vera = await server.user("vera")
    await service.redeem_link(server.identity, await service.make_link(server.db, vera.id), "a", PASSWORD)
    link = await service.make_link(server.db, vera.id, vera)
    await logins.set_password(server.identity, vera, "the next password", PASSWORD)
    await _refused(server, link)
