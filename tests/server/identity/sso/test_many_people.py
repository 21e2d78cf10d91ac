"""An identity provider changes groups of thousands of people by one request, which is one transaction.

Invariant: the number of statements does not grow with the number of people. PostgreSQL gives a transaction half a minute, and SQLite does
nothing else meanwhile.
"""

from typing import Any

import pytest

from terracrew.api.access import Role
from terracrew.api.provisioning import Provisioner
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.access import store as accounts
from terracrew.server.identity.people import store as people
from terracrew.server.identity.provisioning import service, store
from terracrew.server.identity.provisioning.model import GroupData, PersonName, ProvisionedPerson
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import reads as groups
from terracrew.server.tree.groups.service import ensure_organization
from tests.builders import sign_on_rows

pytestmark = pytest.mark.feature("P1.provisioned")


class CountedTx:
    """A transaction that counts the statements of a unit of work."""

    def __init__(self, tx: Tx) -> None:
        self._tx, self.statements = tx, 0

    def __getattr__(self, name: str) -> Any:
        if name in ("all", "one", "run", "each", "value", "each_id"):
            self.statements += 1
        return getattr(self._tx, name)


async def test_a_group_of_many_takes_as_many_statements_as_one_of_few(database: Database) -> None:
    async def begin(tx: Tx) -> tuple[Principal, list[str]]:
        organization_id = (await ensure_organization(tx, "acme")).id
        root = await groups.id_at(tx, organization_id, "")
        assert root is not None
        provider = await sign_on_rows.insert_provider(tx, organization_id)
        await sign_on_rows.insert_rule(tx, provider.id, root, "everyone", Role.VIEWER)
        account = await accounts.insert_account(tx, organization_id, "", "scim", "x")
        await store.set_provisioner(tx, Provisioner(organization_id, account.id, provider.id, "x", tx.moment))
        found: list[str] = []
        for name in (f"p{number}" for number in range(40)):
            user = await people.insert_user(tx, organization_id, name, is_system_admin=False)
            made = tx.moment
            person = ProvisionedPerson(user.id, organization_id, name, name, "", "", PersonName(), (), made, made, None)
            await store.insert_person(tx, person)
            found.append(user.id)
        return Principal("service_account", account.id, "scim", organization_id), found

    who, members = await database.write(begin)

    async def change(tx: Tx, count: int) -> list[int]:
        used: list[int] = []
        counted: Any = CountedTx(tx)
        made = await service.create_group(counted, who, GroupData("everyone", "", tuple(members[:count])))
        used.append(counted.statements)
        rows = await tx.all("SELECT principal_id FROM role_bindings WHERE source <> ''")
        assert {row["principal_id"] for row in rows} == set(members[:count])
        await service.delete_group(counted, who, made.group.id)
        used.append(counted.statements - used[0])
        assert await tx.all("SELECT principal_id FROM role_bindings WHERE source <> ''") == []
        return used

    few, many = [await database.write(lambda tx, n=count: change(tx, n)) for count in (2, 40)]
    assert few == many
