"""People who are logged in link their own user to their person at a provider that allows it, and nobody else's."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from terracrew.api.access import Role
from terracrew.api.sso import NewRule, ProviderChange
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_store
from terracrew.server.identity.people import store as people_store
from terracrew.server.identity.sso import providers, store
from tests.server.application import on_one
from tests.server.dashboard.visitor import Visitor, logged_in, visitor
from tests.server.identity.sso.conftest import manager
from tests.server.identity.sso.crook import Crook, led, refused

pytestmark = [on_one, pytest.mark.feature("P1.links")]
ACCOUNT = "/dashboard/account"


async def change(crook: Crook, **wanted: Any) -> None:
    server = crook.application.server
    given = ProviderChange(**wanted)
    await providers.change(
        server.db, server.keys, server.identity.sso.trust, manager(crook.application), crook.made.id, given
    )


async def person(crook: Crook, name: str = "vera") -> Visitor:
    await crook.application.person(name)
    return await logged_in(crook.application, name)


async def begin(crook: Crook, browser: Visitor) -> None:
    """Begin to link the user of a browser, which the crook uses from now on."""
    await browser.see(ACCOUNT)
    answer = await browser.submit(f"{ACCOUNT}/links/{crook.made.id}")
    assert answer.status_code == 200, answer.text
    crook.browser = browser
    crook.asked = {name: each[0] for name, each in parse_qs(urlsplit(led(answer.text)).query).items()}


async def linked(crook: Crook) -> dict[str, str]:
    async def read(tx: Tx) -> dict[str, str]:
        return {each.subject: each.user for each in await store.linked(tx, crook.made.id, "", 100)}

    return await crook.application.server.db.read(read)


async def test_a_person_links_themselves_and_removes_the_link(crook: Crook) -> None:
    db = crook.application.server.db
    await providers.add_rule(db, manager(crook.application), crook.made.id, NewRule("staff", Role.OPERATOR))
    vera = await person(crook)
    assert "Link yourself" not in await vera.see(ACCOUNT)
    assert (await vera.submit(f"{ACCOUNT}/links/{crook.made.id}")).status_code == 409, "the provider does not allow it"
    await change(crook, allows_self_link=True)
    await begin(crook, vera)
    assert crook.asked["prompt"] == "login", "somebody else could have logged this browser in there"
    answer = await crook.come_back(crook.token(sub="v1", groups=["staff"]))
    assert (answer.status_code, answer.headers["Location"]) == (303, ACCOUNT)
    assert await linked(crook) == {"v1": "vera"}
    page = await vera.see(ACCOUNT)
    assert ("v1" in page, "Link yourself" in page) == (True, False)
    assert (await vera.submit(f"{ACCOUNT}/links/{crook.made.id}")).status_code == 409, "one person of a provider"
    crook.browser = there = visitor(crook.application)
    await crook.begin()
    assert (await crook.come_back(crook.token(sub="v1", groups=["staff"]))).status_code == 303
    assert "vera" in await there.see(ACCOUNT)
    user = await db.read(lambda tx: people_store.user(tx, "vera"))
    assert len(await db.read(lambda tx: role_store.roles_of_source(tx, [user.id], crook.made.id))) == 1
    (identity,) = await db.read(lambda tx: store.linked_of_user(tx, user.id))
    other = await person(crook, "otto")
    await other.see(ACCOUNT)
    path = f"{ACCOUNT}/links/{identity.id}/remove"
    assert (await other.submit(path)).status_code == 404, "that of somebody else"
    await change(crook, allows_self_link=False)
    assert (await vera.submit(path)).status_code == 400
    await change(crook, allows_self_link=True)
    assert (await vera.submit(path)).status_code == 303
    assert await linked(crook) == {}
    assert (await there.get(ACCOUNT)).status_code == 303, "the session that began there has ended"
    assert await db.read(lambda tx: role_store.roles_of_source(tx, [user.id], crook.made.id)) == []
    found = await db.read(lambda tx: tx.all("SELECT action, actor_name FROM audit WHERE action LIKE 'sso.%link'"))
    assert [(each["action"], each["actor_name"]) for each in found] == [("sso.link", "vera"), ("sso.unlink", "vera")]


async def test_a_link_that_another_session_has_begun_links_nobody(crook: Crook) -> None:
    """The crook begins a link, and gives the victim's browser the cookie and the answer, or the other way around."""
    await change(crook, allows_self_link=True)
    mallory, vera = await person(crook, "mallory"), await person(crook)
    await begin(crook, mallory)
    own, cookie = crook.browser, crook.browser.cookies["terracrew_sign_in"]
    vera.cookies["terracrew_sign_in"] = cookie
    for browser in (vera, visitor(crook.application)):
        browser.cookies["terracrew_sign_in"] = cookie
        crook.browser = browser
        refused(await crook.come_back(crook.token()), "another session")
    assert await linked(crook) == {}
    crook.browser = own
    await begin(crook, own)
    await own.submit("/logout")
    refused(await crook.come_back(crook.token()), "another session")
    assert await linked(crook) == {}


async def test_nobody_links_what_the_provider_may_not_log_in_or_what_belongs_to_another(crook: Crook) -> None:
    await change(crook, allows_self_link=True)
    admin = await logged_in(crook.application)
    await begin(crook, admin)
    refused(await crook.come_back(crook.token()), "log in with a password")
    vera, otto = await person(crook), await person(crook, "otto")
    await begin(crook, vera)
    assert (await crook.come_back(crook.token())).status_code == 303
    await begin(crook, otto)
    refused(await crook.come_back(crook.token()), "nother user is linked")
    await begin(crook, otto)
    await change(crook, allows_self_link=False)
    refused(await crook.come_back(crook.token(sub="o1")), "does not let people link")
    assert await linked(crook) == {"m1": "vera"}
    await crook.application.person("olga@second", organization="second")
    foreign = await logged_in(crook.application, "olga@second")
    await change(crook, allows_self_link=True)
    await foreign.see(ACCOUNT)
    assert (await foreign.submit(f"{ACCOUNT}/links/{crook.made.id}")).status_code == 409


async def test_nobody_removes_the_only_way_in(crook: Crook) -> None:
    await change(crook, allows_self_link=True)
    assert (await crook.come_back(crook.token())).status_code == 303
    db = crook.application.server.db
    user = await db.read(lambda tx: people_store.user(tx, "mallory"))
    (identity,) = await db.read(lambda tx: store.linked_of_user(tx, user.id))
    await crook.browser.see(ACCOUNT)
    answer = await crook.browser.submit(f"{ACCOUNT}/links/{identity.id}/remove")
    assert (answer.status_code, "set a password first" in answer.text) == (400, True)
    assert await linked(crook) == {"m1": "mallory"}
