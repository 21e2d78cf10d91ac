"""A person brings a state that no job wrote: from elsewhere, or an older version of the module's own."""

import json
from typing import Any

import pytest

from terracrew.protocol.events import PlanSummary, ResourceChange, Result
from terracrew.protocol.messages import BeginRefused, Begun
from terracrew.server.state.model import MAX_INLINE_BYTES
from tests.builders.deliveries import APPLIED, DONE, RUNNING, fact
from tests.builders.job_rows import begin, begin_code
from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in
from tests.server.simulated_runner import SimulatedRunner
from tests.server.state.stored_states import applied, content, written

pytestmark = pytest.mark.feature("J15.imported")
STATES = "/api/v1/modules/m/states"
CHANGING = PlanSummary(change=1, existing=1, resources=[ResourceChange("terraform_data.one", "update")])


def brought(serial: int, lineage: str = "a", **more: Any) -> bytes:
    one = {"mode": "managed", "type": "terraform_data", "name": "one", "instances": [{"attributes": {"id": "x"}}]}
    return json.dumps({"version": 4, "serial": serial, "lineage": lineage, "resources": [one], **more}).encode()


async def stored(application: Application) -> int:
    """Count the states in the object store."""
    return sum([len(page) async for page in application.server.objects.listing("states")])


async def module(application: Application, **fields: Any) -> None:
    source = {"kind": "local", "path": "/srv/sources/m"}
    await application.admin.made("/api/v1/modules", {"path": "m", "source": source, **fields})


@pytest.mark.parametrize("size", [0, MAX_INLINE_BYTES])
async def test_an_imported_state_is_the_current_one_and_says_who_brought_it(
    application: Application, size: int
) -> None:
    await module(application)
    given = brought(7, padding="x" * size)
    answer = await application.admin.post(STATES, content=given)
    made = answer.json()
    assert (answer.status_code, made["version"], made["serial"], made["origin"]) == (201, 1, 7, "imported"), made
    assert made["brought_by"] == application.admin.principal.id
    assert (await application.admin.get("/api/v1/modules/m/state")).content == given
    assert (await application.admin.get("/api/v1/modules/m/resources")).json()["count"] == 1
    assert await application.scalar("SELECT count(*) FROM audit WHERE action = 'state.import'") == 1
    again = await application.admin.post(STATES, content=given)
    assert again.json()["id"] == made["id"], "a request whose answer was lost is repeated"
    assert await application.scalar("SELECT count(*) FROM states") == 1


async def test_a_state_that_does_not_continue_the_current_one_is_refused(application: Application) -> None:
    await module(application)
    await application.admin.post(STATES, content=brought(7))
    assert "another lineage (a, not b)" in await application.admin.refused("POST", STATES, 409, content=brought(8, "b"))
    assert "serial 7, and this one has 7" in await application.admin.refused(
        "POST", STATES, 409, content=brought(7, extra=1)
    )
    assert (await application.admin.post(STATES, content=brought(8))).json()["version"] == 2
    forced = await application.admin.post(f"{STATES}?force=true", content=brought(1, "b"))
    assert (forced.status_code, forced.json()["version"], forced.json()["serial"]) == (201, 3, 1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (b"", "is not a state of OpenTofu or Terraform"),
        (b"{", "is not a state of OpenTofu or Terraform"),
        (b"[1]", "is not a state of OpenTofu or Terraform"),
        (b'{"serial": 1}', "missing required field `lineage`"),
        (b'{"serial": 1, "lineage": ""}', "is not a state of OpenTofu or Terraform"),
        (b'{"serial": -1, "lineage": "a"}', "is not a state of OpenTofu or Terraform"),
        (b'{"version": 3, "serial": 1, "lineage": "a"}', "the state has format 3"),
        (b"[" * 100_000, "is not a state of OpenTofu or Terraform"),
    ],
)
async def test_what_is_no_state_is_refused_in_words(application: Application, given: bytes, words: str) -> None:
    await module(application)
    assert words in await application.admin.refused("POST", STATES, 400, content=given)
    assert await application.scalar("SELECT count(*) FROM states") == 0


async def test_only_an_owner_brings_a_state_and_only_to_a_module_whose_state_is_kept_here(
    application: Application,
) -> None:
    await module(application, backend="own")
    assert "in the backend that its source configures" in await application.admin.refused(
        "POST", STATES, 409, content=brought(1)
    )
    operator = await application.person("omar", "operator")
    await application.admin.patch("/api/v1/modules/m", json={"backend": "terracrew"})
    await operator.refused("POST", STATES, 403, content=brought(1))
    await application.admin.patch("/api/v1/modules/m", json={"engine": "pulumi"})
    assert "only states of OpenTofu and Terraform" in await application.admin.refused(
        "POST", STATES, 409, content=brought(1)
    )


