"""Cloud logins with the real engine: what the tools of clouds find when a module is planned and when it is applied."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cloud import as_a_cloud_reads_it
from tests.e2e.modules import quick
from tests.e2e.system import System

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180), pytest.mark.feature("X4.identity")]

ACCOUNT = "arn:aws:iam::111122223333:role"
UUIDS = [f"00000000-0000-0000-0000-00000000000{digit}" for digit in range(4)]
PROVIDER = "projects/7/locations/global/workloadIdentityPools/crew/providers/terracrew"
CLOUD = {
    "aws": {"plan_role": f"{ACCOUNT}/plan", "apply_role": f"{ACCOUNT}/apply", "region": "eu-central-1"},
    "azure": {
        "tenant_id": UUIDS[0],
        "plan_client_id": UUIDS[1],
        "apply_client_id": UUIDS[2],
        "subscription_id": UUIDS[3],
    },
    "gcp": {
        "workload_identity_provider": PROVIDER,
        "plan_service_account": "plan@crew.iam.gserviceaccount.com",
        "apply_service_account": "apply@crew.iam.gserviceaccount.com",
    },
    "vault": {
        "address": "https://vault.example:8200",
        "plan_role": "planner",
        "apply_role": "applier",
        "mount": "crew",
    },
}

SCRIPT = r"""#!/bin/sh
set -e
env | grep -E '^(AWS|ARM|GOOGLE|VAULT|TERRAFORM_VAULT|TERRACREW_VAULT|TF_VAR)_' > FOLDER/PHASE-variables
for file in "$AWS_WEB_IDENTITY_TOKEN_FILE" "$ARM_OIDC_TOKEN_FILE_PATH" "$GOOGLE_APPLICATION_CREDENTIALS"; do
  stat -c %a "$file" >> FOLDER/PHASE-modes
done
cp "$AWS_WEB_IDENTITY_TOKEN_FILE" FOLDER/PHASE-aws
cp "$ARM_OIDC_TOKEN_FILE_PATH" FOLDER/PHASE-azure
cp "$GOOGLE_APPLICATION_CREDENTIALS" FOLDER/PHASE-account
cp "$(grep '"file"' "$GOOGLE_APPLICATION_CREDENTIALS" | cut -d '"' -f 4)" FOLDER/PHASE-gcp
"""


def witness(folder: Path, phase: str) -> str:
    """A script that copies the variables of clouds, and the files that they name, into a folder."""
    return SCRIPT.replace("FOLDER", str(folder)).replace("PHASE", phase)


def applied(folder: Path) -> str:
    """A module that runs the script when it is applied, and then prints a token."""
    script = folder / "apply.sh"
    script.write_text(witness(folder, "apply"))
    script.chmod(0o755)
    return f"""
variable "terracrew_vault_role" {{
  default   = "none"
  ephemeral = true
}}
resource "terraform_data" "a" {{
  provisioner "local-exec" {{ command = "{script}; cat $AWS_WEB_IDENTITY_TOKEN_FILE; echo ' was it'" }}
}}
resource "terraform_data" "b" {{
  provisioner "local-exec" {{ command = "echo ${{var.terracrew_vault_role}} > {folder}/role" }}
}}
"""


def variables(folder: Path, phase: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in (folder / f"{phase}-variables").read_text().splitlines())


def test_plan_and_apply_log_in_as_different_roles_without_any_script(system: System, tmp_path: Path) -> None:
    folder = tmp_path / "witness"
    folder.mkdir()
    environment = {"AWS_ACCESS_KEY_ID": "the-runner's", "VAULT_TOKEN": "the-runner's"}
    system.env |= environment
    system.start_server(runner=True)
    system.module("net/vpc", applied(folder), cloud={"aws": CLOUD["aws"]}, environment={"AWS_REGION": "us-east-1"})
    inherited = {**CLOUD, "aws": {"plan_role": f"{ACCOUNT}/other", "apply_role": f"{ACCOUNT}/other"}}
    system.api.patch("/groups/net", {"cloud": inherited})
    system.api.replace("/modules/net%2Fvpc/steps/plan", {"before": {"script": witness(folder, "plan")}})
    job_id = system.run("net/vpc", "APPLY")
    assert system.wait(job_id)["status"] == "SUCCEEDED", system.log(job_id)
    for phase, client, vault in (("plan", UUIDS[1], "planner"), ("apply", UUIDS[2], "applier")):
        found = variables(folder, phase)
        assert found["AWS_ROLE_ARN"] == f"{ACCOUNT}/{phase}", "the identity of the module counts, and not the group's"
        assert found["AWS_REGION"] == "us-east-1", "what the module sets itself is not replaced"
        assert found["AWS_ROLE_SESSION_NAME"] == "terracrew-1"
        assert (found["ARM_USE_OIDC"], found["ARM_TENANT_ID"], found["ARM_CLIENT_ID"]) == ("true", UUIDS[0], client)
        assert found["ARM_SUBSCRIPTION_ID"] == UUIDS[3]
        assert found["VAULT_ADDR"] == "https://vault.example:8200"
        assert (found["TERRACREW_VAULT_ROLE"], found["TERRACREW_VAULT_MOUNT"]) == (vault, "crew")
        assert not found.keys() & environment.keys(), "the runner's own credentials would be used instead"
        account: dict[str, Any] = json.loads((folder / f"{phase}-account").read_text())
        assert account["audience"] == f"//iam.googleapis.com/{PROVIDER}"
        assert f"/{phase}@crew.iam.gserviceaccount.com:" in account["service_account_impersonation_url"]
        assert set((folder / f"{phase}-modes").read_text().split()) == {"600"}
        audiences = {
            "aws": "sts.amazonaws.com",
            "azure": "api://AzureADTokenExchange",
            "gcp": f"https://iam.googleapis.com/{PROVIDER}",
        }
        tokens = {name: (folder / f"{phase}-{name}").read_text() for name in audiences}
        tokens["vault"], audiences["vault"] = found["TERRAFORM_VAULT_AUTH_JWT"], "https://vault.example:8200"
        for name, token in tokens.items():
            claims = as_a_cloud_reads_it(system, token)
            assert claims["sub"] == f"organization:default:module:net/vpc:phase:{phase}", name
            assert (claims["aud"], claims["phase"], claims["job_id"]) == (audiences[name], phase, job_id)
            assert token not in system.log(job_id)
    assert (folder / "role").read_text() == "applier\n", (
        "the role of the apply, although the plan was made with another"
    )
    assert "*** was it" in system.log(job_id)
    assert list(tmp_path.glob("**/provided/oidc")) == []
    assert list(tmp_path.glob("**/provided/google-account.json")) == []
    assert system.job(job_id)["cloud"]["aws"]["apply_role"] == f"{ACCOUNT}/apply"


def test_a_module_that_sets_credentials_itself_is_told_before_anything_runs(system: System, tmp_path: Path) -> None:
    system.start_server(runner=True)
    system.module("vpc", quick(), cloud={"aws": CLOUD["aws"]}, environment={"AWS_ACCESS_KEY_ID": "AKIA"})
    job = system.wait(system.run("vpc", "APPLY"))
    assert job["status"] == "FAILED"
    assert "sets AWS_ACCESS_KEY_ID, and it has a cloud login for aws" in job["message"]
    statuses = {step["name"]: step["status"] for step in job["steps"]}
    assert {statuses[name] for name in ("init", "plan", "apply")} == {"SKIPPED"}
