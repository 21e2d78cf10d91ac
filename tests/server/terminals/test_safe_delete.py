"""`workspace delete` deletes only a module that is known to have no resources."""

from typing import Any

import pytest

from tests.builders.job_rows import change_modules
from tests.server.application import Application
from tests.server.terminals.state_client import BASE, act, lock, state, with_a_resource, workspace, write

pytestmark = pytest.mark.feature("K2")


async def kept(application: Application, module: str) -> str:
    """Return why a module is not deleted."""
    answer = await act(application.admin, module, "safe-delete")
    assert answer.status_code == 409, answer.text
    assert (await application.admin.get(f"{BASE}/workspaces/{module}")).status_code == 200
    return str(answer.json()["errors"][0]["title"])


async def test_only_a_module_that_is_known_to_be_empty_is_deleted(application: Application) -> None:
    ann, stranger = application.admin, application.stranger()
    module = await workspace(ann)
    await lock(ann, module)
    assert "locked" in await kept(application, module)
    assert (await write(ann, stranger, module, with_a_resource(1))).status_code == 200
    await act(ann, module, "unlock")
    assert "has resources" in await kept(application, module)
    await lock(ann, module)
    assert (await write(ann, stranger, module, state(2))).status_code == 200
    await act(ann, module, "unlock")
    assert (await act(ann, module, "safe-delete")).status_code == 204


@pytest.mark.parametrize(
    ("change", "why"),
    [({"backend": "own"}, "a backend of its own"), ({"lock_doubt": "the lock was removed"}, "the lock was removed")],
)
async def test_what_is_not_known_counts_as_resources(
    application: Application, change: dict[str, Any], why: str
) -> None:
    module = await workspace(application.admin)
    await change_modules(application.server.db, module, **change)
    assert why in await kept(application, module)


async def test_a_state_in_quarantine_and_an_encrypted_one_count_as_resources(application: Application) -> None:
    ann, stranger = application.admin, application.stranger()
    module = await workspace(ann)
    await lock(ann, module)
    encrypted = b'{"version":4,"serial":1,"lineage":"a","encrypted_data":"eA==","resources":7}'
    assert (await write(ann, stranger, module, encrypted)).status_code == 200
    await act(ann, module, "unlock")
    assert "cannot be read" in await kept(application, module)
    await lock(ann, module)
    await act(ann, module, "force-unlock")
    assert (await write(ann, stranger, module, with_a_resource(2))).status_code == 409
    assert "quarantine" in await kept(application, module)
