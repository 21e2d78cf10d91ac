"""What a hostile browser, a hostile provider and the owners of another organization get: nothing."""

import base64
import json
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey
from msgspec.structs import replace

from terracrew import ids
from terracrew.api.access import Role
from terracrew.api.sso import LoginPolicy, NewProvider, ProviderChange
from terracrew.errors import Conflict, Forbidden
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_store
from terracrew.server.identity.people import service as people
from terracrew.server.identity.people import sessions
from terracrew.server.identity.people import store as people_store
from terracrew.server.identity.sso import policy, providers, store
from tests.builders import sign_on_rows
from tests.machine.oidc_issuer import new_key
from tests.server.application import on_one
from tests.server.dashboard.visitor import visitor
from tests.server.identity.sso.crook import Crook, refused
from tests.server.identity.sso.provider_logins import manager

pytestmark = [on_one, pytest.mark.feature("P1.attacks")]
HOME = "/dashboard"


async def test_an_honest_answer_lets_in_once_and_leads_to_our_pages_only(crook: Crook) -> None:
    answer = await crook.come_back(crook.token())
    assert (answer.status_code, answer.headers["Location"]) == (303, "/dashboard/jobs")
    sent = parse_qs(crook.issuer.posted[-1])
    assert sent["redirect_uri"] == [crook.made.redirect_uri]
    assert len(sent["code_verifier"][0]) >= 43
    crook.browser.cookies.clear()
    refused(await crook.come_back(), "start again")
    elsewhere = visitor(crook.application)
    answer = await elsewhere.get(f"/login/sso/{crook.made.id}", params={"next": "https://evil.example/x"})
    crook.asked = {name: each[0] for name, each in parse_qs(urlsplit(answer.headers["Location"]).query).items()}
    crook.browser = elsewhere
    assert (await crook.come_back(crook.token())).headers["Location"] == HOME


async def test_the_cookie_of_a_completed_login_is_worth_nothing(crook: Crook) -> None:
    kept = dict(crook.browser.cookies)
    assert (await crook.come_back(crook.token())).status_code == 303
    crook.browser = visitor(crook.application)
    crook.browser.cookies.update(kept)
    refused(await crook.come_back(crook.token()), "completed before")


async def test_an_answer_for_another_browser_or_state_is_refused(crook: Crook) -> None:
    refused(await crook.come_back(crook.token(), state="x" * 43), "start again")
    victim = Crook(crook.application, crook.issuer, crook.made)
    victim.asked = crook.asked
    refused(await victim.come_back(crook.token()), "start again")
    assert "/token" not in crook.issuer.asked, "no code is sent anywhere"


async def test_an_answer_of_another_provider_is_refused(crook: Crook) -> None:
    refused(await crook.come_back(crook.token(), iss="https://other.example.com"), "another provider")
    identity = crook.application.server.identity
    wanted = NewProvider(name="Other", issuer=crook.issuer.url, client_id="crew", is_enabled=True)
    other = await providers.create(identity.db, identity.keys, identity.sso.trust, manager(crook.application), wanted)
    await crook.begin()
    crook.made = other
    refused(await crook.come_back(crook.token()), "start again")


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"nonce": "of another login"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"aud": "another client"}, "another client"),
        ({"aud": ["crew", "another client"]}, "azp"),
        ({"azp": "another client"}, "azp"),
        ({"exp": int(time.time()) - 3600}, "expired"),
        ({"exp": None}, "no time of expiry"),
        ({"iat": int(time.time()) + 3600}, "ahead of"),
        ({"iss": "https://other.example.com"}, "another issuer"),
        ({"sub": None}, "sub"),
        ({"sub": "x" * 300}, "sub"),
        ({"events": {"http://schemas.openid.net/event/backchannel-logout": {}}}, "not an ID token"),
    ],
)
async def test_a_token_with_a_wrong_claim_is_refused(crook: Crook, claims: dict[str, Any], words: str) -> None:
    refused(await crook.come_back(crook.token(**claims)), words)


async def test_a_token_that_nobody_signed_is_refused(crook: Crook) -> None:
    claims = {
        "iss": crook.issuer.url,
        "sub": "m1",
        "aud": "crew",
        "exp": int(time.time()) + 300,
        "nonce": crook.asked["nonce"],
    }
    public = OctKey.import_key(json.dumps(crook.issuer.keys[0]).encode())
    confused = jwt.encode({"alg": "HS256", "kid": "one"}, claims, public, ["HS256"])
    parts = ({"alg": "none", "kid": "one"}, claims)
    unsigned = (
        ".".join(base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts) + "."
    )
    foreign = crook.issuer.sign(claims, key=new_key("one"))
    for token, words in ((confused, "algorithm"), (unsigned, "algorithm"), (foreign, "signature"), ("x", "token")):
        refused(await crook.come_back(token), words)
        await crook.begin()
        claims["nonce"] = crook.asked["nonce"]


async def test_a_name_or_an_address_of_e_mail_makes_nobody_another_person(crook: Crook) -> None:
    answer = await crook.come_back(crook.token(preferred_username="admin", email="admin@example.com"))
    assert answer.status_code == 303
    users = await crook.application.server.db.read(lambda tx: store.linked(tx, crook.made.id, "", 10))
    assert [each.user for each in users] == ["admin-2"]


