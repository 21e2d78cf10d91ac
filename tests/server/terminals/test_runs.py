"""Yes, no and the files of a run: what a command line asks for happens once, or not at all."""

import asyncio
from typing import Any

import pytest

from terracrew.server.http.engine_services import TFE_BASE
from terracrew.server.identity.access import role_store
from terracrew.server.terminals.adopting import Adoption
from tests.builders.deliveries import APPLIED, DONE, RUNNING
from tests.server.application import Application, on_one
from tests.server.simulated_runner import SimulatedRunner
from tests.server.terminals.requests import (
    CHANGES_NOTHING,
    act,
    files,
    planned,
    run,
    run_body,
    source,
    status,
    version,
    workspace,
)

pytestmark = on_one


async def adopt(application: Application) -> None:
    await Adoption(application.server.db, application.server.keys).step()


async def count(application: Application, kind: str) -> int:
    return await application.scalar("SELECT count(*) FROM jobs WHERE type = :kind", kind=kind)


async def asked(application: Application, runner: SimulatedRunner, **attributes: Any) -> tuple[str, str]:
    """A module, and the job of a run whose plan waits for an answer."""
    ann = application.admin
    module_id = await workspace(ann)
    job_id = await run(ann, module_id, await version(ann, module_id, files("# x")), **attributes)
    await planned(runner, job_id)
    return module_id, job_id


async def test_of_yes_and_no_only_one_is_heard(application: Application, runner: SimulatedRunner) -> None:
    _, job_id = await asked(application, runner)
    ann = application.admin
    answers = await asyncio.gather(*(act(ann, job_id, each) for each in ("discard", "apply")))
    assert sorted(answers) == [202, 409]
    assert await count(application, "APPLY") == (answers[1] == 202)


async def test_a_discarded_plan_is_applied_by_nobody(application: Application, runner: SimulatedRunner) -> None:
    _, job_id = await asked(application, runner)
    assert await act(application.admin, job_id, "discard") == 202
    assert await status(application.admin, job_id) == "discarded"
    answer = await application.admin.post(f"/api/v1/jobs/{job_id}/apply", json={})
    assert answer.status_code == 409
    assert "has discarded" in answer.json()["detail"]
    page = (await application.admin.get(f"/dashboard/jobs/{job_id}")).text
    assert 'id="prompt">at a prompt' in page
    assert "nobody can apply its plan" in page


async def test_a_speculative_upload_is_never_applied(application: Application, runner: SimulatedRunner) -> None:
    ann = application.admin
    module_id = await workspace(ann)
    upload = await version(ann, module_id, files("# x"), speculative=True)
    job_id = await run(ann, module_id, upload, **{"auto-apply": True})
    await planned(runner, job_id)
    assert await status(ann, job_id) == "planned_and_finished"
    assert await act(ann, job_id, "apply") == 409
    await adopt(application)
    assert (await source(application, module_id))["archive_id"] == ""


async def test_files_become_the_source_once_they_are_applied(application: Application, runner: SimulatedRunner) -> None:
    ann = application.admin
    module_id = await workspace(ann)
    old = await run(ann, module_id, await version(ann, module_id, files("# old")))
    new = await run(ann, module_id, await version(ann, module_id, files("# new")), **{"auto-apply": True})
    await planned(runner, old)
    await adopt(application)
    assert (await source(application, module_id))["archive_id"] == "", "nothing is applied"
    attempt = await runner.again(new, 1)
    await attempt.deliver(RUNNING)
    await attempt.begin()
    await attempt.deliver(APPLIED, DONE)
    await adopt(application)
    newest = await source(application, module_id)
    assert newest["archive_id"]
    await act(ann, old, "apply")
    await adopt(application)
    assert await source(application, module_id) == newest, "an older upload replaces no newer one"


async def test_a_plan_without_changes_makes_its_files_the_source(
    application: Application, runner: SimulatedRunner
) -> None:
    ann = application.admin
    module_id = await workspace(ann)
    job_id = await run(ann, module_id, await version(ann, module_id, files("# x")))
    await planned(runner, job_id, CHANGES_NOTHING)
    await adopt(application)
    assert (await source(application, module_id))["archive_id"]


