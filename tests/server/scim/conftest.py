"""An organization whose people an identity provider manages."""

from typing import Any

import httpx
import pytest

from terracrew.api.provisioning import Provisioner
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import service as accounts
from terracrew.server.identity.provisioning import store as provisioning
from terracrew.server.principals.model import Principal
from tests.server.application import Application
from tests.server.identity.sso.conftest import provider_process, sign_on

BASE = "/api/scim/v2"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


class Directory(httpx.AsyncClient):
    """An identity provider, with the secret of a service account."""

    account_id = ""

    async def made(self, kind: str, **attributes: Any) -> dict[str, Any]:
        answer = await self.post(f"{BASE}/{kind}", json=attributes)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def person(self, user_name: str, **attributes: Any) -> dict[str, Any]:
        return await self.made("Users", userName=user_name, **attributes)

    async def patched(self, path: str, *operations: dict[str, Any], status: int = 200) -> dict[str, Any]:
        answer = await self.patch(f"{BASE}/{path}", json={"schemas": [PATCH], "Operations": list(operations)})
        assert answer.status_code == status, answer.text
        return answer.json()

    async def found(self, kind: str, wanted: str, **query: Any) -> list[dict[str, Any]]:
        answer = await self.get(f"{BASE}/{kind}", params={"filter": wanted, **query})
        assert answer.status_code == 200, answer.text
        return answer.json()["Resources"]

    async def shown(self, path: str) -> dict[str, Any]:
        answer = await self.get(f"{BASE}/{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()


async def directory_of(application: Application, owner: Principal, name: str = "scim") -> Directory:
    """Make a service account of the owner's organization its provisioner."""
    db = application.server.db
    account = await accounts.create_account(db, owner, name, "")
    _, _, secret = await accounts.create_secret(db, owner, account.id, None)

    async def choose(tx: Tx) -> None:
        await provisioning.set_provisioner(
            tx, Provisioner(owner.organization_id or "", account.id, None, owner.id, tx.moment)
        )

    await db.write(choose)
    made = Directory(transport=application.transport(), base_url="http://127.0.0.1:7400")
    made.headers["Authorization"] = f"Bearer {secret.text}"
    made.headers["Content-Type"] = "application/scim+json"
    made.account_id = account.id
    return made


@pytest.fixture
async def directory(application: Application) -> Directory:
    return await directory_of(application, application.admin.principal)


__all__ = ["provider_process", "sign_on"]
"""The fixtures of a provider of single sign-on."""
