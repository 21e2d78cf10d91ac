"""Changes of rules, rights and users while people log in. Invariants:

- The roles of a person are those that follow from the rules that were committed last, or the person is known to be behind.
- No session of a provider that is not trusted stays open for somebody with rights beyond its organization.
- No session stays for a user who was disabled, so that none comes back when the user does.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from terracrew.api.access import Role, UserChange
from terracrew.api.sso import NewRule
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_store
from terracrew.server.identity.access import users as access
from terracrew.server.identity.people import acting
from terracrew.server.identity.people import store as people
from terracrew.server.identity.sso import arrivals, mapping, providers, store
from terracrew.server.identity.sso.model import StoredProvider, Verified
from terracrew.server.tree.groups.service import ensure_organization
from tests.builders import sign_on_rows
from tests.server.application import Application
from tests.server.identity.sso.provider_logins import manager

pytestmark = [pytest.mark.feature("P1.rules"), pytest.mark.feature("P1.attacks")]
GROUPS = ("platform", "staff", "data")
PEOPLE = 4


class Company:
    def __init__(self, application: Application, provider: StoredProvider) -> None:
        self.application, self.provider = application, provider
        self.db = application.server.db

    async def arrive(self, tx: Tx, subject: str, groups: tuple[str, ...] = GROUPS) -> None:
        given: dict[str, Any] = {"sub": subject, "preferred_username": subject, "groups": list(groups)}
        verified = Verified(subject, given, "", "", None)
        await arrivals.arrive(tx, self.application.server.keys, self.provider.id, verified, "192.0.2.1")

    async def wrong(self, tx: Tx) -> list[str]:
        """People whose roles do not follow from the rules, although they count as evaluated."""
        provider = await store.provider(tx, self.provider.id)
        assert provider is not None
        rules, found = await store.rules(tx, provider.id), list[str]()
        for identity in await store.latest_identities(tx, provider.id, 100):
            person = mapping.attributes(identity.claims, provider.groups_claim)
            wanted = {(each.role, each.path) for each in mapping.evaluate(rules, person).roles}
            held = await role_store.roles_of_source(tx, [identity.user_id], provider.id)
            is_current = identity.evaluated_version == provider.rules_version
            if is_current and wanted != {(each.role, each.path) for each in held}:
                found.append(identity.subject)
        return found

    def change_rules(self, value: str, role: Role) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            who = manager(self.application)
            made = await providers.add_rule(self.db, who, self.provider.id, NewRule(value, role))
            if value != GROUPS[0]:
                await providers.remove_rule(self.db, who, self.provider.id, made.id)

        return work


@pytest.fixture
async def company(application: Application) -> Company:
    organization_id = application.server.organization_id
    made = await application.server.db.write(lambda tx: sign_on_rows.insert_provider(tx, organization_id))
    return Company(application, made)


async def test_roles_follow_the_rules_that_were_committed_last(company: Company) -> None:
    db = company.db
    for number in range(3):
        logins = [
            db.write(lambda tx, one=f"p{one}", had=GROUPS[: (one + number) % 4]: company.arrive(tx, one, had))
            for one in range(PEOPLE)
        ]
        changes = [company.change_rules(value, role)() for value, role in zip(GROUPS, Role, strict=False)]
        await asyncio.gather(*logins, *changes, providers.evaluate_stale(db))
        assert await db.read(company.wrong) == []
    assert await providers.evaluate_stale(db) == 0, "each change has evaluated everybody"
    roles = await application_roles(company)
    assert roles["p0"] == {"viewer"}, "the one rule that stayed"


async def application_roles(company: Company) -> dict[str, set[str]]:
    async def read(tx: Tx) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for identity in await store.latest_identities(tx, company.provider.id, 100):
            held = await role_store.roles_of_source(tx, [identity.user_id], company.provider.id)
            found[identity.subject] = {each.role.value for each in held}
        return found

    return await company.db.read(read)


@pytest.mark.parametrize("database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
@pytest.mark.parametrize("change", ["rights", "disabled"])
async def test_no_session_slips_in_while_it_becomes_forbidden(company: Company, change: str) -> None:
    """The login has looked at the rights, and its session is not committed yet, when they change."""
    db = company.db
    await db.write(lambda tx: company.arrive(tx, "p"))
    user = await db.read(lambda tx: people.user(tx, "p"))
    await db.write(lambda tx: people.delete_sessions_of(tx, user.id))
    second = await db.write(lambda tx: ensure_organization(tx, "second"))
    arrived = asyncio.Event()

    async def log_in(tx: Tx) -> None:
        await company.arrive(tx, "p")
        arrived.set()
        await asyncio.wait(
            {changing}, timeout=0.3
        )  # it does what it can meanwhile, and then has to wait for this login

    async def grow(tx: Tx) -> None:
        await role_store.bind_role(tx, second.id, "user", user.id, "viewer", "group", "", "test")
        await acting.end_uncovered_logins(tx, user.id)

    async def forbid() -> None:
        await arrived.wait()
        if change == "rights":
            await db.write(grow)
        else:
            await access.change(db, manager(company.application), user.id, UserChange(is_disabled=True))

    changing = asyncio.create_task(forbid())
    await asyncio.gather(db.write(log_in), changing)
    assert (
        await company.application.scalar("SELECT count(*) AS found FROM sessions WHERE user_id = :id", id=user.id) == 0
    )
