"""A token makes nothing that outlives it or may do more than it, and administrators see and end what others have."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from terracrew.api.access import Role
from terracrew.server.identity.people import service, sessions, store
from terracrew.server.principals.model import Principal
from tests.server.identity.identity_server import IdentityServer

ELSEWHERE = "192.0.2.1"


async def token(server: IdentityServer, who: Principal, days: int | None = None) -> str:
    _, secret = await service.create_token(server.db, who, f"for {days} days", days)
    return secret.text


async def post(client: httpx.AsyncClient, path: str, body: Any = None) -> httpx.Response:
    return await client.post(f"/api/v1{path}", json=body or {})


def days_left(answer: httpx.Response) -> float:
    ends = datetime.fromisoformat(answer.json()["expires_at"])
    # The database's clock may be a moment ahead of this process.
    return round((ends - datetime.now(UTC)) / timedelta(days=1), 6)


async def test_a_token_of_one_day_makes_nothing_that_lives_longer(server: IdentityServer) -> None:
    """A token of one day made one without an end and replaced the password of its owner."""
    admin = await server.user("root", is_system_admin=True)
    async with server.client(await token(server, admin, 1)) as client:
        assert (await post(client, "/tokens", {"name": "a", "expires_in_days": 2})).status_code == 403
        made = await post(client, "/tokens", {"name": "a"})
        assert (made.status_code, days_left(made) <= 1) == (201, True)
        account = (await post(client, "/service-accounts", {"name": "ci"})).json()["id"]
        assert (await post(client, f"/service-accounts/{account}/secrets", {"expires_in_days": 2})).status_code == 403
        secret = await post(client, f"/service-accounts/{account}/secrets")
        assert (secret.status_code, days_left(secret) <= 1) == (201, True)
        assert (await post(client, "/users", {"name": "eve"})).status_code == 403
    async with server.client(made.json()["token"]) as client:
        grandchild = await post(client, "/tokens", {"name": "b"})
        assert grandchild.json()["expires_at"] == made.json()["expires_at"], "nor does what it has made"


@pytest.mark.feature("X3.roles")
async def test_a_role_that_a_token_of_one_day_grants_ends_with_the_token(server: IdentityServer) -> None:
    """A leaked token of one day gave its finder's own account a role without an end."""
    admin, owner = await server.user("root", is_system_admin=True), await server.user("olga", Role.OWNER)
    await server.user("eve")
    for who in (admin, owner):
        async with server.client(await token(server, who, 1)) as client:
            wanted = {"principal": "eve", "role": "owner"}
            assert (await post(client, "/roles", wanted | {"expires_in_days": 2})).status_code == 403
            granted = await post(client, "/roles", wanted)
            assert (granted.status_code, days_left(granted) <= 1) == (201, True)
    async with server.client(await token(server, owner)) as client:
        assert (await post(client, "/roles", wanted)).json()["expires_at"] is None


@pytest.mark.feature("X3.roles")
async def test_an_owner_whose_role_ends_gets_no_login_and_no_secret_that_lasts_longer(server: IdentityServer) -> None:
    """Such an owner reset an owner without an end, or added a secret to a service account, and stayed one by that."""
    await server.user("vera", Role.OWNER)
    account, _, _ = await server.account("ci")
    async with server.client(await server.token(await server.user("olga", Role.OWNER))) as client:
        await server.user("guest")
        granted = await post(client, "/roles", {"principal": "guest", "role": "owner", "expires_in_days": 1})
        assert granted.status_code == 201
    guest = await server.db.read(lambda tx: store.user(tx, "guest"))
    async with server.client(await server.local_token(sessions.person(guest, None))) as client:
        refused = await post(client, "/users/vera/reset")
        assert (refused.status_code, "your own role ends" in refused.json()["detail"]) == (403, True)
        assert (await post(client, f"/service-accounts/{account}/secrets", {"expires_in_days": 2})).status_code == 403
        secret = await post(client, f"/service-accounts/{account}/secrets")
        assert (secret.status_code, secret.json()["expires_at"]) == (201, granted.json()["expires_at"])