async def test_a_run_uses_the_working_directory_of_its_module(application: Application) -> None:
    """The clients upload the parent: its top folder would be planned, and everything in the state destroyed."""
    ann = application.admin
    module_id = await workspace(ann, **{"working-directory": "inner"})
    job_id = await run(ann, module_id, await version(ann, module_id, files("# x")))
    job = (await ann.get(f"/api/v1/jobs/{job_id}")).json()
    assert job["source"]["subdirectory"] == "inner"


async def test_two_people_who_confirm_a_refresh_start_one_job_with_its_variables(
    application: Application, runner: SimulatedRunner
) -> None:
    bob = await application.person("bob", "owner")
    given = {"refresh-only": True, "variables": [{"key": "region", "value": '"eu"'}]}
    _, job_id = await asked(application, runner, **given)
    assert {await act(each, job_id, "apply") for each in (application.admin, bob)} <= {202, 409}
    assert await count(application, "APPLY") == 1
    made = await application.scalar("SELECT id FROM jobs WHERE type = 'APPLY'")
    assert await application.scalar("SELECT count(*) FROM job_inputs WHERE job_id = :id", id=made) == 1


async def test_yes_is_no_approval_of_a_job_that_waits(application: Application, runner: SimulatedRunner) -> None:
    ann = application.admin
    module_id = await workspace(ann)
    job_id = await run(ann, module_id, await version(ann, module_id, files("# x")), **{"auto-apply": True})
    assert await act(ann, job_id, "apply") == 409


async def test_the_page_of_a_module_shows_its_labels_and_where_prompts_run(application: Application) -> None:
    ann = application.admin
    module_id = await workspace(ann, **{"execution-mode": "local"})
    tags = [{"type": "tags", "attributes": {"name": "web"}}]
    sent = await ann.post(f"{TFE_BASE}workspaces/{module_id}/relationships/tags", json={"data": tags})
    assert sent.status_code == 204
    page = (await ann.get(f"/dashboard/modules/{module_id}")).text
    assert '<dd id="labels"><span class="tag plain">web</span>' in page
    assert 'id="command-line"' in page


async def test_only_the_first_of_several_uploads_counts(application: Application) -> None:
    ann = application.admin
    module_id = await workspace(ann)
    made = await ann.post(f"{TFE_BASE}workspaces/{module_id}/configuration-versions", json={})
    upload = made.json()["data"]["attributes"]["upload-url"]
    address = upload[upload.index(TFE_BASE) :]
    sent = await asyncio.gather(*(ann.put(address, content=files(f"# {each}")) for each in range(4)))
    assert sorted(each.status_code for each in sent) == [200, 409, 409, 409]


async def test_a_member_of_two_organizations_uses_ids_of_both(application: Application) -> None:
    guest = await application.person("guest", "owner", organization="elsewhere")
    here, who = application.server.organization_id, guest.principal.id
    await application.server.db.write(
        lambda tx: role_store.bind_role(tx, here, "user", who, "owner", "group", "", "test", None)
    )
    module_id = await workspace(guest)
    job_id = await run(guest, module_id, await version(guest, module_id, files("# x")))
    assert await status(guest, job_id) == "plan_queued"
    stranger = await application.person("stranger", "owner", organization="third")
    assert (await stranger.get(f"{TFE_BASE}workspaces/{module_id}")).status_code == 404


@pytest.mark.parametrize("text", ["a\0b", "é" * 2_000])
async def test_a_message_that_cannot_be_kept_starts_nothing(application: Application, text: str) -> None:
    ann = application.admin
    module_id = await workspace(ann)
    upload = await version(ann, module_id, files("# x"))
    answer = await ann.post(f"{TFE_BASE}runs", json=run_body(module_id, upload, message=text, **{"auto-apply": True}))
    is_made = await count(application, "APPLY") == 1
    assert (answer.status_code, is_made) in ((201, True), (400, False))


async def test_configuration_that_nobody_would_write_is_not_promised(application: Application) -> None:
    ann = application.admin
    module_id = await workspace(ann)
    upload = await version(ann, module_id, files("# x"))
    body = run_body(module_id, upload, **{"allow-config-generation": True})
    answer = await ann.post(f"{TFE_BASE}runs", json=body)
    assert answer.status_code == 400
    assert "--command-line terminal" in answer.text
    assert await count(application, "PLAN") == 0
