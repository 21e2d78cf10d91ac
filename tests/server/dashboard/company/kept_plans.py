"""PLAN jobs that have kept their plans, so that pages can offer to apply them."""

from typing import Any

import msgspec

from terracrew import ids
from terracrew.protocol.events import PlanSummary, ResourceChange
from terracrew.protocol.spec import JobType, Step
from terracrew.server.jobs.attempts import claims
from terracrew.server.secrets.keyring import Keyring
from tests.builders.job_rows import change_modules
from tests.server.dashboard.company.rows import Company

CHANGES_TWO = PlanSummary(
    add=1,
    change=1,
    unchanged=41,
    existing=42,
    resources=[
        ResourceChange("terraform_data.peering", "update"),
        ResourceChange('module.vpc.terraform_data.subnet["c"]', "create"),
    ],
)
DESTROYS_TWO = PlanSummary(
    destroy=2,
    existing=42,
    unchanged=40,
    resources=[ResourceChange("terraform_data.peering", "delete"), ResourceChange("terraform_data.route", "delete")],
)
CHANGES_NOTHING = PlanSummary(existing=42, unchanged=42)
SOURCE = '{"kind":"local","path":"/srv/sources/x"}'
"""The source of all jobs of the company."""
LOG = "\x1b[1mPlan:\x1b[0m 1 to add, 1 to change, 0 to destroy.\n"


async def kept_plan(
    made: Company, keys: Keyring, path: str, summary: PlanSummary = CHANGES_TWO, **job_fields: Any
) -> tuple[str, str]:
    """Make a PLAN job that has succeeded and kept its plan, if that changes something. Returns the ids of its module and of the job."""
    instance = await made.tx.one("SELECT id, runner_id FROM instances WHERE name = 'net-a'")
    assert instance is not None
    module, runner = await made.module(path), instance["runner_id"]
    has_changes = bool(summary.resources)
    times = {"started_at": made.now - 290, "finished_at": made.now - 280}
    fields = {"plan": msgspec.json.encode(summary).decode(), "runner_id": runner, **times, **job_fields}
    if has_changes:
        fields["plan_attempt"] = 1
    await change_modules(made.tx, module, source=SOURCE)
    job = await made.job(module, JobType.PLAN, "SUCCEEDED", age=300, **fields)
    ended = {"ended_at": made.now - 280, "outcome": "succeeded", "is_gone": True, "has_result": True}
    await made.attempt(job, runner, instance["id"], number=1, **ended)
    await made.steps(job, JobType.PLAN, 5, "")
    await made.log(job, [(Step.PLAN, LOG)])
    if not has_changes:
        return module, job
    version = await made.tx.one("SELECT state_version FROM modules WHERE id = :id", id=module)
    await made.insert(
        "plans",
        job_id=job,
        attempt=1,
        made_job_id=job,
        made_attempt=1,
        state_version=version["state_version"] if version else 0,
        inputs_sha256=await claims.inputs_sha256_now(made.tx, keys, job),
        path="/x",
        sha256="0",
        size=1,
        made_at=made.now - 280,
        decide_by=made.now + 604_000,
    )
    return module, job


async def planned_group(made: Company, keys: Keyring) -> tuple[str, str]:
    """Make a group whose modules were planned together. Returns the ids of the group and of the run."""
    summaries = {"network": CHANGES_TWO, "database": DESTROYS_TWO, "queue": CHANGES_NOTHING}
    planned = {f"shop/{name}": await kept_plan(made, keys, f"shop/{name}", each) for name, each in summaries.items()}
    group, run = await made.group("shop"), ids.new("grn")
    by = {"started_by": made.user_id, "started_by_name": "admin"}
    times = {"created_at": made.now - 300, "finished_at": made.now - 280}
    where = {"organization_id": made.organization_id, "group_id": group, "path": "shop"}
    await made.insert("group_runs", id=run, type="PLAN", status="SUCCEEDED", **where, **by, **times)
    for path, (module, job) in planned.items():
        found = {"module_id": module, "path": path, "position": int(path == "shop/queue"), "waits_for": "[]"}
        await made.insert("group_run_modules", run_id=run, job_id=job, status="SUCCEEDED", **found)
    return group, run