async def test_no_provider_lets_in_an_administrator_of_the_server_unless_they_trust_it(crook: Crook) -> None:
    server, who = crook.application.server, manager(crook.application)
    await server.db.write(lambda tx: providers.link(tx, who, crook.made.id, "m1", "admin"))
    refused(await crook.come_back(crook.token()), "of the server log in with a password")
    owner = await crook.application.person("olga", "owner")
    there = msgspec.structs.replace(owner.principal, credential="session")
    change, sso = ProviderChange(is_trusted=True), server.identity.sso
    with pytest.raises(Forbidden):
        await providers.change(server.db, server.keys, sso.trust, there, crook.made.id, change)
    await providers.change(server.db, server.keys, sso.trust, who, crook.made.id, change)
    await crook.begin()
    assert (await crook.come_back(crook.token())).status_code == 303
    with pytest.raises(Forbidden):  # what is trusted now is not theirs to change any more
        await providers.change(server.db, server.keys, sso.trust, there, crook.made.id, ProviderChange(client_id="x"))


async def test_a_person_with_a_role_elsewhere_is_not_let_in_and_is_thrown_out(crook: Crook) -> None:
    assert (await crook.come_back(crook.token())).status_code == 303
    assert (await crook.browser.get("/dashboard/account")).status_code == 200
    db, admin = crook.application.server.db, crook.application.admin
    second = (await admin.made("/api/v1/organizations", {"name": "second"}))["id"]
    answer = await admin.post(
        "/api/v1/roles", json={"principal": "mallory", "role": "owner"}, headers={"Terracrew-Organization": second}
    )
    assert answer.status_code == 201, answer.text
    assert (await crook.browser.get("/dashboard/account")).status_code == 303, "the session has ended"
    crook.browser = visitor(crook.application)
    await crook.begin()
    refused(await crook.come_back(crook.token()), "several organizations")
    user = await db.read(lambda tx: people_store.user(tx, "mallory"))
    assert user.organization_id == crook.application.server.organization_id


async def test_owners_of_another_organization_link_nobody_of_ours(crook: Crook) -> None:
    db = crook.application.server.db
    foreign = await crook.application.person("olga@second", "owner", organization="second")
    there = msgspec.structs.replace(foreign.principal, credential="session")
    made = await db.write(lambda tx: sign_on_rows.insert_provider(tx, there.organization_id or "", "Theirs"))
    with pytest.raises(Exception, match="there is no user 'admin'"):
        await db.write(lambda tx: providers.link(tx, there, made.id, "m1", "admin"))
    with pytest.raises(Exception, match="there is no provider"):
        await db.read(lambda tx: providers.show(tx, there, crook.made.id, crook.application.server.identity.sso.trust))


async def test_an_api_token_manages_no_provider(crook: Crook) -> None:
    words = await crook.application.admin.refused(
        "PATCH", f"/api/v1/identity-providers/{crook.made.id}", 403, json={"is_enabled": False}
    )
    assert "an API token cannot manage single sign-on" in words


@pytest.mark.feature("P1.local")
async def test_a_local_administrator_gets_in_although_single_sign_on_is_required(crook: Crook) -> None:
    db, who, guard = crook.application.server.db, manager(crook.application), crook.application.server.identity
    with pytest.raises(Conflict, match="could log in"):
        await db.write(lambda tx: policy.change(tx, who, LoginPolicy(True)))
    link = await people.make_link(db, "admin")
    await people.redeem_link(guard, link, "192.0.2.1", "correct horse battery")
    other = await crook.application.person("grace", "owner", "")
    link = await people.make_link(db, "grace")
    await people.redeem_link(guard, link, "192.0.2.1", "correct horse battery")
    operator = await people.make_link(db, (await crook.application.person("otto", "operator")).principal.id)
    await db.write(lambda tx: policy.change(tx, who, LoginPolicy(True)))
    browser = visitor(crook.application)
    for name, status in (("admin", 303), ("grace", 303)):
        answer = await browser.submit("/login", name=name, password="correct horse battery")
        assert answer.status_code == status, answer.text
    answer = await browser.submit(
        f"/login/link/{operator}", password="correct horse battery", again="correct horse battery"
    )
    assert "single sign-on" in answer.text

    async def only_by_rule(tx: Tx) -> None:
        granted = await role_store.roles_of_source(tx, [other.principal.id], "")
        await role_store.unbind_roles(tx, granted)
        await role_store.bind_roles(
            tx, [replace(each, id=ids.new("rol"), role=Role.OWNER, source=crook.made.id) for each in granted]
        )

    await db.write(only_by_rule)
    answer = await visitor(crook.application).submit("/login", name="grace", password="correct horse battery")
    assert (answer.status_code, "single sign-on" in answer.text) == (401, True), "a role by a rule makes nobody local"


async def test_a_session_without_a_refresh_token_is_short(crook: Crook) -> None:
    assert (await crook.come_back(crook.token())).status_code == 303
    db = crook.application.server.db
    found = await db.read(lambda tx: tx.one("SELECT expires_at - created_at AS seconds FROM sessions"))
    assert found is not None
    assert 0 < found["seconds"] <= 12 * 3600 < sessions.SESSION_SECONDS
