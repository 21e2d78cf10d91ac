"""A reference to an output ends with the right of the one who set it, or when an owner of the other module ends it."""

from typing import Any

import pytest

from terracrew.protocol.events import Output
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import lasting_rights
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import GRANTS, Verb
from terracrew.server.tree.inputs import dependency_reads, reads
from tests.builders.job_rows import change_inputs, change_roles, change_service_accounts, change_users
from tests.server.application import Application, Person
from tests.server.dashboard.visitor import logged_in
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.inputs.places import SOURCE, tree
from tests.server.tree.inputs.references import NETWORK, apply, refer

APP = "apps/app"
ENDED = "somebody who may read it has to set the input again, or the input has to be removed"


async def grant(application: Application, name: str, role: str, **place: Any) -> str:
    made = await application.admin.made("/api/v1/roles", {"principal": name, "role": role, **place})
    return made["id"]


async def borrower(application: Application) -> tuple[Person, str, str, str]:
    """A person who owns the module `apps/app`, which uses an output of a module of others; both ids, and that of their role there."""
    network = await tree(application)
    await application.admin.made("/api/v1/groups", {"path": "apps"})
    app = (await application.admin.made("/api/v1/modules", {"path": APP, "source": SOURCE}))["id"]
    person = await application.person("ada", "owner", "apps")
    role = await grant(application, "ada", "operator", path="platform")
    await refer(person, APP, NETWORK, "password", "password")
    return person, network, app, role


async def waiting_reason(application: Application, job_id: str) -> str:
    found = (await application.admin.get(f"/api/v1/jobs/{job_id}")).json()
    assert (found["status"], found["reason"]["code"]) == ("QUEUED", "dependency")
    return found["reason"]["text"]


@pytest.mark.feature("J6.outputs", "X3.roles")
async def test_an_output_is_not_given_after_the_right_to_read_it_was_taken_away(runner: SimulatedRunner) -> None:
    """After the role on the other module was revoked, a job still read a value that was made after that."""
    application, admin = runner.app, runner.app.admin
    ada, network, app, role = await borrower(application)
    await apply(runner, network, password=Output("first", is_sensitive=True))
    assert (await admin.delete(f"/api/v1/roles/{role}")).status_code == 204
    await apply(runner, network, password=Output("second", is_sensitive=True))
    made = await ada.made(f"/api/v1/modules/{app}/jobs", {"type": "PLAN"})
    assert await runner.instance.claim(made["id"], 1) is None
    said = await waiting_reason(application, made["id"])
    assert said == (
        f"its input password is the output password of module {NETWORK}, and ada, who set the input, may not read the state of "
        f"that module any more: {ENDED}"
    )
    own = (await ada.get(f"/api/v1/jobs/{made['id']}")).json()["reason"]["text"]
    assert "a module that you may not see" in own
    [needed] = await ada.listed(f"/api/v1/modules/{app}/dependencies")
    assert (needed["is_ended"], needed["ended_by_name"], needed["path"]) == (True, None, None)
    # Somebody else who may read the state answers for it from now on.
    await refer(admin, APP, NETWORK, "password", "password")
    granted = await runner.instance.has(made["id"], 1)
    assert granted.spec.inputs == {"password": "second"}


async def test_the_job_goes_on_when_the_right_is_given_again(runner: SimulatedRunner) -> None:
    application, admin = runner.app, runner.app.admin
    ada, network, app, role = await borrower(application)
    await apply(runner, network, password=Output("first", is_sensitive=True))
    await admin.delete(f"/api/v1/roles/{role}")
    made = await ada.made(f"/api/v1/modules/{app}/jobs", {"type": "PLAN"})
    assert await runner.instance.claim(made["id"], 1) is None
    await grant(application, "ada", "operator", path=NETWORK, kind="module")
    assert (await runner.instance.has(made["id"], 1)).spec.inputs == {"password": "first"}


@pytest.mark.feature("J6.outputs", "X3.roles")
async def test_an_owner_of_the_source_sees_every_reference_and_ends_it(runner: SimulatedRunner) -> None:
    application = runner.app
    ada, network, app, _ = await borrower(application)
    await apply(runner, network, password=Output("first", is_sensitive=True))
    olga = await application.person("olga", "owner", "platform")
    otto = await application.person("otto", "operator", "platform")
    place = f"/api/v1/modules/{network}/dependencies"
    assert await otto.listed(place, direction="used_by") == [], "only owners know of modules that they may not see"
    [found] = await olga.listed(place, direction="used_by")
    assert (found["path"], found["set_by_name"], found["output"], found["is_ended"]) == (None, "ada", "password", False)
    assert "change groups and modules" in await otto.refused("DELETE", f"{place}/{found['id']}", 403)
    assert (await olga.delete(f"{place}/{found['id']}")).status_code == 204
    [found] = await olga.listed(place, direction="used_by")
    assert (found["is_ended"], found["ended_by_name"]) == (True, "olga")
    made = await ada.made(f"/api/v1/modules/{app}/jobs", {"type": "PLAN"})
    assert await runner.instance.claim(made["id"], 1) is None
    assert await waiting_reason(application, made["id"]) == (
        f"its input password is the output password of module {NETWORK}, and olga has ended this use of it: {ENDED}"
    )
    entries = await application.admin.listed("/api/v1/audit", action="module.end_reference")
    assert [(each["actor_name"], each["details"]["name"]) for each in entries] == [("olga", "password")]
    await refer(ada, APP, NETWORK, "password", "password")
    assert (await runner.instance.has(made["id"], 1)).spec.inputs == {"password": "first"}


