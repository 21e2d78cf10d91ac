"""Jobs log in for real: to the STS of an emulator of AWS with AWS's own library, and to a real Vault, which checks the token.

The emulator gives the credentials of whatever role it is asked for and does not check the token; Vault reads the server's
published keys and checks the signature, the subject and the audience.
"""

import json
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.system import System
from tests.machine import platforms
from tests.machine.vault_server.client import VaultClient

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300), pytest.mark.feature("X4.identity")]

AWS_LOGIN = """
import boto3, sys
print(boto3.client("sts").get_caller_identity()["Arn"], file=open(sys.argv[1], "w"))
"""
VAULT_LOGIN = """
import json, os, sys, urllib.error, urllib.request
folder, phase = sys.argv[1:]
address, mount = os.environ["VAULT_ADDR"], os.environ["TERRACREW_VAULT_MOUNT"]
found = {}
for role in ("planner", "applier"):
    body = json.dumps({"role": role, "jwt": os.environ["TERRAFORM_VAULT_AUTH_JWT"]}).encode()
    try:
        with urllib.request.urlopen(f"{address}/v1/auth/{mount}/login", body) as answer:
            found[role] = json.load(answer)["auth"]["metadata"]["role"]
    except urllib.error.HTTPError as error:
        found[role] = error.code
found["own"] = os.environ["TERRACREW_VAULT_ROLE"]
json.dump(found, open(f"{folder}/{phase}", "w"))
"""


def run_in_both_phases(system: System, path: str, command: str, **fields: Any) -> str:
    """Apply a module that runs `command PHASE` before its plan and in its apply."""
    main = f'resource "terraform_data" "a" {{\n  provisioner "local-exec" {{ command = "{command}apply" }}\n}}\n'
    system.module(path, main, **fields)
    hook = {"before": {"script": f"#!/bin/sh\nexec {command}plan\n"}}
    system.api.replace(f"/modules/{path}/steps/plan", hook)
    job_id = system.run(path, "APPLY")
    assert system.wait(job_id)["status"] == "SUCCEEDED", system.log(job_id)
    return job_id


@pytest.mark.platform("aws")
def test_the_library_of_aws_assumes_the_role_of_the_phase(system: System, tmp_path: Path) -> None:
    address = platforms.need("aws")
    (script := tmp_path / "login.py").write_text(AWS_LOGIN)
    roles = {f"{phase}_role": f"arn:aws:iam::111122223333:role/{phase}" for phase in ("plan", "apply")}
    system.start_server(runner=True)
    run_in_both_phases(
        system,
        "vpc",
        f"{sys.executable} {script} {tmp_path}/",
        cloud={"aws": {**roles, "region": "eu-central-1"}},
        environment={"AWS_ENDPOINT_URL": address},
    )
    for phase in ("plan", "apply"):
        assert (tmp_path / phase).read_text().strip() == (f"arn:aws:sts::111122223333:assumed-role/{phase}/terracrew-1")


@pytest.mark.platform("vault")
def test_a_real_vault_lets_each_phase_in_as_its_own_role_only(system: System, tmp_path: Path) -> None:
    address, _, root_token = platforms.need("vault").partition("#")
    (script := tmp_path / "login.py").write_text(VAULT_LOGIN)
    vault, mount = VaultClient(address, root_token), f"jwt-{uuid.uuid4().hex}"
    system.start_server(runner=True)
    vault.post(f"sys/auth/{mount}", {"type": "jwt"})
    vault.post(f"auth/{mount}/config", {"oidc_discovery_url": system.url})
    for role, phase in (("planner", "plan"), ("applier", "apply")):
        vault.post(
            f"auth/{mount}/role/{role}",
            {
                "role_type": "jwt",
                "user_claim": "module_id",
                "bound_audiences": address,
                "bound_subject": f"organization:default:module:vpc:phase:{phase}",
                "token_ttl": "5m",
            },
        )
    cloud = {"vault": {"address": address, "plan_role": "planner", "apply_role": "applier", "mount": mount}}
    job_id = run_in_both_phases(system, "vpc", f"{sys.executable} {script} {tmp_path} ", cloud=cloud)
    found = {phase: json.loads((tmp_path / phase).read_text()) for phase in ("plan", "apply")}
    assert found["plan"] == {"planner": "planner", "applier": 400, "own": "planner"}
    assert found["apply"] == {"planner": 400, "applier": "applier", "own": "applier"}
    assert "eyJ" not in system.log(job_id)
