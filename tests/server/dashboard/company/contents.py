"""What a module of the company has: the diff of a plan, two versions of a state, and modules that use each other's outputs."""

import json
from typing import Any

from terracrew import ids
from terracrew.plan_diff import document
from terracrew.plan_diff.document import PlanDescription, PlannedOutput
from terracrew.plan_diff.resources import PlannedResource, Values
from terracrew.server.jobs.plans import diff_store
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import content
from tests.server.dashboard.company.rows import Company

_POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["sqs:SendMessage"]}]}
_QUEUES = [f"arn:aws:sqs:eu-central-1:412806634510:ledger-{name}" for name in ("postings", "refunds", "payouts", "dlq")]


def plan_diff() -> bytes:
    """Return the diff of a plan that changes one resource of each kind."""
    policy = _POLICY | {"Statement": [*_POLICY["Statement"], {"Effect": "Allow", "Resource": _QUEUES}]}
    before = {
        "input": "pcx-1",
        "password": "old",
        "policy": json.dumps(_POLICY),
        "accepter": [{"allow_remote_dns": False, "tags": {"owner": "net"}}],
        "id": "4be1",
        "region": "eu-central-1",
    }
    after = before | {
        "input": "pcx-2",
        "password": "new",
        "policy": json.dumps(policy),
        "accepter": [{"allow_remote_dns": True, "tags": {"owner": "net"}}],
    }
    hidden = {"password": True}
    resources = [
        _planned(
            'module.vpc.terraform_data.subnet["c"]', "create", None, {"input": "10.0.3.0/24"}, unknown={"id": True}
        ),
        PlannedResource(
            "terraform_data.peering", "update", lambda: Values(before, after, {"arn": True}, hidden, hidden)
        ),
        PlannedResource(
            "terraform_data.old_gateway",
            "delete",
            lambda: Values({"id": "igw-1", "input": "10.0.0.1"}),
            reason="delete_because_no_resource_config",
        ),
    ]
    outputs = [PlannedOutput("subnets", Values(["a", "b"], None, True))]
    return document.build(PlanDescription(resources, outputs), lambda text: text)


def _planned(address: str, action: Any, before: Any, after: Any, unknown: Any = None) -> PlannedResource:
    return PlannedResource(address, action, lambda: Values(before, after, unknown))


async def add_diff(made: Company, keys: Keyring, job_id: str, module_id: str, attempt: int) -> None:
    sealed = keys.encrypt(plan_diff(), diff_store.context(job_id))
    await made.insert(
        "plan_diffs",
        job_id=job_id,
        attempt=attempt,
        module_id=module_id,
        sha256="0" * 64,
        content=sealed,
        created_at=made.now,
    )


def state(serial: int, size: str) -> bytes:
    """Return a state of OpenTofu with resources in two modules, one of which has a password."""
    database = {"id": "db-LEDGER7QXK2", "instance_class": size, "password": f"hush-{serial}"}
    names = ["daily", "weekly"][:serial]
    resources = [
        _resource("aws_db_instance", "ledger", [{"attributes": database, "sensitive_attributes": []}]),
        _resource("aws_iam_policy", "ledger", [{"attributes": {"id": "arn:aws:iam::412806634510:policy/ledger"}}]),
        _resource(
            "aws_backup_plan",
            "all",
            [{"index_key": name, "attributes": {"id": f"6f2d-{name}"}} for name in names],
            module="module.backup",
        ),
    ]
    found: dict[str, Any] = {"version": 4, "serial": serial, "lineage": "5e1c0f", "resources": resources, "outputs": {}}
    return json.dumps(found).encode()


def _resource(type_: str, name: str, instances: list[dict[str, Any]], module: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {"mode": "managed", "type": type_, "name": name, "instances": instances}
    return found | ({"module": module} if module else {})


async def add_states(made: Company, keys: Keyring, module_id: str, job_id: str) -> None:
    """Add two versions of the state of a module."""
    for number, size in ((1, "db.r6g.large"), (2, "db.r6g.xlarge")):
        plain = state(number, size)
        bound_to = content.state_context(module_id, job_id, 1, number)
        await made.insert(
            "states",
            id=ids.new("sta"),
            module_id=module_id,
            status="current" if number == 2 else "superseded",
            job_id=job_id,
            attempt=1,
            event=number,
            origin="engine",
            serial=number,
            lineage="5e1c0f",
            sha256="0",
            size=len(plain),
            content=keys.encrypt(plain, bound_to),
            created_at=made.now - 3600 / number,
            version=number,
            resources=2 + number,
        )


async def add_reference(made: Company, module_id: str, name: str, source_id: str, output: str) -> None:
    """Make an output of one module an input of another."""
    await made.insert(
        "inputs",
        id=ids.new("inp"),
        place_id=module_id,
        target="variable",
        name=name,
        version=1,
        kind="output",
        set_by="usr_0",
        set_by_name="ada",
        set_at=made.now,
        source_module_id=source_id,
        source_output=output,
    )
