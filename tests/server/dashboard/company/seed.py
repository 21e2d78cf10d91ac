"""A small company's worth of rows, so that pages have something real to show."""

from typing import Any

import msgspec

from terracrew import ids
from terracrew.api.steps import NewStepSettings
from terracrew.protocol.events import Output, PlanSummary, ResourceChange
from terracrew.protocol.spec import Hook, JobType, Step
from terracrew.server.db.seam import Database, Tx
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state.content import state_context
from terracrew.server.tree.step_settings import store as step_settings
from tests.server.dashboard.company import contents
from tests.server.dashboard.company.channels import channels
from tests.server.dashboard.company.cloud import cloud_identities
from tests.server.dashboard.company.discovery import discovery
from tests.server.dashboard.company.forges import forges
from tests.server.dashboard.company.moments import moments
from tests.server.dashboard.company.policies import policies
from tests.server.dashboard.company.pull_requests import pull_requests
from tests.server.dashboard.company.registry import fetch, registry
from tests.server.dashboard.company.rows import Company

PLAN_LOG = """\x1b[0m\x1b[1mmodule.vpc.terraform_data.subnet["a"]: Refreshing state... [id=9f2c]\x1b[0m
\x1b[0m\x1b[1mmodule.vpc.terraform_data.subnet["b"]: Refreshing state... [id=0d11]\x1b[0m

OpenTofu used the selected providers to generate the following execution plan.
Resource actions are indicated with the following symbols:
  \x1b[32m+\x1b[0m create\x1b[0m
  \x1b[33m~\x1b[0m update in-place\x1b[0m

OpenTofu will perform the following actions:

\x1b[1m  # module.vpc.terraform_data.subnet["c"]\x1b[0m will be created
\x1b[0m  \x1b[32m+\x1b[0m\x1b[0m resource "terraform_data" "subnet" {
      \x1b[32m+\x1b[0m\x1b[0m id     = (known after apply)
      \x1b[32m+\x1b[0m\x1b[0m input  = "10.0.3.0/24"
    }

\x1b[1m  # terraform_data.peering\x1b[0m will be updated in-place
\x1b[0m  \x1b[33m~\x1b[0m\x1b[0m resource "terraform_data" "peering" {
        id     = "4be1"
      \x1b[33m~\x1b[0m\x1b[0m input  = "pcx-1" \x1b[33m->\x1b[0m\x1b[0m "pcx-2"
    }

\x1b[1mPlan:\x1b[0m 1 to add, 1 to change, 0 to destroy.
"""
INIT_LOG = (
    "".join(f"- Finding things, part {n} of 90...\n" for n in range(1, 91)) + "\x1b[32mOpenTofu is ready.\x1b[0m\n"
)


def plan(**counts: Any) -> str:
    return msgspec.json.encode(PlanSummary(**counts)).decode()


async def company(db: Database, keys: Keyring, organization_id: str, user_id: str) -> dict[str, str]:
    """Seed everything; returns the ids of jobs worth looking at, by what they show."""

    async def work(tx: Tx) -> dict[str, str]:
        made = Company(tx, organization_id, user_id)
        return await _everything(made, keys)

    return await db.write(work)


async def _hooks(made: Company, module: str) -> None:
    """Hooks and flags of a group, and of a module in it."""
    check = Hook("#!/bin/sh\nset -eu\nconftest test --policy /etc/policies plan.json\n")
    flags = {"tofu": ["-parallelism=5", "-lock-timeout=30s"]}
    group, of = await made.group("payments/prod"), made.organization_id
    await step_settings.put(
        made.tx, group, of, "payments/prod", Step.PLAN, NewStepSettings(check, flags=flags), "priya"
    )
    notify = NewStepSettings(after=Hook(command=["notify-deploy", "--channel", "payments"]))
    await step_settings.put(made.tx, module, of, "payments/prod/ledger", Step.APPLY, notify, "elena")