async def test_no_state_is_brought_while_a_job_has_the_lock(runner: SimulatedRunner) -> None:
    attempt = await written(runner, content(1))
    here = f"/api/v1/modules/{attempt.module_id}/states"
    words = await runner.app.admin.refused("POST", here, 409, content=brought(5))
    assert "has the lock" in words
    assert await runner.app.scalar("SELECT count(*) FROM states") == 1


async def test_a_plan_from_before_is_not_applied_after_a_state_was_brought(runner: SimulatedRunner) -> None:
    """The permission to apply names the version of the state that the plan was made from."""
    first = await applied(runner, content(1))
    here = f"/api/v1/modules/{first.module_id}/states"
    await runner.app.admin.post(here, content=brought(5))
    again = await runner.run(first.module_id, kind="APPLY")
    assert await begin_code(runner.server.db, again.ref, 1) == "state_moved"


@pytest.mark.feature("J8.needed")
async def test_what_a_plan_from_a_brought_state_creates_is_looked_at_by_a_person_first(runner: SimulatedRunner) -> None:
    """What was created since the state was written is in no state, and would be made a second time."""
    await module(runner.app)
    await runner.app.admin.post(STATES, content=brought(3))
    module_id = await runner.app.scalar("SELECT id FROM modules WHERE path = 'm'")
    creating = await runner.run(module_id, kind="APPLY")
    await creating.deliver(RUNNING, fact(PlanSummary(add=1, change=1, existing=1)))
    assert await begin_code(runner.server.db, creating.ref, 1) == "approval"
    await creating.deliver(fact(Result("FAILED", "nobody approved")))
    changing = await runner.run(module_id, kind="APPLY")
    await changing.deliver(RUNNING, fact(CHANGING))
    assert isinstance(await begin(runner.server.db, changing.ref, 1), Begun)
    await changing.write(brought(4), serial=4)
    await changing.deliver(APPLIED, DONE)
    again = await runner.run(module_id, kind="APPLY")
    await again.deliver(RUNNING, fact(PlanSummary(add=1, existing=1)))
    assert isinstance(await begin(runner.server.db, again.ref, 2), Begun), "an engine has written the state since"


async def test_the_backend_does_not_change_under_unfinished_jobs(runner: SimulatedRunner) -> None:
    """A queued apply would begin without the state that the module has."""
    admin = runner.app.admin
    await module(runner.app, backend="own")
    made = await admin.made("/api/v1/modules/m/jobs", {"type": "APPLY"})
    words = await admin.refused("PATCH", "/api/v1/modules/m", 409, json={"backend": "terracrew"})
    assert "module `m` has 1 unfinished job" in words
    assert (await admin.patch("/api/v1/modules/m", json={"description": "still possible"})).status_code == 200
    await admin.post(f"/api/v1/jobs/{made['id']}/cancel", json={"mode": "kill"})
    assert (await admin.patch("/api/v1/modules/m", json={"backend": "terracrew"})).status_code == 200


async def test_a_state_is_brought_together_with_the_backend(runner: SimulatedRunner) -> None:
    """Between the two requests, a job could begin with an empty state."""
    admin = runner.app.admin
    await module(runner.app, backend="own")
    both = f"{STATES}?change_backend=true"
    await admin.refused("POST", both, 400, content=b"{}")
    made = await admin.made("/api/v1/modules/m/jobs", {"type": "APPLY"})
    assert "unfinished job" in await admin.refused("POST", both, 409, content=brought(1))
    assert (await admin.get("/api/v1/modules/m")).json()["backend"] == "own"
    await admin.post(f"/api/v1/jobs/{made['id']}/cancel", json={"mode": "kill"})
    assert (await admin.post(both, content=brought(1))).status_code == 201
    now = (await admin.get("/api/v1/modules/m")).json()
    assert (now["backend"], now["state_version"]) == ("terracrew", 1)


@pytest.mark.feature("J8.needed")
async def test_every_change_waits_for_a_person_after_a_state_was_replaced(runner: SimulatedRunner) -> None:
    """An apply that was queued before changed something, which ended the question, and the next one created things again."""
    first = await applied(runner, content(1), content(2))
    here = f"/api/v1/modules/{first.module_id}"
    old = (await runner.app.admin.get(f"{here}/states")).json()["items"][1]
    queued = await runner.rows.job(first.module_id, kind="APPLY")
    await runner.app.admin.post(f"/api/v1/states/{old['id']}/restore")
    page = await (await logged_in(runner.app)).see(f"/dashboard/modules/{first.module_id}")
    assert "It plans first, and somebody must approve the plan." in page
    changing = await runner.again(queued)
    assert await begin_code(runner.server.db, changing.ref, 3) == "approval", "what it would change is not known"
    await changing.deliver(RUNNING, fact(CHANGING))
    answer = await begin(runner.server.db, changing.ref, 3)
    assert isinstance(answer, BeginRefused)
    assert "a person replaced the state by an imported or an older one" in answer.message
    await changing.deliver(fact(Result("FAILED", "nobody approved")))
    idle = await runner.run(first.module_id, kind="APPLY")
    await idle.deliver(RUNNING, fact(PlanSummary(unchanged=1, existing=1)))
    assert isinstance(await begin(runner.server.db, idle.ref, 3), Begun), "nothing is changed"


