"""What people paste into AWS for an identity: who may use its role, what the role may do, and the same as OpenTofu."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from terracrew.api.cloud_identities import Way
from terracrew.clouds.aws import permissions, policies
from terracrew.clouds.model import AwsAccount, CloudIdentity
from terracrew.toolchains import discovery
from tests.machine.needs import need

ACCOUNT = "111122223333"
MAX_MANAGED_POLICY_CHARACTERS = 6144


def identity(way: Way = "web_identity", role: str = "role/terracrew", **changes: Any) -> CloudIdentity:
    cloud = AwsAccount(role_arn=f"arn:aws:iam::{ACCOUNT}:{role}", external_id="tc-4f1c", region="eu-central-1", way=way)
    usual: dict[str, Any] = {
        "id": "cid_1",
        "organization_id": "org_1",
        "name": "production",
        "subject": "organization:acme:cloud-identity:production:x1",
        "audience": "sts.amazonaws.com",
        "issuer": "https://crew.acme.example/issuer",
        "cloud": cloud,
    }
    return CloudIdentity(**(usual | changes))


def test_only_tokens_of_this_identity_open_a_role_of_a_web_identity() -> None:
    (statement,) = policies.trust_policy(identity())["Statement"]
    assert statement == {
        "Effect": "Allow",
        "Principal": {"Federated": f"arn:aws:iam::{ACCOUNT}:oidc-provider/crew.acme.example/issuer"},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {
            "StringEquals": {
                "crew.acme.example/issuer:aud": "sts.amazonaws.com",
                "crew.acme.example/issuer:sub": "organization:acme:cloud-identity:production:x1",
            }
        },
    }


def test_a_workload_needs_the_external_id_of_this_identity() -> None:
    (statement,) = policies.trust_policy(identity("workload"), "arn:aws:iam::444455556666:role/server")["Statement"]
    assert statement["Principal"] == {"AWS": "arn:aws:iam::444455556666:role/server"}
    assert statement["Action"] == "sts:AssumeRole"
    assert statement["Condition"] == {"StringEquals": {"sts:ExternalId": "tc-4f1c"}}


def test_what_changes_something_is_allowed_only_on_things_with_our_names_or_tags() -> None:
    for statement in permissions.needed(policies.account_of(identity())):
        for action in statement.actions:
            verb = action.partition(":")[2]
            if re.match("Describe|Get|List|Simulate", verb) or action in CANNOT_BE_NARROWED:
                continue
            is_named = all("terracrew" in resource for resource in statement.resources)
            assert is_named or statement.condition, f"{action} is allowed on things of others"


CANNOT_BE_NARROWED = {
    "ec2:CreateSecurityGroup": "a new group has no tag yet, and its name is no part of its ARN",
    "ecs:DeregisterTaskDefinition": "AWS has no resources for it",
}


def test_a_role_is_given_to_tasks_alone_and_a_role_of_people_only_if_it_is_named() -> None:
    own = f"arn:aws:iam::{ACCOUNT}:role/deployer"
    found = {each.sid: each for each in permissions.needed(policies.account_of(identity()), job_roles=[own])}
    given = found["GiveRoles"]
    assert given.resources == [f"arn:aws:iam::{ACCOUNT}:role/terracrew-*", own]
    assert given.condition == {"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}}


def test_a_role_whose_name_is_like_those_that_it_makes_cannot_change_itself() -> None:
    """It could otherwise give itself every permission."""
    last = policies.permission_policy(identity(role="role/fleet/terracrew-fleet"))["Statement"][-1]
    assert last["Effect"] == "Deny"
    assert last["Resource"] == f"arn:aws:iam::{ACCOUNT}:role/fleet/terracrew-fleet"
    assert "iam:PutRolePolicy" in last["Action"]
    assert all(each["Effect"] == "Allow" for each in policies.permission_policy(identity())["Statement"])


def test_the_policy_is_short_enough_for_a_managed_one() -> None:
    policy = policies.permission_policy(identity(), clusters=["shared"], job_roles=["arn:aws:iam::1:role/deployer"])
    assert len(json.dumps(policy, separators=(",", ":"))) < MAX_MANAGED_POLICY_CHARACTERS
    sids = [each["Sid"] for each in policy["Statement"]]
    assert len(set(sids)) == len(sids)
    assert json.loads(policies.to_json(policy)) == policy


@pytest.mark.parametrize("way", ["web_identity", "workload"])
def test_the_snippet_is_formatted_and_says_the_same_as_the_json(way: Way, tmp_path: Path) -> None:
    """OpenTofu itself reads it. The names of an organization may contain what HCL would replace."""
    found = discovery.find("tofu")
    need(None if found else "OpenTofu is not installed")
    assert found is not None
    hostile = 'organization:${path.cwd}%{if true}"\\:cloud-identity:x'
    chosen = identity(way, role="role/fleet/terracrew", subject=hostile)
    snippet = policies.to_opentofu(chosen)
    file = tmp_path / "main.tf"
    file.write_text(snippet)
    run = [str(found.path), f"-chdir={tmp_path}"]
    subprocess.run([*run, "fmt", "-check", "-diff"], check=True)
    # The provider for AWS is not here, so the values are read without it.
    principal = {"web_identity": policies.provider_arn(chosen), "workload": policies.PRINCIPAL_PLACEHOLDER}[way]
    plain = re.sub(r'resource "aws_iam_\w+" "terracrew" {\n  (?:url|name) +=', "locals {\n  unused_COUNT =", snippet)
    for part in ("one", "two", "three"):
        plain = plain.replace("unused_COUNT", f"unused_{part}", 1)
    plain = re.sub("aws_iam_openid_connect_provider.terracrew.arn|var.terracrew_server_role", f'"{principal}"', plain)
    file.write_text(plain.replace("aws_iam_role.terracrew.id", '"terracrew"'))
    asked = "jsonencode([local.assume_role_policy, local.policy])\n"
    printed = subprocess.run([*run, "console"], input=asked, capture_output=True, text=True, check=True).stdout
    trust, allowed = (json.loads(text) for text in json.loads(json.loads(printed.splitlines()[-1])))
    assert trust == policies.trust_policy(chosen)
    assert allowed == policies.permission_policy(chosen)
    assert ("aws_iam_openid_connect_provider" in snippet) == (way == "web_identity")
    assert 'path = "/fleet/"' in snippet
