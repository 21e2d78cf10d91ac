"""Trust policies are managed by whoever may give the account secrets, and by nobody else."""

import asyncio

import pytest

from terracrew.api.access import Role
from terracrew.errors import Conflict, Invalid
from terracrew.server.identity.federation import rules, store
from tests.server.identity.federation.conftest import Federation

pytestmark = pytest.mark.feature("A3.policies")


async def test_an_account_has_at_most_ten_policies(federation: Federation) -> None:
    made = await asyncio.gather(
        *(federation.trust(claims={"sub": f"robot-{number}"}) for number in range(rules.MAX_POLICIES + 4)),
        return_exceptions=True,
    )
    assert all(isinstance(each, Conflict) for each in made if isinstance(each, BaseException))
    while len(federation.policies) < rules.MAX_POLICIES:  # two at the same moment: one of them is told to try again
        await federation.trust(claims={"sub": "again"})
    with pytest.raises(Conflict, match="has 10 trust policies: remove one"):
        await federation.trust()
    await federation.remove(federation.policies[3])
    assert (await federation.trust()).claims == {"sub": "robot"}
    listed = await federation.server.db.read(lambda tx: store.policies(tx, federation.account_id))
    assert len(listed) == rules.MAX_POLICIES


async def test_a_wrong_policy_is_refused(federation: Federation) -> None:
    for wrong in (
        {"claims": {"sub": "*"}},
        {"claims": {}},
        {"issuer": "http://elsewhere.example"},
        {"claims": {"aud": "*"}},
    ):
        with pytest.raises(Invalid):
            await federation.trust(**wrong)


async def test_policies_are_managed_by_the_api_and_audited(federation: Federation) -> None:
    server = federation.server
    path = f"/api/v1/service-accounts/{federation.account_id}/trust-policies"
    body = {"issuer": federation.issuer.url, "claims": {"sub": "robot"}, "expires_in_days": 30}
    async with server.client(await server.token(federation.owner)) as owner:
        made = await owner.post(path, json=body)
        assert made.status_code == 201, made.text
        policy = made.json()
        assert (policy["audience"], policy["is_reusable"]) == ("http://crew.test", False)
        assert (await owner.get(path)).json()["items"] == [policy]
        assert (await owner.post(path, json=body | {"claims": {"sub": "*"}})).status_code == 400
        assert (await owner.post(path, json=body | {"expires_in_days": 0})).status_code == 400
        assert (await owner.delete(f"{path}/{policy['id']}")).status_code == 204
        assert (await owner.delete(f"{path}/{policy['id']}")).status_code == 404
        actions = [entry["action"] for entry in (await owner.get("/api/v1/audit")).json()["items"]]
    assert {"service_account.add_trust", "service_account.remove_trust"} <= set(actions)


async def test_others_cannot_see_or_change_policies(federation: Federation) -> None:
    server = federation.server
    policy = await federation.trust()
    path = f"/api/v1/service-accounts/{federation.account_id}/trust-policies"
    foreign = await server.organization("elsewhere")
    for who, listed in (
        (await server.user("viewer", Role.VIEWER), 403),
        (await server.user("stranger"), 404),
        (await server.user("other-owner", Role.OWNER, organization_id=foreign), 404),
    ):
        async with server.client(await server.token(who)) as client:
            assert (await client.get(path)).status_code in (listed, 403, 404)
            body = {"issuer": federation.issuer.url, "claims": {"sub": "mine"}}
            assert (await client.post(path, json=body)).status_code in (403, 404)
            assert (await client.delete(f"{path}/{policy.id}")).status_code in (403, 404)
    assert [each.id for each in await server.db.read(lambda tx: store.policies(tx, federation.account_id))] == [
        policy.id
    ]


async def test_a_policy_that_has_expired_counts_no_more_and_is_removed(federation: Federation) -> None:
    await federation.trust(expires_in_days=1)
    assert await federation.status(federation.issuer.token()) == 200
    assert await federation.server.db.write(lambda tx: store.prune_policies(tx, tx.now + 2 * 86400, 500)) == 1
    federation.server.identity.tokens.forget(federation.account_id)
    assert await federation.status(federation.issuer.token(jti="2")) == 401
