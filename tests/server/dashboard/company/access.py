"""Fills the pages about access: people, roles, service accounts, tokens, a second organization, and the audit of all that."""

from typing import Any

import httpx

from terracrew.server.identity.people import service, sessions, store
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
    return {"user": people["priya"], "account_id": account["id"], "organization": second["id"]}
