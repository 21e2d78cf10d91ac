"""While single sign-on is mandatory, somebody of the organization can always log in without its provider."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from terracrew.api.access import Role, UserChange
from terracrew.api.sso import LoginPolicy
from terracrew.errors import Conflict
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_store, roles, users
from terracrew.server.identity.people import store as people_store
from terracrew.server.identity.people import user_reads
from terracrew.server.identity.sso import policy
from terracrew.server.principals.model import Principal
from tests.builders import sign_on_rows
from tests.server.application import Application, on_one
from tests.server.dashboard.visitor import logged_in
from tests.server.identity.sso.provider_logins import manager
from tests.server.scim.conftest import directory_of

pytestmark = pytest.mark.feature("P1.local")
REFUSED = "nobody of the organization could log in while its provider is away"


async def local(application: Application, name: str) -> Principal:
    """An owner of the organization `second`, with a password."""
    person = await application.person(name, "owner", organization="second")
    await logged_in(application, name)
    return msgspec.structs.replace(person.principal, credential="session")


async def require(application: Application, who: Principal) -> None:
    async def work(tx: Tx) -> None:
        await sign_on_rows.insert_provider(tx, who.organization_id or "")
        await policy.change(tx, who, LoginPolicy(True))

    await application.server.db.write(work)


def ways_out(application: Application, olga: Principal) -> dict[str, Callable[[], Awaitable[Any]]]:
    """What would take the last local administrator away."""
    db, admin = (
        application.server.db,
        msgspec.structs.replace(manager(application), organization_id=olga.organization_id),
    )

    async def binding(tx: Tx) -> str:
        return (await role_store.roles_of_source(tx, [olga.id], ""))[0].id

    async def revoke(tx: Tx) -> None:
        await roles.unbind_role(tx, admin, await binding(tx))

    def bind(role: Role, days: int | None) -> Callable[[], Awaitable[Any]]:
        return lambda: db.write(lambda tx: roles.bind_role(tx, admin, olga.id, role, "", "group", days))

    return {
        "revoke": lambda: db.write(revoke),
        "lower": bind(Role.APPROVER, None),
        "end": bind(Role.OWNER, 7),
        "disable": lambda: users.change(db, admin, olga.id, UserChange(is_disabled=True)),
        "delete": lambda: db.write(lambda tx: users.delete(tx, admin, olga.id)),
        "reset": lambda: users.reset(db, admin, olga.id),
    }


@on_one
@pytest.mark.parametrize("way", ["revoke", "lower", "end", "disable", "delete", "reset"])
async def test_the_last_local_administrator_stays(application: Application, way: str) -> None:
    olga = await local(application, "olga@second")
    await require(application, olga)
    other = await application.person("otto@second", "viewer", organization="second")
    with pytest.raises(Conflict, match=REFUSED):
        await ways_out(application, olga)[way]()
    db = application.server.db
    assert await db.read(lambda tx: user_reads.has_local_administrator(tx, olga.organization_id or ""))
    await users.change(db, manager(application), other.principal.id, UserChange(is_disabled=True))
    await local(application, "oscar@second")
    await ways_out(application, olga)[way]()
    assert await db.read(lambda tx: user_reads.has_local_administrator(tx, olga.organization_id or ""))


@on_one
@pytest.mark.feature("P1.scim")
async def test_no_identity_provider_takes_the_last_local_administrator(application: Application) -> None:
    olga = await local(application, "olga@second")
    directory = await directory_of(application, olga)
    made = await directory.person("ada")

    async def promote(tx: Tx) -> None:
        await role_store.bind_role(tx, olga.organization_id or "", "user", made["id"], "owner", "group", "", olga.id)

    await application.server.db.write(promote)
    await logged_in(application, (await application.scalar("SELECT name FROM users WHERE id = :id", id=made["id"])))
    await require(application, olga)
    await application.server.db.write(lambda tx: people_store.clear_password(tx, olga.id))
    off = {"op": "replace", "path": "active", "value": False}
    assert REFUSED in (await directory.patched(f"Users/{made['id']}", off, status=409))["detail"]
    assert (await directory.delete(f"/api/scim/v2/Users/{made['id']}")).status_code == 409
    await logged_in(application, "olga@second")
    assert (await directory.patched(f"Users/{made['id']}", off))["active"] is False


async def test_two_local_administrators_do_not_remove_each_other_at_once(application: Application) -> None:
    olga, oscar = await local(application, "olga@second"), await local(application, "oscar@second")
    await require(application, olga)
    db = application.server.db
    for _ in range(3):
        disabled = (
            users.change(db, who, other.id, UserChange(is_disabled=True))
            for who, other in ((olga, oscar), (oscar, olga))
        )
        ended = await asyncio.gather(*disabled, return_exceptions=True)
        assert sorted(isinstance(each, Conflict) for each in ended) == [False, True], ended
        for each in (olga, oscar):
            await db.write(lambda tx, one=each: people_store.set_disabled(tx, one.id, is_disabled=False))
