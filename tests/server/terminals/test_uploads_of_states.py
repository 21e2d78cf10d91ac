"""A state that was announced becomes current only under the lock that it was announced under, and none is lost."""

import pytest

from terracrew.server.terminals import states
from terracrew.server.terminals.states import MAX_ANNOUNCED
from tests.server.application import Application, Person, on_one
from tests.server.terminals.state_client import (
    BASE,
    act,
    announce,
    announced,
    lock,
    path_of,
    state,
    upload,
    workspace,
    write,
)

pytestmark = pytest.mark.feature("J15.lock")


async def status(application: Application) -> str | None:
    """Return what became of the only state."""
    found: str | None = await application.scalar("SELECT status FROM states")
    return found


async def test_an_upload_from_before_the_lock_was_removed_by_force(application: Application) -> None:
    ann = application.admin
    module = await workspace(ann)
    await lock(ann, module)
    path = await announced(ann, module, state(1))
    assert (await act(ann, module, "force-unlock")).status_code == 200
    await lock(ann, module)
    answer = await upload(application.stranger(), path, state(1))
    assert (answer.status_code, await status(application)) == (409, "quarantined")


async def test_the_holder_of_a_lock_who_loses_the_role_hands_the_state_in_and_unlocks(application: Application) -> None:
    ann, stranger = await application.person("ann", "owner"), application.stranger()
    module = await workspace(ann)
    await lock(ann, module)
    path = await announced(ann, module, state(1))
    await become_viewer(application, ann)
    answer = await upload(stranger, path, state(1))
    assert (answer.status_code, await status(application)) == (409, "quarantined")
    assert "you may no longer write states" in answer.text
    assert (await write(ann, stranger, module, state(2))).status_code == 409, "also one that is announced afterwards"
    assert await application.scalar("SELECT count(*) FROM states WHERE status = 'quarantined'") == 2
    assert (await act(ann, module, "unlock")).status_code == 200
    assert (await announce(ann, module, state(3))).status_code == 403, "without the lock, the right is missing"
    assert (await act(ann, module, "lock")).status_code == 403


@on_one
async def test_a_lock_is_kept_for_a_state_on_its_way(application: Application) -> None:
    ann, stranger = application.admin, application.stranger()
    module = await workspace(ann)
    await lock(ann, module)
    path = await announced(ann, module, state(1))
    answer = await act(ann, module, "unlock")
    assert answer.status_code == 409
    assert "latest state version is still pending" in answer.text, "the words by which the clients know it"
    assert (await upload(stranger, path, state(1))).status_code == 200
    assert (await act(ann, module, "unlock")).status_code == 200


@on_one
async def test_a_client_whose_upload_failed_unlocks(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, stranger = application.admin, application.stranger()
    module = await workspace(ann)
    await lock(ann, module)
    path = await announced(ann, module, state(1))
    assert (await upload(stranger, path, state(2))).status_code == 400, "it is not what was announced"
    assert (await act(ann, module, "unlock")).status_code == 200
    await lock(ann, module)
    await announced(ann, module, state(1))
    assert (await act(ann, module, "unlock")).status_code == 409
    monkeypatch.setattr(states, "ARRIVAL_SECONDS", -1.0)
    assert (await act(ann, module, "unlock")).status_code == 200, "it never arrives"


@on_one
async def test_only_writers_announce_states_and_only_so_many(application: Application) -> None:
    ann = application.admin
    bob = await application.person("bob", "owner")
    module = await workspace(ann)
    assert (await announce(ann, module, state(1))).status_code == 409, "nobody holds the lock"
    await lock(ann, module)
    assert (await announce(bob, module, state(1))).status_code == 409, "somebody else holds it"
    answers = [await announce(ann, module, state(serial)) for serial in range(MAX_ANNOUNCED + 1)]
    first, last = answers[0], answers[-1]
    assert await application.scalar("SELECT count(*) FROM state_uploads") == MAX_ANNOUNCED
    for answer, expected in ((first, 404), (last, 200)):
        attributes = answer.json()["data"]
        shown = await ann.get(f"{BASE}/state-versions/{attributes['id']}")
        assert shown.status_code == expected
    assert (await bob.get(f"{BASE}/state-versions/{last.json()['data']['id']}")).status_code == 404
    path = path_of(first.json()["data"]["attributes"]["hosted-state-upload-url"])
    assert (await upload(application.stranger(), path, state(1))).status_code == 404


@on_one
@pytest.mark.parametrize("body", [b'{"reason":' * 5_000, b'{"a":"\xff","reason":"\xff"}', b"[]"])
async def test_a_reason_that_cannot_be_read_is_refused(application: Application, body: bytes) -> None:
    module = await workspace(application.admin)
    answer = await application.admin.post(f"{BASE}/workspaces/{module}/actions/lock", content=body)
    assert answer.status_code == 400, answer.text


async def become_viewer(application: Application, who: Person) -> None:
    await application.server.db.write(
        lambda tx: tx.run("UPDATE role_bindings SET role = 'viewer' WHERE principal_id = :id", id=who.principal.id)
    )


@on_one
@pytest.mark.platform("opa")
@pytest.mark.feature("P3.prompt")
async def test_a_module_under_a_policy_is_not_locked_for_a_plan_at_the_prompt(application: Application) -> None:
    admin, rego = application.admin, 'package terracrew\n\ndeny contains "no" if input.plan.no\n'
    module = await workspace(admin, **{"execution-mode": "local"})
    made = await admin.post("/api/v1/policies", json={"name": "rule", "rego": rego})
    assert (await admin.post(f"/api/v1/policies/{made.json()['id']}/activate", json={})).status_code == 200
    answer = await admin.post(f"{BASE}/workspaces/{module}/actions/lock", content=b"{}")
    assert answer.status_code == 422, answer.text
    assert "cannot look at plans that run at the prompt" in answer.text
    assert await application.scalar("SELECT count(*) FROM module_locks") == 0
    await admin.patch("/api/v1/policies/rule", json={"enforcement": "advisory"})
    answer = await admin.post(f"{BASE}/workspaces/{module}/actions/lock", content=b"{}")
    assert answer.status_code == 200, answer.text
