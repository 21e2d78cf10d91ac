"""Fills the pages about access: people, roles, service accounts, tokens, a second organization, and the audit of all that."""

from typing import Any

import httpx
import msgspec

from terracrew.api.access import Role
from terracrew.api.provisioning import AdoptPerson, NewProvisioner
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import service, sessions, store
from terracrew.server.identity.provisioning import owners
from terracrew.server.identity.provisioning import service as provisioning
from terracrew.server.identity.provisioning.model import GroupData, PersonData
from terracrew.server.identity.sso import store as sso
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import reads as groups
from tests.builders import sign_on_rows
from tests.server.dashboard.company.stage import Stage

LONG_NAME = "maximiliane.von-schwarzenberg-lindenbaum@operations.example.com"


async def access(stage: Stage) -> dict[str, str]:
    """Make everything through the API, as its users do. Return ids, by the noun that they belong to."""
    admin = sessions.person(await stage.server.db.read(lambda tx: store.user(tx, "admin")), None)
    await service.create_token(stage.server.db, admin, "admin.token 2026-11-15 17:50", 6)
    _, token = await service.create_token(stage.server.db, admin, "automation", None)
    async with httpx.AsyncClient(
        base_url=f"{stage.url}/api/v1", headers={"Authorization": f"Bearer {token.text}"}
    ) as api:

        async def made(path: str, /, **body: Any) -> Any:
            answer = await api.post(path, json=body)
            assert answer.status_code == 201, answer.text
            return answer.json()

        people = {name: (await made("/users", name=name))["user"]["id"] for name in ("priya", "elena", LONG_NAME)}
        account = await made("/service-accounts", name="ci-ledger", group="payments/prod")
        await made(f"/service-accounts/{account['id']}/secrets", expires_in_days=6)
        await made(f"/service-accounts/{account['id']}/secrets")
        claims = {"sub": "project_path:acme/ledger:ref_type:branch:ref:main", "namespace_path": "acme"}
        await made(
            f"/service-accounts/{account['id']}/trust-policies", issuer="https://gitlab.example.com", claims=claims
        )
        for principal, role, path in (
            ("priya", "approver", "payments"),
            ("priya", "viewer", "payments/prod"),
            ("elena", "operator", ""),
            (LONG_NAME, "owner", "payments/prod"),
            (account["id"], "operator", "payments/prod"),
        ):
            await made("/roles", principal=principal, role=role, path=path, expires_in_days=20)
        second = await made("/organizations", name="second")
        answer = await api.patch("/groups/payments", json={"max_running_jobs": 2, "max_destroy": 5})
        assert answer.status_code == 200, answer.text
        entra = await made("/service-accounts", name="entra")
    provider = await stage.server.db.write(lambda tx: _sign_on(tx, stage.server.organization_id, people))
    owner = msgspec.structs.replace(admin, credential="session")
    await stage.server.db.write(lambda tx: _provision(tx, owner, entra["id"], provider))
    return {"provider": provider, "user": people["priya"], "account_id": account["id"], "organization": second["id"]}


async def _provision(tx: Tx, owner: Principal, account_id: str, provider_id: str) -> None:
    """An identity provider that manages two people and a group."""
    await owners.choose(tx, owner, NewProvisioner(account_id, provider_id), "")
    await owners.adopt(tx, owner, AdoptPerson(LONG_NAME, external_id="0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef"))
    machine = Principal("service_account", account_id, "entra", owner.organization_id)
    made = await provisioning.create_person(tx, machine, PersonData("sam@example.com", is_active=False))
    await provisioning.create_group(tx, machine, GroupData("platform-admins", members=(made.person.user_id,)))


async def _sign_on(tx: Tx, organization_id: str, people: dict[str, str]) -> str:
    """A provider with rules, people whom it knows, and logins of which one was refused and one lacks its groups."""
    made = await sign_on_rows.insert_provider(tx, organization_id)
    root = await groups.id_at(tx, organization_id, "")
    assert root is not None
    await sign_on_rows.insert_rule(tx, made.id, root, "platform-*", Role.OWNER, is_pattern=True)
    await sign_on_rows.insert_rule(tx, made.id, root, "payments", Role.VIEWER, "department")
    claims = sign_on_rows.CLAIMS
    await sign_on_rows.log_in(tx, made.id, people["priya"], claims)
    many = {**claims, "sub": "00u9", "_claim_names": {"groups": "src1"}, "groups": None, "department": "it"}
    await sign_on_rows.log_in(tx, made.id, people[LONG_NAME], many)
    reason = f"{made.name} knows you, but no user here is linked to you: ask an administrator of the organization"
    await sso.insert_login(tx, made.id, "00u7", None, "refused", reason, {**claims, "sub": "00u7"}, "192.0.2.8")
    return made.id