async def _everything(made: Company, keys: Keyring) -> dict[str, str]:
    network = await made.runner(
        "platform/network/runner", "Platform team, all network modules", allow_multiple_instances=True
    )
    net_a, _ = await made.instance(network, "net-a"), await made.instance(network, "net-b", silent=3)
    payments = await made.runner("payments/prod", is_draining=True, max_jobs=2)
    pay = await made.instance(payments, "pay-1", silent=4, capacity=2)
    frankfurt = await made.runner("frankfurt-prod", type="cloud-hosted", region="eu-central-1")
    await made.instance(frankfurt, "i-0fe3", version="1.3.2")
    await cloud_identities(made, frankfurt)
    warehouse = await made.runner("data/warehouse", "Warehouse loaders")
    await made.instance(warehouse, "dw", silent=1380)
    built_in = await made.runner("built-in", shared=True, max_jobs=100)
    await made.instance(built_in, "server", capacity=64)

    vpc = await made.module("platform/network/vpc-eu", "The network of the European region")
    ledger, dns = await made.module("payments/prod/ledger"), await made.module("platform/dns")
    buckets = await made.module("data/warehouse/buckets", "Raw and curated zones", runner_id=warehouse)
    broken, small = await made.module("payments/test/ledger"), await made.module("hello")
    await _hooks(made, ledger)
    await moments(made, small, broken)
    await channels(made, ledger, "payments/prod/ledger")
    await forges(made, keys)
    await discovery(made, ledger)
    await registry(made)
    await pull_requests(made, {"planned": vpc, "failed": broken, "waiting": dns})

    done = await made.job(
        small, JobType.APPLY, "SUCCEEDED", age=90000, runner_id=built_in, plan=plan(add=2, unchanged=0)
    )
    await fetch(made, done, small, ledger, vpc)
    await made.attempt(done, built_in, net_a, ended_at=made.now, outcome="succeeded")
    await made.steps(done, JobType.APPLY, 7, "")
    await made.log(done, [(Step.INIT, INIT_LOG), (Step.PLAN, PLAN_LOG), (Step.APPLY, "Apply complete!\n")])
    outputs = {"address": Output("10.0.3.7"), "token": Output("hush", is_sensitive=True), "zones": Output(["a", "b"])}
    await made.insert(
        "outputs",
        job_id=done,
        module_id=small,
        sha256="0",
        created_at=made.now,
        content=keys.encrypt(msgspec.json.encode(outputs), f"outputs:{done}"),
    )

    await contents.add_states(made, keys, small, done)
    await contents.add_reference(made, ledger, "address", small, "address")
    await contents.add_reference(made, small, "vpc_id", vpc, "vpc_id")

    failed = await made.job(
        broken,
        JobType.PLAN,
        "FAILED",
        age=4000,
        runner_id=payments,
        message="the plan failed: Invalid function argument on main.tf line 7",
    )
    await made.attempt(failed, payments, pay, ended_at=made.now, outcome="failed")
    await made.steps(failed, JobType.PLAN, 4, "FAILED")
    error = "\x1b[31m╷\x1b[0m\n\x1b[31m│\x1b[0m \x1b[1m\x1b[31mError: \x1b[0m\x1b[1mInvalid function argument\x1b[0m\n\x1b[31m╵\x1b[0m\n"
    await made.log(failed, [(Step.INIT, INIT_LOG), (Step.PLAN, error)])

    await made.job(dns, JobType.PLAN, "CANCELED", age=7000, message="canceled by ada")
    applying = await made.job(ledger, JobType.APPLY, "PROCESSING", age=68, runner_id=payments, instance_id=pay)
    await made.attempt(applying, payments, pay)
    await made.steps(applying, JobType.APPLY, 5)
    await made.log(applying, [(Step.INIT, INIT_LOG), (Step.PLAN, PLAN_LOG), (Step.APPLY, "ledger: Creating...\n")])

    resources = [
        ResourceChange('module.vpc.terraform_data.subnet["c"]', "create"),
        ResourceChange("terraform_data.peering", "update", 'input: "pcx-1" → "pcx-2"'),
        ResourceChange("terraform_data.old_gateway", "delete"),
    ]
    planning = await made.job(
        vpc,
        JobType.PLAN,
        "PROCESSING",
        age=9,
        runner_id=network,
        instance_id=net_a,
        attempt=2,
        plan=plan(add=1, change=1, destroy=1, unchanged=41, resources=resources, outputs={"subnets": "update"}),
    )
    lost = "neither the runner nor the executor is in contact any more"
    await made.attempt(planning, network, net_a, ended_at=made.now, outcome="lost", reason=lost)
    await made.log(planning, [(Step.INIT, INIT_LOG)])
    await made.attempt(planning, network, net_a, number=2)
    await made.steps(planning, JobType.PLAN, 4, attempt=2)
    await made.log(planning, [(Step.INIT, INIT_LOG), (Step.PLAN, PLAN_LOG)], attempt=2)
    await contents.add_diff(made, keys, planning, vpc, 2)
    waiting = await made.job(buckets, JobType.APPLY, "QUEUED", age=1380)
    seen = {"done": done, "failed": failed, "applying": applying, "planning": planning, "waiting": waiting}
    return seen | await _left_to_people(made, keys, network, net_a)