async def test_the_number_and_the_names_of_a_persons_tokens_are_limited(
    server: IdentityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody who can log in could fill the disk, and put line ends or reversed text into the lists of administrators."""
    async with server.client(await server.token(await server.user("vera"))) as client:
        for name in ("a\nb", "\u202eab", "\x1b[2J", "a\u2028b"):
            assert (await post(client, "/tokens", {"name": name})).status_code == 400, name
        monkeypatch.setattr(service, "MAX_TOKENS", 3)
        statuses = [(await post(client, "/tokens", {"name": f"n{number}"})).status_code for number in range(3)]
        assert statuses == [201, 201, 409]


async def test_a_secret_that_ends_makes_no_secret_that_does_not(server: IdentityServer) -> None:
    owner = await server.user("olga", Role.OWNER)
    async with server.client(await server.token(owner)) as client:
        account = (await post(client, "/service-accounts", {"name": "ci"})).json()["id"]
        await post(client, "/roles", {"principal": account, "role": "owner"})
        secret = (await post(client, f"/service-accounts/{account}/secrets", {"expires_in_days": 1})).json()
    access = (await server.exchange(secret["client_id"], secret["client_secret"])).json()["access_token"]
    async with server.client(access) as client:
        made = await post(client, f"/service-accounts/{account}/secrets")
        assert (made.status_code, made.json()["expires_at"]) == (201, secret["expires_at"])


@pytest.mark.parametrize("days", [1, None])
async def test_no_token_makes_a_login_link_an_administrator_or_a_first_password(
    server: IdentityServer, days: int | None
) -> None:
    admin = await server.user("root", is_system_admin=True)
    await server.user("vera", Role.OWNER)
    async with server.client(await token(server, admin, days)) as client:
        for path, body in (
            ("/me/link", {}),
            ("/users/vera/reset", {}),
            ("/users", {"name": "eve", "is_system_admin": True}),
            ("/me/password", {"new_password": "a long enough one"}),
        ):
            answer = await post(client, path, body)
            assert (path, answer.status_code) == (path, 403)
            assert "log in to the dashboard" in answer.json()["detail"]


async def test_a_token_without_an_end_makes_a_user_and_no_link_to_log_in_with(server: IdentityServer) -> None:
    """An owner's leaked token became an account: who redeemed the link kept the account after the token was revoked."""
    olga = await server.user("olga", Role.OWNER)
    await server.user("vera", Role.VIEWER)
    async with server.client(await token(server, olga)) as client:
        made = await post(client, "/users", {"name": "eve"})
        assert (made.status_code, made.json()["link"]) == (201, None)
        refused = await post(client, "/users/vera/reset")
        assert (refused.status_code, "an API token cannot reset a user" in refused.json()["detail"]) == (403, True)
    assert await server.db.read(lambda tx: tx.all("SELECT * FROM one_time_links")) == []
    async with server.client(await server.local_token(olga)) as client:
        assert "/login/link/" in (await post(client, "/users/eve/reset")).json()["link"]


async def test_a_token_ends_after_90_days_unless_its_owner_says_otherwise(server: IdentityServer) -> None:
    async with server.client(await server.local_token(await server.user("vera"))) as client:
        assert 89.9 < days_left(await post(client, "/tokens", {"name": "default"})) <= 90
        assert 364 < days_left(await post(client, "/tokens", {"name": "a", "expires_in_days": 365})) <= 365
        endless = await post(client, "/tokens", {"name": "b", "expires_in_days": None})
        assert (endless.status_code, endless.json()["expires_at"]) == (201, None)


async def test_the_servers_own_token_counts_like_a_login_on_its_machine_only(server: IdentityServer) -> None:
    admin = await server.user("root", is_system_admin=True)
    own = await server.local_token(admin)
    async with server.client(own) as client:
        assert (await post(client, "/me/link")).status_code == 201
        endless = {"name": "a", "expires_in_days": None}
        assert (await post(client, "/tokens", endless)).json()["expires_at"] is None
    proxied = [{"X-Forwarded-For": ELSEWHERE}, {"X-Forwarded-Proto": "https"}, {"Via": "1.1 edge"}]
    for options in ({"address": ELSEWHERE}, *({"headers": each} for each in proxied)):
        async with server.client(own, **options) as client:
            assert (await client.get("/api/v1/me")).status_code == 200
            assert (await post(client, "/me/link")).status_code == 403


async def test_a_password_is_changed_by_a_token_only_with_the_current_one(server: IdentityServer) -> None:
    vera = await server.user("vera")
    link = await service.make_link(server.db, vera.id)
    await service.redeem_link(server.identity, link, "a", "a long enough one")
    bearer = await token(server, vera)
    body = {"current_password": "a long enough one", "new_password": "the next password"}
    async with server.client(bearer) as client:
        wrong = await post(client, "/me/password", body | {"current_password": "wrong"})
        assert wrong.status_code == 403
        assert (await post(client, "/me/password", body | {"new_password": "short"})).status_code == 400
        answer = await post(client, "/me/password", body)
        assert (answer.status_code, answer.json()) == (200, {"sessions_ended": 1, "tokens_revoked": 1})
        assert (await client.get("/api/v1/me")).status_code == 401, "this token has ended, too"


@pytest.mark.feature("X3.people")
async def test_who_administers_a_person_lists_and_ends_their_sessions_and_tokens(server: IdentityServer) -> None:
    """Nobody could list or revoke another user's tokens."""
    vera, owner = await server.user("vera"), await server.user("olga", Role.OWNER)
    cookie, _ = await server.login(vera)
    leaked = await token(server, vera)
    async with server.client(await server.token(owner)) as client:
        [session] = (await client.get("/api/v1/users/vera/sessions")).json()["items"]
        [listed] = (await client.get(f"/api/v1/users/{vera.id}/tokens")).json()["items"]
        assert leaked not in str(listed)
        assert (await client.delete(f"/api/v1/users/vera/tokens/{listed['id']}")).status_code == 204
        assert (await client.delete(f"/api/v1/users/vera/sessions/{session['id']}")).status_code == 204
        assert (await client.delete(f"/api/v1/users/vera/sessions/{session['id']}")).status_code == 404
    assert (await server.client(leaked).get("/api/v1/me")).status_code == 401
    assert (await server.client(cookies={"terracrew_session": cookie}).get("/api/v1/me")).status_code == 401
    await server.login(vera)
    await server.login(vera)
    async with server.client(await server.token(owner)) as client:
        assert (await client.delete("/api/v1/users/vera/sessions")).json() == {"ended": 2}


async def test_nobody_else_lists_or_ends_them(server: IdentityServer) -> None:
    vera = await server.user("vera")
    await server.login(vera)
    [kept] = (await server.client(await token(server, vera)).get("/api/v1/users/me/tokens")).json()["items"]
    foreign = await server.organization("foreign")
    others = {
        "eve": (await server.user("eve", Role.OWNER, organization_id=foreign), 404),
        "paul": (await server.user("paul", Role.OPERATOR), 403),
    }
    session = (await server.client(await server.token(vera)).get("/api/v1/users/me/sessions")).json()["items"][0]["id"]
    for name, (who, status) in others.items():
        async with server.client(await server.token(who)) as client:
            for method, path in (
                ("GET", "sessions"),
                ("GET", "tokens"),
                ("DELETE", "sessions"),
                ("DELETE", f"sessions/{session}"),
                ("DELETE", f"tokens/{kept['id']}"),
            ):
                answer = await client.request(method, f"/api/v1/users/vera/{path}")
                assert (name, method, path, answer.status_code) == (name, method, path, status)
            if status == 404:
                unknown = await client.get("/api/v1/users/nobody/tokens")
                assert (
                    unknown.json()["detail"].replace("nobody", "vera")
                    == (await client.get("/api/v1/users/vera/tokens")).json()["detail"]
                )
    root, owner = await server.user("root", is_system_admin=True), await server.user("olga", Role.OWNER)
    async with server.client(await server.token(owner)) as client:
        assert (await client.get(f"/api/v1/users/{root.id}/tokens")).status_code == 403