@pytest.mark.feature("J6.outputs", "X3.roles")
@pytest.mark.parametrize("how", ["role revoked", "ended by an owner"])
async def test_a_reference_stays_ended_after_its_source_was_deleted(runner: SimulatedRunner, how: str) -> None:
    """A destroy plan that had waited was given the password that was made after the reference had ended."""
    application, admin = runner.app, runner.app.admin
    ada, network, app, role = await borrower(application)
    await apply(runner, network, password=Output("first", is_sensitive=True))
    if how == "role revoked":
        assert (await admin.delete(f"/api/v1/roles/{role}")).status_code == 204
    else:
        place = f"/api/v1/modules/{network}/dependencies"
        [found] = await admin.listed(place, direction="used_by")
        assert (await admin.delete(f"{place}/{found['id']}")).status_code == 204
    await apply(runner, network, password=Output("second", is_sensitive=True))
    await admin.made("/api/v1/modules", {"path": "apps/other", "source": SOURCE})
    await refer(admin, "apps/other", NETWORK, "password", "password")
    made = await ada.made(f"/api/v1/modules/{app}/jobs", {"type": "PLAN", "is_destroy_plan": True})
    assert await runner.instance.claim(made["id"], 1) is None
    assert (await admin.delete(f"/api/v1/modules/{network}", params={"force": "true"})).status_code == 204
    assert await runner.instance.claim(made["id"], 1) is None
    job = (await admin.get(f"/api/v1/jobs/{made['id']}")).json()
    assert job["status"] == "FAILED"
    assert "the module whose output password is the input password was deleted" in job["message"]
    other = await admin.made("/api/v1/modules/apps%2Fother/jobs", {"type": "DESTROY"})
    assert (await runner.instance.has(other["id"], 1)).spec.inputs == {"password": "second"}, "this one had not ended"


async def test_a_reference_is_ended_on_the_page_of_the_source(application: Application) -> None:
    _, network, _, _ = await borrower(application)
    someone = await logged_in(application)
    page = await someone.see(f"/dashboard/modules/{network}")
    assert "set by ada" in page
    [found] = await application.admin.listed(f"/api/v1/modules/{network}/dependencies", direction="used_by")
    answer = await someone.submit(f"/dashboard/modules/{network}/references/{found['id']}/end")
    assert answer.status_code == 303, answer.text
    assert "ended by admin" in await someone.see(f"/dashboard/modules/{network}")


ROLES_OF_ADA = [
    ({"role": "owner", "path": ""}, True),
    ({"role": "operator", "path": "platform"}, True),
    ({"role": "approver", "path": "platform/network"}, True),
    ({"role": "operator", "path": NETWORK, "kind": "module"}, True),
    ({"role": "viewer", "path": "platform"}, False),
    ({"role": "owner", "path": "plat"}, False),
    ({"role": "owner", "path": "platform/network/v"}, False),
    ({"role": "owner", "path": "apps"}, False),
]


@pytest.mark.parametrize(("role", "may"), ROLES_OF_ADA)
@pytest.mark.parametrize("kind", ["user", "service_account"])
async def test_the_statement_agrees_with_the_rights_of_the_one_who_set_the_reference(
    application: Application, role: dict[str, Any], may: bool, kind: str
) -> None:
    """`reads.is_ended` is `lasting_rights.has` as SQL."""
    network = await tree(application)
    for path in ("apps", "plat", "platform/network/v"):
        await application.admin.made("/api/v1/groups", {"path": path})
    app = (await application.admin.made("/api/v1/modules", {"path": APP, "source": SOURCE}))["id"]
    await refer(application.admin, APP, NETWORK)
    principal, name = await someone(application, kind)
    await change_inputs(application.server.db, app, set_by=principal)
    assert await has_ended(application, app, network, principal)
    granted = await grant(application, name, **role)
    assert await has_ended(application, app, network, principal) != may
    if may:
        change = change_users if kind == "user" else change_service_accounts
        await change(application.server.db, principal, is_disabled=True)
        assert await has_ended(application, app, network, principal), "the account is disabled"
        return
    await application.admin.delete(f"/api/v1/roles/{granted}")
    assert await has_ended(application, app, network, principal)


async def test_a_role_that_has_expired_is_no_right(application: Application) -> None:
    ada, network, app, role = await borrower(application)
    assert not await has_ended(application, app, network, ada.principal.id)
    await application.server.db.write(lambda tx: change_roles(tx, role, expires_at=tx.now))
    assert await has_ended(application, app, network, ada.principal.id)


async def someone(application: Application, kind: str) -> tuple[str, str]:
    """A user or a service account without a role: the id, and how requests name it."""
    if kind == "user":
        return (await application.person("ada")).principal.id, "ada"
    made = await application.admin.made("/api/v1/service-accounts", {"name": "ci"})
    return made["id"], made["id"]


async def has_ended(application: Application, app: str, network: str, principal: str) -> bool:
    """Whether the reference has ended, by SQL and by the rights."""

    async def read(tx: Tx) -> bool:
        [row] = await dependency_reads.needs(tx, app)
        path: str = row["other_path"]
        place = authorize.module(row["other_organization_id"], path)
        has = await lasting_rights.has(tx, principal, Verb.STATE_READ, place)
        assert bool(row["is_ended"]) == (not has)
        assert row["other_id"] == network
        return bool(row["is_ended"])

    return await application.server.db.read(read)


def test_the_statement_names_the_roles_that_may_read_states() -> None:
    may = [role.value for role, verbs in GRANTS.items() if Verb.STATE_READ in verbs]
    assert sorted(may) == sorted(reads.MAY_READ_STATES.strip("()").replace("'", "").split(", "))
