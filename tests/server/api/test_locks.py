"""The lock of a module over HTTP and on its page: who may take it, who may remove it, and what people read about it."""

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in

pytestmark = pytest.mark.feature("J15.lock")
LOCK = "/api/v1/modules/m/lock"


async def made(application: Application) -> str:
    source = {"kind": "local", "path": "/srv/sources/m"}
    return (await application.admin.made("/api/v1/modules", {"path": "m", "source": source}))["id"]


async def test_a_job_waits_with_a_reason_until_the_module_is_unlocked(application: Application) -> None:
    module = await made(application)
    owner = await application.person("ann", "owner")
    lock = await owner.made(LOCK, {"reason": "the network is replaced"})
    assert (lock["holder_name"], lock["credential_name"], lock["client_lock_id"]) == ("ann", "test", "")
    job = await owner.made("/api/v1/modules/m/jobs", {"type": "PLAN"})
    view = (await owner.get(f"/api/v1/jobs/{job['id']}")).json()
    assert view["status"] == "QUEUED"
    reason = view["reason"]
    assert reason["code"] == "locked"
    assert reason["text"] == "the module is locked by ann's terminal: the network is replaced"
    assert (reason["link"], bool(reason["since"])) == (f"/dashboard/modules/{module}#lock", True)
    assert view["lock"]["person"]["id"] == lock["id"]
    assert (await owner.get("/api/v1/modules/m")).json()["lock"]["person"]["holder_name"] == "ann"
    assert (await owner.delete(LOCK)).status_code == 204
    assert (await owner.get("/api/v1/modules/m")).json()["lock"] is None
    assert (await owner.get(f"/api/v1/jobs/{job['id']}")).json()["reason"]["code"] != "locked"


async def test_a_module_is_created_with_its_lock_or_not_at_all(application: Application) -> None:
    """An import that was killed between two requests left a module without its state, and every job could begin."""
    owner, other = await application.person("ann", "owner"), await application.person("bob", "owner")
    new = {"path": "m", "source": {"kind": "local", "path": "/srv/sources/m"}}
    await owner.made("/api/v1/modules", new, lock_id="import:x", lock_reason="its state comes")
    lock = (await owner.get("/api/v1/modules/m")).json()["lock"]["person"]
    assert (lock["holder_name"], lock["client_lock_id"], lock["reason"]) == ("ann", "import:x", "its state comes")
    assert (await owner.made(LOCK, {"client_lock_id": "import:x"}))["id"] == lock["id"]
    await other.refused("POST", LOCK, 409, json={"client_lock_id": "import:x"})
    await other.refused("POST", "/api/v1/modules?lock_id=" + "x" * 1001, 400, json=new | {"path": "n"})
    await other.refused("GET", "/api/v1/modules/n", 404)


async def test_who_may_lock_and_unlock(application: Application) -> None:
    await made(application)
    owner, operator = await application.person("ann", "owner"), await application.person("otto", "operator")
    viewer, stranger = await application.person("vera", "viewer"), await application.person("sam")
    elsewhere = await application.person("eve", "owner", organization="other")
    for person, status in ((operator, 403), (viewer, 403), (stranger, 404), (elsewhere, 404)):
        await person.refused("POST", LOCK, status, json={})
    await owner.made(LOCK, {})
    words = await owner.refused("POST", LOCK, 409, json={})
    assert words.startswith("`m` is locked by ann's terminal since ")
    for person, status in ((operator, 403), (viewer, 403), (stranger, 404), (elsewhere, 404)):
        await person.refused("DELETE", LOCK, status)
    for person, status in ((viewer, 403), (stranger, 404), (elsewhere, 404)):
        await person.refused("DELETE", f"{LOCK}?force=true", status)
    other = application.stranger()
    other.headers["Authorization"] = f"Bearer {(await owner.made('/api/v1/tokens', {'name': 'laptop'}))['token']}"
    await other.refused("DELETE", LOCK, 409)
    await operator.refused("DELETE", f"{LOCK}?force=true&id=lck_other", 409)
    assert (await operator.delete(f"{LOCK}?force=true&reason=gone+home")).status_code == 204
    audited = "SELECT details FROM audit WHERE action = 'module.force_unlock'"
    assert '"reason":"gone home"' in await application.scalar(audited)
    assert (await owner.delete(LOCK)).status_code == 404


async def test_a_locked_module_is_not_moved_deleted_or_given_another_backend(application: Application) -> None:
    await made(application)
    owner = await application.person("ann", "owner")
    await owner.made(LOCK, {})
    bob = await application.person("bob", "owner")
    words = await bob.refused("POST", "/api/v1/modules/m/move", 409, json={"path": "n"})
    assert "locked by ann's terminal" in words
    await bob.refused("DELETE", "/api/v1/modules/m?force=true", 409)
    await bob.refused("PATCH", "/api/v1/modules/m", 409, json={"backend": "own"})
    await bob.refused("PATCH", "/api/v1/modules/m", 409, json={"engine": "pulumi"})
    await owner.refused("PATCH", "/api/v1/modules/m", 409, json={"backend": "own"})
    state = b'{"version":4,"serial":1,"lineage":"a"}'
    await bob.refused("POST", "/api/v1/modules/m/states", 409, content=state)
    assert (await owner.post("/api/v1/modules/m/states", content=state)).status_code == 201
    assert (await bob.patch("/api/v1/modules/m", json={"description": "x"})).status_code == 200
    assert (await owner.delete(LOCK)).status_code == 204
    assert (await bob.post("/api/v1/modules/m/move", json={"path": "n"})).status_code == 200


async def test_the_page_of_the_module_shows_the_lock_and_removes_it(application: Application) -> None:
    module = await made(application)
    owner = await application.person("ann", "owner")
    await owner.made(LOCK, {"operation": "OperationTypeApply", "who": "ann@laptop", "reason": "<b>"})
    someone = await logged_in(application)
    page = await someone.see(f"/dashboard/modules/{module}")
    assert "Locked by ann&#39;s terminal" in page
    assert "ann@laptop" in page
    assert "<b></span>" not in page
    lock = (await owner.get("/api/v1/modules/m")).json()["lock"]["person"]["id"]
    assert (await someone.submit(f"/dashboard/modules/{module}/unlock", id="lck_other")).status_code == 409
    assert (await someone.submit(f"/dashboard/modules/{module}/unlock", id=lock)).status_code == 303
    page = await someone.see(f"/dashboard/modules/{module}")
    assert "Locked by" not in page
    assert "was removed by force. What was changed under it may be in no state" in page


async def test_the_page_of_the_module_locks_it_for_its_reader(application: Application) -> None:
    module = await made(application)
    someone = await logged_in(application)
    assert 'id="take-lock"' in await someone.see(f"/dashboard/modules/{module}")
    assert (await someone.submit(f"/dashboard/modules/{module}/lock")).status_code == 303
    page = await someone.see(f"/dashboard/modules/{module}")
    assert "Locked by admin</b>" in page
    assert 'id="take-lock"' not in page
    assert (await someone.submit(f"/dashboard/modules/{module}/lock")).status_code == 409
    held = (await application.admin.get("/api/v1/modules/m")).json()["lock"]["person"]
    assert (held["credential"], held["operation"]) == ("session", "")
    assert (await someone.submit(f"/dashboard/modules/{module}/unlock", id=held["id"])).status_code == 303
    viewer = await application.person("vera", "viewer")
    assert (await viewer.post(LOCK, json={})).status_code == 403
