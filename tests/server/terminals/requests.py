"""The requests that a command line makes, in a few lines each."""

from typing import Any

import msgspec

from terracrew.protocol.events import KeptPlan, PlanSummary, ResourceChange, Result
from terracrew.server.http.engine_services import TFE_BASE
from tests.builders.deliveries import RUNNING, fact, log
from tests.server.application import Application, Person
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.modules.packed_modules import packed

ADDS_ONE = PlanSummary(add=1, existing=1, resources=[ResourceChange("terraform_data.a", "create")])
CHANGES_NOTHING = PlanSummary(existing=1, unchanged=1)


def files(text: str) -> bytes:
    return packed(("main.tf", text.encode()), ("inner/main.tf", text.encode()))


async def workspace(who: Person, name: str = "app", **attributes: Any) -> str:
    body = {"data": {"type": "workspaces", "attributes": {"name": name, **attributes}}}
    address, client = f"{TFE_BASE}organizations/default/workspaces", {"User-Agent": "OpenTofu/1.12.6"}
    answer = await who.post(address, json=body, headers=client)
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]["id"]


async def version(who: Person, module_id: str, content: bytes, **attributes: Any) -> str:
    address = f"{TFE_BASE}workspaces/{module_id}/configuration-versions"
    answer = await who.post(address, json={"data": {"attributes": attributes}})
    assert answer.status_code == 201, answer.text
    upload = answer.json()["data"]["attributes"]["upload-url"]
    sent = await who.put(upload[upload.index(TFE_BASE) :], content=content, headers={"Authorization": ""})
    assert sent.status_code == 200, sent.text
    return answer.json()["data"]["id"]


async def run(who: Person, module_id: str, version_id: str = "", **attributes: Any) -> str:
    """Start a run, and return the id of its job."""
    answer = await who.post(f"{TFE_BASE}runs", json=run_body(module_id, version_id, **attributes))
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]["id"].replace("run-", "job_")


def run_body(module_id: str, version_id: str = "", **attributes: Any) -> Any:
    related: dict[str, Any] = {"workspace": {"data": {"type": "workspaces", "id": module_id}}}
    if version_id:
        related["configuration-version"] = {"data": {"type": "configuration-versions", "id": version_id}}
    return {"data": {"type": "runs", "attributes": attributes, "relationships": related}}


async def act(who: Person, job_id: str, action: str) -> int:
    """Say yes or no, and return the status of the answer."""
    return (await who.post(f"{TFE_BASE}runs/{job_id}/actions/{action}", json={})).status_code


async def status(who: Person, job_id: str) -> str:
    return (await who.get(f"{TFE_BASE}runs/{job_id}")).json()["data"]["attributes"]["status"]


async def source(application: Application, module_id: str) -> Any:
    text = await application.scalar("SELECT source FROM modules WHERE id = :id", id=module_id)
    return msgspec.json.decode(text)


async def planned(runner: SimulatedRunner, job_id: str, summary: PlanSummary = ADDS_ONE) -> None:
    """Let a runner make the plan of a PLAN, and keep it."""
    made = await runner.again(job_id, 1)
    state_version = await runner.app.scalar("SELECT state_version FROM modules WHERE id = :id", id=made.module_id)
    kept = KeptPlan(state_version, "cd" * 32, 2, f"/workspaces/{job_id}.1", "ab" * 32)
    result = Result("SUCCEEDED", kept=kept if summary is ADDS_ONE else None)
    await made.deliver(RUNNING, log("planned\n"), fact(summary), fact(result))
