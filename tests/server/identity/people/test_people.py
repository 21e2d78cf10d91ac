"""The first person gets in by a one-time link, and everybody after that by a password that cannot be guessed."""

import asyncio
import threading
import time

import pytest

from terracrew.api.access import Role
from terracrew.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    RateLimited,
    TerracrewError,
    Unauthenticated,
    Unavailable,
)
from terracrew.server.db import Database
from terracrew.server.identity.access import users
from terracrew.server.identity.limits import ADDRESS, GUESSES
from terracrew.server.identity.people import devices, logins, passwords, service, sessions
from terracrew.server.identity.people.sessions import Session
from terracrew.server.maintenance.local_token import first_start
from terracrew.server.principals.authorize import Verb, organization, require
from terracrew.server.principals.model import SYSTEM, Principal
from terracrew.server.secrets import credentials
from tests.builders.clock import ShiftedClock
from tests.server.identity.identity_server import URL, IdentityServer

PASSWORD = "a long enough one"


async def test_the_first_start_makes_one_administrator_and_a_link_and_no_password(database: Database) -> None:
    links = await asyncio.gather(*[first_start(database) for _ in range(3)])
    assert [link is not None for link in links].count(True) == 1
    users = await database.read(lambda tx: tx.all("SELECT * FROM users"))
    assert [(user["name"], bool(user["is_system_admin"]), user["password_hash"]) for user in users] == [
        ("admin", True, None)
    ]
    root = await database.read(
        lambda tx: tx.all("SELECT organizations.name, path FROM groups JOIN organizations ON true")
    )
    assert [dict(row) for row in root] == [{"name": "default", "path": ""}]
    assert await first_start(database) is None


async def test_a_link_logs_in_once_and_sets_the_password(server: IdentityServer) -> None:
    link = await first_start(server.db)
    assert link is not None
    assert service.link_url(URL + "/", link) == f"{URL}/login/link/{link}"
    assert (await service.link_owner(server.identity, link, "a")).name == "admin"
    assert (await service.link_owner(server.identity, link, "a")).name == "admin", "looking does not use it up"
    session = await service.redeem_link(server.identity, link, "a", PASSWORD)
    who = await sessions.principal(server.db, session.token)
    assert who is not None
    assert who.is_system_admin
    await require(server.db, who, Verb.SERVER_ADMIN, organization(None))
    for _ in range(2):
        with pytest.raises(Unauthenticated, match="used up"):
            await service.redeem_link(server.identity, link, "a", "another password")
    assert await logins.login(server.identity, "Admin", PASSWORD, "a")


async def test_of_many_who_use_one_link_at_once_one_gets_in(server: IdentityServer) -> None:
    link = await first_start(server.db)
    assert link is not None
    tries = [service.redeem_link(server.identity, link, f"{n}") for n in range(10)]
    results = await asyncio.gather(*tries, return_exceptions=True)
    assert [isinstance(result, Unauthenticated) for result in results].count(False) == 1


async def test_a_bad_password_does_not_use_the_link_up(server: IdentityServer) -> None:
    link = await first_start(server.db)
    assert link is not None
    with pytest.raises(Invalid):
        await service.redeem_link(server.identity, link, "a", "short")
    assert await service.redeem_link(server.identity, link, "a", PASSWORD)


async def test_a_new_link_replaces_the_old_one_and_ends_in_time(server: IdentityServer, clock: ShiftedClock) -> None:
    old = await first_start(server.db)
    new, is_replaced = await service.replace_link(server.db, "admin", SYSTEM)
    assert old is not None
    assert is_replaced, "whoever asks is told that the link of the first start no longer works"
    with pytest.raises(Unauthenticated):
        await service.redeem_link(server.identity, old, "a")
    clock.advance(8 * 86_400)
    with pytest.raises(Unauthenticated):
        await service.redeem_link(server.identity, new, "a")
    assert (await service.replace_link(server.db, "admin", SYSTEM))[1] is False, "the one before had expired"
    with pytest.raises(NotFound):
        await service.make_link(server.db, "nobody")


