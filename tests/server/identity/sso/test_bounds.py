"""What one organization can bring costs the others nothing: very many groups, patterns, and large answers of its provider."""

import pytest

from terracrew.api.access import Role
from terracrew.api.sso import DryRunRule, NewRule
from terracrew.errors import Conflict
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import store as people_store
from terracrew.server.identity.sso import insight, mapping, providers, store
from tests.server.application import on_one
from tests.server.identity.sso.crook import Crook
from tests.server.identity.sso.provider_logins import manager

GROUPS = [f"a-group-of-the-company-whose-name-is-rather-long-{number:04d}" for number in range(mapping.MAX_VALUES)]
PEOPLE = 10


@on_one
@pytest.mark.feature("P1.page", "P1.claims")
async def test_very_many_groups_and_patterns_stop_nobody_else(crook: Crook) -> None:
    """Twenty people with a thousand groups each, and two hundred patterns: a page of their logins stopped the server for six seconds."""
    db, who, provider = crook.application.server.db, manager(crook.application), crook.made

    async def fill(tx: Tx) -> None:
        for number in range(providers.MAX_PATTERNS):
            rule, group_id, module_id = await providers.checked_rule(
                tx, who, NewRule(f"*z{number}", Role.VIEWER, "", is_pattern=True)
            )
            await store.insert_rule(tx, provider.id, rule, group_id, module_id, who.id)
        for number in range(PEOPLE):
            user = await people_store.insert_user(tx, provider.organization_id, f"p{number}", is_system_admin=False)
            identity = await store.insert_identity(tx, provider.id, f"p{number}", user.id, who.id)
            await store.save_claims(tx, identity.id, {"groups": GROUPS})
            await store.insert_login(tx, provider.id, f"p{number}", user.id, "in", "", {"groups": GROUPS}, "")

    await db.write(fill)
    seen = await db.read(lambda tx: insight.logins(tx, who, provider.id, "", 100))
    evaluated = insight.MAX_COMPARISONS // (providers.MAX_PATTERNS * len(GROUPS))
    assert [insight.NOT_EVALUATED in each.notes for each in seen] == [False] * evaluated + [True] * (PEOPLE - evaluated)
    tried = await db.read(
        lambda tx: insight.dry_run(
            tx, who, provider.id, DryRunRule("", NewRule("a-*", Role.OWNER, "", is_pattern=True))
        )
    )
    assert 0 < tried.examined < PEOPLE
    assert len(tried.people) == tried.examined
    with pytest.raises(Conflict, match="rules with a pattern"):
        await providers.add_rule(db, who, provider.id, NewRule("b-*", Role.VIEWER, "", is_pattern=True))
    await providers.add_rule(db, who, provider.id, NewRule("b", Role.VIEWER, ""))