async def approval(made: Company, runner: str, instance: str, path: str, attempt: int = 1) -> tuple[str, str]:
    """Make a job whose plan waits for a person; return the ids of its module and of the job."""
    shown = plan(add=1, change=1, unchanged=41, resources=[ResourceChange("terraform_data.peering", "update")])
    module = await made.module(path, needs_approval=True)
    job = await made.job(
        module,
        JobType.APPLY,
        "AWAITING_APPROVAL",
        age=300,
        plan_attempt=attempt,
        attempt=attempt,
        needs_approval=True,
        plan=shown,
        started_at=made.now - 290,
        runner_id=runner,
    )
    await made.attempt(
        job,
        runner,
        instance,
        number=attempt,
        ended_at=made.now - 30,
        outcome="waiting",
        is_gone=True,
        reason="its plan waits for a person",
    )
    await made.steps(job, JobType.APPLY, 5, "", attempt=attempt)
    await made.log(job, [(Step.INIT, INIT_LOG), (Step.PLAN, PLAN_LOG)], attempt=attempt)
    await made.insert(
        "plans",
        job_id=job,
        attempt=attempt,
        made_job_id=job,
        made_attempt=attempt,
        state_version=3,
        inputs_sha256="0",
        path="/x",
        sha256="0",
        size=1,
        made_at=made.now - 30,
        decide_by=made.now + 20_460,
    )
    return module, job


async def _left_to_people(made: Company, keys: Keyring, runner: str, instance: str) -> dict[str, str]:
    """A plan to approve, an attempt that is lost, and a module in doubt with a state in quarantine."""
    _, asking = await approval(made, runner, instance, "platform/edge/cdn")
    await policies(made, asking)
    firewall = await made.module("platform/edge/firewall", "What may reach us")
    lost = await made.job(firewall, JobType.APPLY, "PROCESSING", age=500, runner_id=runner, instance_id=instance)
    heard: dict[str, Any] = {
        "begun_at": made.now - 480,
        "begun_state_version": 3,
        "started_at": made.now - 490,
        "heard_at": made.now - 200,
    }
    await made.attempt(lost, runner, instance, lost_at=made.now - 140, **heard)
    await made.steps(lost, JobType.APPLY, 5)
    await made.log(lost, [(Step.PLAN, PLAN_LOG), (Step.APPLY, "terraform_data.rule[4]: Creating...\n")])
    behind = await made.job(firewall, JobType.PLAN, "QUEUED", age=100)
    vpn, doubt = await approval(made, runner, instance, "platform/edge/vpn", attempt=2)
    given_up = "lost in the middle of a change; ada said that it is gone"
    await made.attempt(
        doubt,
        runner,
        instance,
        ended_at=made.now - 100,
        outcome="lost",
        reason=given_up,
        is_in_doubt=True,
        lost_at=made.now - 400,
        **heard,
    )
    lines = "terraform_data.key: Creation complete after 0s [id=4f0c77a1]\nterraform_data.tunnel: Creating...\n"
    await made.log(doubt, [(Step.APPLY, lines)])
    await made.insert(
        "notes", job_id=doubt, attempt=1, event=9, text="reported FAILED too late: out of time", created_at=made.now
    )
    held = await made.job(vpn, JobType.PLAN, "QUEUED", age=20)
    for number, status, serial, lineage in (
        (1, "current", 7, "5e1c0f"),
        (2, "quarantined", 9, "5e1c0f"),
        (3, "quarantined", 6, "5e1c0f"),
    ):
        await made.insert(
            "states",
            id=ids.new("sta"),
            module_id=vpn,
            status=status,
            job_id=doubt,
            attempt=1,
            event=number,
            origin="engine" if number < 3 else "errored",
            serial=serial,
            lineage=lineage,
            sha256="0",
            size=2048,
            content=keys.encrypt(b'{"version":4}', state_context(vpn, doubt, 1, number)),
            created_at=made.now - 3600 / number,
            version=3 if status == "current" else None,
        )
    return {"asking": asking, "lost": lost, "behind": behind, "doubt": doubt, "held": held}
