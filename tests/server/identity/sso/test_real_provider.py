"""Logins through a real provider's own login page, and the roles that follow from the groups that it sends."""

import pytest

from terracrew.api.access import Role
from tests.server.identity.sso.conftest import ADA, GRACE, PEOPLE, SignOn
from tests.server.identity.sso.provider_logins import add_rule, roles_of


@pytest.mark.feature("P1.login")
async def test_a_first_login_makes_a_user_with_the_roles_that_follow_from_the_groups(sign_on: SignOn) -> None:
    await sign_on.connect()
    await sign_on.application.admin.made("/api/v1/groups", {"path": "data"})
    await add_rule(sign_on, "platform", Role.OWNER)
    await add_rule(sign_on, "team-*-ops", Role.OPERATOR, "data", is_pattern=True)
    await add_rule(sign_on, "staff", Role.VIEWER)
    ada, grace = await sign_on.log_in(ADA), await sign_on.log_in(GRACE)
    assert "ada.lovelace" in await ada.see("/dashboard/account")
    assert await roles_of(sign_on, "ada.lovelace") == {("owner", "")}
    assert await roles_of(sign_on, "grace") == {("viewer", ""), ("operator", "data")}
    assert "data" in await grace.see("/dashboard/modules")
    sign_on.provider.change(PEOPLE | {GRACE: {"preferred_username": "grace", "groups": ["staff"]}})
    await sign_on.log_in(GRACE)
    assert await roles_of(sign_on, "grace") == {("viewer", "")}, "what a rule gave, it takes away"
