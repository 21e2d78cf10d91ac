"""A server that trusts issuers on loopback, and an issuer."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from terracrew.api.access import NewPolicy, Role, TrustPolicy
from terracrew.server.db import Database
from terracrew.server.identity.access import service as access
from terracrew.server.identity.federation import service
from terracrew.server.principals.model import Principal
from tests.machine import oidc_issuer
from tests.machine.oidc_issuer import Issuer
from tests.server.identity.identity_server import IdentityServer, build

JWT = "urn:ietf:params:oauth:token-type:jwt"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


@dataclass
class Federation:
    server: IdentityServer
    issuer: Issuer
    owner: Principal
    account_id: str
    policies: list[TrustPolicy] = field(default_factory=list[TrustPolicy])

    @property
    def client_id(self) -> str:
        return f"{self.server.organization_id}:{self.account_id}"

    async def trust(self, **changes: Any) -> TrustPolicy:
        wanted = NewPolicy(**({"issuer": self.issuer.url, "claims": {"sub": "robot"}} | changes))
        trust = self.server.identity.federation.trust
        made = await service.add(self.server.db, self.owner, self.account_id, wanted, trust)
        self.policies.append(made)
        return made

    async def remove(self, policy: TrustPolicy) -> None:
        await self.server.db.write(lambda tx: service.remove(tx, self.owner, self.account_id, policy.id))
        self.server.identity.tokens.forget(self.account_id)

    async def exchange(self, token: str, client_id: str | None = None, **changes: str) -> httpx.Response:
        form = {"grant_type": EXCHANGE, "subject_token": token, "subject_token_type": JWT}
        async with self.server.client(address="192.0.2.7") as client:
            return await client.post("/connect/token", data=form | {"client_id": client_id or self.client_id} | changes)

    async def status(self, token: str, client_id: str | None = None) -> int:
        return (await self.exchange(token, client_id)).status_code

    async def reasons(self) -> list[str]:
        """The reasons of failures that the audit log has, in their order."""
        await self.server.identity.failures.step()
        rows = await self.server.db.read(
            lambda tx: tx.all("SELECT details FROM audit WHERE action = 'token_exchange.fail' ORDER BY id")
        )
        return [httpx.Response(200, content=row["details"]).json().get("reason", "") for row in rows]


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with oidc_issuer.running() as found:
        yield found


@pytest.fixture
async def federation(database: Database, issuer: Issuer) -> Federation:
    server = await build(database, (issuer.url,))
    owner = await server.user("owner", Role.OWNER)
    account = await access.create_account(server.db, owner, "ci", "")
    return Federation(server, issuer, owner, account.id)
