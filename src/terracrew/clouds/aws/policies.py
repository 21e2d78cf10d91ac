"""What people paste into AWS for a cloud identity: who may assume its role, and what the role may do. As JSON and as OpenTofu."""

import json
from collections.abc import Sequence
from typing import Any

from terracrew.clouds.aws import hcl, permissions
from terracrew.clouds.aws.names import PREFIX
from terracrew.clouds.model import AwsAccount, CloudIdentity

POLICY_VERSION = "2012-10-17"
PRINCIPAL_PLACEHOLDER = "arn:aws:iam::ACCOUNT-OF-THE-SERVER:role/ROLE-OF-THE-SERVER"
"""What people replace, because the server does not know as whom it calls AWS. AWS accepts no policy that still has it."""

Document = dict[str, Any]


def account_of(identity: CloudIdentity) -> AwsAccount:
    if not isinstance(identity.cloud, AwsAccount):
        raise TypeError(f"{identity.name} is no identity of AWS")
    return identity.cloud


def issuer_name(identity: CloudIdentity) -> str:
    """Return the issuer as IAM names it: without the scheme."""
    return identity.issuer.removeprefix("https://").rstrip("/")


def provider_arn(identity: CloudIdentity) -> str:
    arn = permissions.parsed_arn(account_of(identity).role_arn)
    return f"arn:{arn.partition}:iam::{arn.account}:oidc-provider/{issuer_name(identity)}"


def trust_policy(identity: CloudIdentity, principal: str = PRINCIPAL_PLACEHOLDER) -> Document:
    """Return who may assume the role: this identity alone. `principal` is the role that the server itself has in AWS."""
    account = account_of(identity)
    if account.way == "web_identity":
        name = issuer_name(identity)
        statement: Document = {
            "Effect": "Allow",
            "Principal": {"Federated": provider_arn(identity)},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {"StringEquals": {f"{name}:aud": identity.audience, f"{name}:sub": identity.subject}},
        }
    else:
        statement = {
            "Effect": "Allow",
            "Principal": {"AWS": principal},
            "Action": "sts:AssumeRole",
            "Condition": {"StringEquals": {"sts:ExternalId": account.external_id}},
        }
    return {"Version": POLICY_VERSION, "Statement": [statement]}


def permission_policy(
    identity: CloudIdentity, *, clusters: Sequence[str] = (), job_roles: Sequence[str] = ()
) -> Document:
    """Return what the role may do: the least that deployments need. `clusters` and `job_roles` are those that people have named."""
    account = account_of(identity)
    statements = [each.to_policy() for each in permissions.needed(account, clusters=clusters, job_roles=job_roles)]
    if permissions.parsed_arn(account.role_arn).name.startswith(PREFIX):
        # The role may change roles with this prefix, and could otherwise give itself every permission.
        statements.append(
            {"Sid": "NotItself", "Effect": "Deny", "Action": _CHANGES_OF_ROLES, "Resource": account.role_arn}
        )
    return {"Version": POLICY_VERSION, "Statement": statements}


_CHANGES_OF_ROLES = ["iam:CreateRole", "iam:DeleteRole", "iam:DeleteRolePolicy", "iam:PassRole", "iam:PutRolePolicy"]


def to_json(document: Document) -> str:
    """Return a policy as people paste it."""
    return json.dumps(document, indent=2)


def to_opentofu(identity: CloudIdentity, *, clusters: Sequence[str] = (), job_roles: Sequence[str] = ()) -> str:
    """Return resources for OpenTofu or Terraform that make the role, and the identity provider if it needs one."""
    account = account_of(identity)
    arn = permissions.parsed_arn(account.role_arn)
    blocks: list[str] = []
    if account.way == "web_identity":
        provider = hcl.block(
            'resource "aws_iam_openid_connect_provider" "terracrew"',
            {"url": identity.issuer.rstrip("/"), "client_id_list": [identity.audience]},
        )
        blocks.append(
            f"# An account has one identity provider for each issuer: leave this out if there is one.\n{provider}"
        )
        trust = trust_policy(identity)
        trust["Statement"][0]["Principal"] = {
            "Federated": hcl.Expression("aws_iam_openid_connect_provider.terracrew.arn")
        }
    else:
        words = "The ARN of the role that the Terracrew server has in AWS."
        variable = {"type": hcl.Expression("string"), "description": words}
        blocks.append(hcl.block('variable "terracrew_server_role"', variable))
        trust = trust_policy(identity)
        trust["Statement"][0]["Principal"] = {"AWS": hcl.Expression("var.terracrew_server_role")}
    allowed = permission_policy(identity, clusters=clusters, job_roles=job_roles)
    role: dict[str, Any] = {"name": arn.name, "assume_role_policy": hcl.FunctionCall("jsonencode", trust)}
    if path := account.role_arn.partition(":role/")[2].rpartition("/")[0]:
        role["path"] = f"/{path}/"
    policy = {
        "name": "terracrew",
        "role": hcl.Expression("aws_iam_role.terracrew.id"),
        "policy": hcl.FunctionCall("jsonencode", allowed),
    }
    blocks.append(hcl.block('resource "aws_iam_role" "terracrew"', role))
    blocks.append(hcl.block('resource "aws_iam_role_policy" "terracrew"', policy))
    return "\n".join(blocks)