async def test_links_cannot_be_guessed_for_long(server: IdentityServer) -> None:
    for _ in range(ADDRESS.failures):
        with pytest.raises(Unauthenticated):
            await service.link_owner(server.identity, credentials.new("tcl").text, "a")
    with pytest.raises(RateLimited):
        await service.link_owner(server.identity, credentials.new("tcl").text, "a")
    assert await service.link_owner(
        server.identity, await service.make_link(server.db, (await server.user("x")).id), "a"
    )


async def with_password(server: IdentityServer, name: str = "vera") -> None:
    user = await server.user(name)
    await service.redeem_link(server.identity, await service.make_link(server.db, user.id), "a", PASSWORD)


async def logged_in(server: IdentityServer) -> tuple[Session, Principal]:
    session = await logins.login(server.identity, "vera", PASSWORD, "a")
    who = await sessions.principal(server.db, session.token)
    assert who is not None
    return session, who


async def test_a_wrong_name_and_a_wrong_password_get_the_same_answer(server: IdentityServer) -> None:
    await with_password(server)
    await server.user("without-password")
    answers: set[str] = set()
    for name, password in (
        ("vera", "wrong"),
        ("nobody", PASSWORD),
        ("without-password", ""),
        ("", ""),
        ("\x00", "\x00"),
    ):
        with pytest.raises(Unauthenticated) as error:
            await logins.login(server.identity, name, password, "a")
        answers.add(str(error.value))
    assert len(answers) == 1


async def guess(server: IdentityServer, name: str, address: str, device: str | None = None) -> None:
    with pytest.raises(Unauthenticated):
        await logins.login(server.identity, name, "wrong", address, device)