async def test_an_older_version_is_restored_as_a_new_one(runner: SimulatedRunner) -> None:
    attempt = await applied(runner, content(1), content(2))
    here = f"/api/v1/modules/{attempt.module_id}"
    listed = (await runner.app.admin.get(f"{here}/states")).json()["items"]
    now, old = listed
    restored = await runner.app.admin.post(f"/api/v1/states/{old['id']}/restore")
    made = restored.json()
    assert (restored.status_code, made["version"], made["serial"], made["origin"]) == (201, 3, 3, "restored"), made
    state = (await runner.app.admin.get(f"{here}/state")).json()
    assert state == json.loads(content(1)) | {"serial": 3}
    words = await runner.app.admin.refused("POST", f"/api/v1/states/{made['id']}/restore", 409)
    assert "version 3 is the current state already" in words
    again = await runner.app.admin.post(f"/api/v1/states/{now['id']}/restore")
    assert (again.json()["version"], again.json()["serial"]) == (4, 4)


async def test_a_version_that_opentofu_has_encrypted_is_not_restored_with_another_serial(
    application: Application,
) -> None:
    """OpenTofu compares the serial with the encrypted one, and could not read the state any more."""
    await module(application)
    sealed: dict[str, Any] = {
        "version": 4,
        "lineage": "a",
        "meta": {},
        "encrypted_data": "eA==",
        "encryption_version": "v0",
    }
    given = json.dumps(sealed | {"serial": 1}).encode()
    first = (await application.admin.post(STATES, content=given)).json()
    await application.admin.post(STATES, content=json.dumps(sealed | {"serial": 2}).encode())
    words = await application.admin.refused("POST", f"/api/v1/states/{first['id']}/restore", 409)
    assert "OpenTofu has encrypted version 1" in words
    assert "terracrew state import m FILE --force" in words
    assert (await application.admin.post(f"{STATES}?force=true", content=given)).status_code == 201
    assert (await application.admin.get("/api/v1/modules/m/state")).content == given


async def test_a_repeated_import_stores_its_content_again_if_it_is_gone(application: Application) -> None:
    await module(application)
    given = brought(7, padding="x" * MAX_INLINE_BYTES)
    await application.admin.post(STATES, content=given)
    await application.server.objects.delete(await application.scalar("SELECT object FROM states"))
    await application.admin.post(STATES, content=given)
    assert (await application.admin.get("/api/v1/modules/m/state")).content == given
    assert await stored(application) == 1


async def test_a_refused_import_leaves_no_object(application: Application) -> None:
    await module(application)
    await application.admin.post(STATES, content=brought(7))
    large = brought(7, padding="x" * MAX_INLINE_BYTES)
    await application.admin.refused("POST", STATES, 409, content=large)
    assert await stored(application) == 0


async def test_the_audit_log_says_what_was_replaced_by_what(application: Application) -> None:
    await module(application)
    first = (await application.admin.post(STATES, content=brought(7))).json()
    await application.admin.post(f"{STATES}?force=true", content=brought(3, "b"))
    await application.admin.post(f"/api/v1/states/{first['id']}/restore")
    entries = await application.admin.listed("/api/v1/audit")
    noted = {each["details"]["version"]: each["details"] for each in entries if each["target_kind"] == "state"}
    wanted = (
        "force",
        "restored_version",
        "serial",
        "lineage",
        "replaced_version",
        "replaced_serial",
        "replaced_lineage",
    )
    assert [[noted[version].get(name) for name in wanted] for version in (1, 2, 3)] == [
        [False, None, 7, "a", None, None, None],
        [True, None, 3, "b", 1, 7, "a"],
        [None, 1, 4, "a", 2, 3, "b"],
    ]


async def test_the_page_of_the_module_says_who_imported_a_version(application: Application) -> None:
    await module(application)
    await application.admin.post(STATES, content=brought(7))
    module_id = await application.scalar("SELECT id FROM modules WHERE path = 'm'")
    page = await (await logged_in(application)).see(f"/dashboard/modules/{module_id}")
    assert "admin, imported" in page
    assert "serial 7" in page