async def test_of_60_guesses_at_once_10_are_evaluated(server: IdentityServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """60 of 60 concurrent guesses were evaluated, because a failure was counted only after its password was hashed."""
    await with_password(server)
    evaluated = 0
    matches = passwords.matches

    async def counted(password: str, password_hash: str | None) -> bool:
        nonlocal evaluated
        evaluated += 1
        return await matches(password, password_hash)

    monkeypatch.setattr(passwords, "matches", counted)
    guesses = [logins.login(server.identity, "vera", f"guess {number}", "cafe") for number in range(60)]
    results = await asyncio.gather(*guesses, return_exceptions=True)
    assert [type(result) for result in results].count(Unauthenticated) == GUESSES.failures
    assert [type(result) for result in results].count(RateLimited) == 60 - GUESSES.failures
    assert evaluated == GUESSES.failures


async def test_the_right_password_is_never_counted(server: IdentityServer) -> None:
    await with_password(server)
    for _ in range(GUESSES.failures + 2):
        await logins.login(server.identity, "vera", PASSWORD, "home")
    for _ in range(GUESSES.failures - 1):
        await guess(server, "vera", "home")
    for _ in range(3):
        assert await logins.login(server.identity, "vera", PASSWORD, "home")


async def test_wrong_guesses_for_one_name_keep_nobody_else_out(server: IdentityServer) -> None:
    """Ten wrong guesses behind a NAT locked everybody behind it out, with the right password too."""
    await with_password(server)
    await with_password(server, "paul")
    for _ in range(GUESSES.failures):
        await guess(server, "VERA", "cafe")
    with pytest.raises(RateLimited) as error:
        await logins.login(server.identity, "vera", PASSWORD, "cafe")
    assert error.value.details["retry_after"] > 0
    assert await logins.login(server.identity, "paul", PASSWORD, "cafe"), "another person at the same address"
    assert await logins.login(server.identity, "vera", PASSWORD, "home"), "the same person elsewhere"


async def test_a_browser_that_was_used_before_is_let_in_at_the_limit(server: IdentityServer) -> None:
    await with_password(server)
    now = time.time()
    known, foreign = devices.new(server.identity.keys, "vera", now), devices.new(server.identity.keys, "paul", now)
    for _ in range(GUESSES.failures):
        await guess(server, "vera", "cafe")
    assert await logins.login(server.identity, "vera", PASSWORD, "cafe", known)
    expired = devices.new(server.identity.keys, "vera", now - devices.LIFETIME_SECONDS - 1)
    for cookie in (foreign, expired, known[:-4] + "AAAA", "", "%", "x" * 5000):
        with pytest.raises(RateLimited):
            await logins.login(server.identity, "vera", PASSWORD, "cafe", cookie)
    for _ in range(GUESSES.failures):
        await guess(server, "vera", "cafe", known)
    with pytest.raises(RateLimited):
        await logins.login(server.identity, "vera", PASSWORD, "cafe", known)


async def test_guesses_for_many_names_are_limited_by_their_network(server: IdentityServer) -> None:
    for number in range(ADDRESS.failures):
        await guess(server, f"x{number}", f"2001:db8::{number:x}")
    with pytest.raises(RateLimited):
        await logins.login(server.identity, "y", "wrong", "2001:db8::ffff:1")
    await guess(server, "y", "2001:db8:0:1::1")


async def test_only_so_many_passwords_wait_for_their_turn(
    server: IdentityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_password(server)
    monkeypatch.setattr(passwords, "MAX_PENDING_HASHES", 5)
    gate, verify = threading.Event(), passwords.verify

    def verify_later(password: str, password_hash: str) -> bool:
        return gate.wait(30) and verify(password, password_hash)

    monkeypatch.setattr(passwords, "verify", verify_later)
    guesses = {
        asyncio.create_task(logins.login(server.identity, "vera", "wrong", f"bot {number}")) for number in range(50)
    }
    waiting = guesses
    while len(waiting) > 5:
        _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    gate.set()
    results = await asyncio.gather(*guesses, return_exceptions=True)
    refused = [result for result in results if isinstance(result, Unavailable)]
    assert ([type(result) for result in results].count(Unauthenticated), len(refused)) == (5, 45)
    assert refused[0].details["retry_after"] > 0
    assert await logins.login(server.identity, "vera", PASSWORD, "home")


async def test_logging_out_ends_this_session_and_no_other(server: IdentityServer) -> None:
    await with_password(server)
    here, there = [await logins.login(server.identity, "vera", PASSWORD, "a") for _ in range(2)]
    await logins.logout(server.db, here.token)
    assert await sessions.principal(server.db, here.token) is None
    assert await sessions.principal(server.db, there.token) is not None
    await logins.logout(server.db, here.token)
    actions = await server.db.read(lambda tx: tx.all("SELECT action FROM audit WHERE target_id = :id", id=here.id))
    assert sorted(row["action"] for row in actions) == ["session.end", "session.start"]


async def test_a_new_password_needs_the_old_one_and_ends_every_other_session_and_every_token(
    server: IdentityServer,
) -> None:
    """Tokens that had leaked survived a change of password."""
    await with_password(server)
    here, there = [await logins.login(server.identity, "vera", PASSWORD, "a") for _ in range(2)]
    who = await sessions.principal(server.db, here.token)
    assert who is not None
    leaked = await server.token(who)
    for current in (None, "wrong"):
        with pytest.raises(Forbidden):
            await logins.set_password(server.identity, who, "the next password", current)
    assert await sessions.principal(server.db, there.token) is not None
    changed = await logins.set_password(server.identity, who, "the next password", PASSWORD)
    assert (changed.sessions_ended, changed.tokens_revoked) == (2, 1), "the session of the link has ended, too"
    assert await sessions.principal(server.db, here.token) is not None
    assert await sessions.principal(server.db, there.token) is None
    async with server.client(leaked) as client:
        assert (await client.get("/api/v1/me")).status_code == 401
    with pytest.raises(Unauthenticated):
        await logins.login(server.identity, "vera", PASSWORD, "a")
    assert await logins.login(server.identity, "vera", "the next password", "a")


async def test_a_link_that_resets_a_password_ends_everything_that_was_there(server: IdentityServer) -> None:
    await with_password(server)
    session, who = await logged_in(server)
    leaked = await server.token(who)
    await service.redeem_link(server.identity, await service.make_link(server.db, "vera"), "a", "the next password")
    assert await sessions.principal(server.db, session.token) is None
    async with server.client(leaked) as client:
        assert (await client.get("/api/v1/me")).status_code == 401


async def test_guesses_of_the_current_password_are_limited(server: IdentityServer) -> None:
    await with_password(server)
    _, who = await logged_in(server)
    guesses = [logins.set_password(server.identity, who, "the next password", f"guess {n}") for n in range(30)]
    results = await asyncio.gather(*guesses, return_exceptions=True)
    assert [type(result) for result in results].count(Forbidden) == GUESSES.failures


async def test_a_change_of_password_that_was_not_evaluated_is_not_counted(
    server: IdentityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever tried to change a password while the queue of hashes was full used up their guesses."""
    await with_password(server)
    _, who = await logged_in(server)
    with monkeypatch.context() as full:
        full.setattr(passwords, "MAX_PENDING_HASHES", 0)
        for _ in range(GUESSES.failures):
            with pytest.raises(Unavailable):
                await logins.set_password(server.identity, who, "the next password", PASSWORD)
    assert await logins.set_password(server.identity, who, "the next password", PASSWORD)


async def test_the_link_of_the_first_start_is_short_lived_and_made_anew_until_a_password_is_set(
    server: IdentityServer, clock: ShiftedClock
) -> None:
    first = await first_start(server.db)
    assert first is not None
    clock.advance(3601)
    with pytest.raises(Unauthenticated):
        await service.link_owner(server.identity, first, "a")
    second = await service.renew_first_link(server.db)
    assert second is not None
    await service.redeem_link(server.identity, second, "a", PASSWORD)
    assert await service.renew_first_link(server.db) is None


async def test_a_disabled_user_is_out_at_once_and_an_owner_cannot_disable_an_administrator(
    server: IdentityServer,
) -> None:
    await with_password(server)
    owner, admin = await server.user("olga", Role.OWNER), await server.user("root", is_system_admin=True)
    session, vera = await logged_in(server)
    await server.db.write(lambda tx: users.set_disabled(tx, owner, vera.id, True))
    assert await sessions.principal(server.db, session.token) is None
    with pytest.raises(Unauthenticated):
        await logins.login(server.identity, "vera", PASSWORD, "a")
    with pytest.raises(Conflict):
        await service.make_link(server.db, "vera")
    with pytest.raises(Forbidden):
        await server.db.write(lambda tx: users.set_disabled(tx, owner, admin.id, True))
    foreigner = await server.user("eve", Role.OWNER, organization_id=await server.organization("other"))
    with pytest.raises(NotFound):
        await server.db.write(lambda tx: users.set_disabled(tx, foreigner, vera.id, False))


async def test_only_an_administrator_makes_administrators(server: IdentityServer) -> None:
    owner, admin = await server.user("olga", Role.OWNER), await server.user("root", is_system_admin=True)
    with pytest.raises(Forbidden):
        await service.create_user(server.db, owner, "mole", True)
    user, link = await service.create_user(server.db, owner, "ann@crew.test", False)
    assert user.organization_id == owner.organization_id
    assert await service.redeem_link(server.identity, link, "a")
    assert (await service.create_user(server.db, admin, "second", True))[0].is_system_admin
    with pytest.raises(Conflict, match="already"):
        await service.create_user(server.db, owner, "ann@crew.test", False)


@pytest.mark.parametrize("name", ["", "Ann", "usr_x", "a b", "../x", "a\x00", "é", "x" * 101, "me", "system"])
async def test_a_name_that_could_be_taken_for_something_else_is_refused(server: IdentityServer, name: str) -> None:
    with pytest.raises(TerracrewError):
        await service.create_user(server.db, await server.user("olga", Role.OWNER), name, False)
