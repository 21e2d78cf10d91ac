"""Checks what people choose about a cloud-hosted runner against its identity. All functions are pure.

Whoever may change the runners of a group chooses these. The names of roles and clusters are written into the permissions that an
administrator pastes into the account, so none of them may stand for several. What a deployment has made for one runner is not used for
another one: the roles of a runner in AWS can read its worker token, and its service account in Kubernetes can prove that it is this runner.
"""

import re
from collections.abc import Sequence

from terracrew.api.deployments import DeploymentSettings
from terracrew.clouds.model import AwsAccount, CloudSettings
from terracrew.errors import Invalid
from terracrew.server.cloud_identities import rules

MAX_NAMED_COUNT = 16
"""How many subnets, or security groups, a runner names at most. AWS itself takes as many subnets."""
_IMAGE = re.compile(r"[!-~]{1,1000}")
_CLUSTER = re.compile(r"[A-Za-z0-9_-]{1,255}")
_SUBNET, _SECURITY_GROUP = re.compile(r"subnet-[0-9a-z]{1,40}"), re.compile(r"sg-[0-9a-z]{1,40}")
_SERVICE_ACCOUNT = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_MADE_CLUSTER = re.compile(r"terracrew-[0-9a-f]{12}")
_MADE_ROLE = re.compile(r"terracrew-[0-9a-f]{12}-(execution|task)")
_MADE_ACCOUNT = re.compile(r"terracrew-[0-9a-f]{32}")


def check(settings: DeploymentSettings, cloud: CloudSettings) -> None:
    """Raise Invalid, with the name of the setting, for one that the cloud of the identity cannot have or must not get."""
    if settings.image and not _IMAGE.fullmatch(settings.image):
        raise _wrong("image", settings.image, "is not the name of an image")
    if isinstance(cloud, AwsAccount):
        _check_aws(settings, cloud)
    elif settings.job_role:
        _check_service_account(settings.job_role)


def _check_aws(settings: DeploymentSettings, account: AwsAccount) -> None:
    if settings.job_role:
        _check_role(settings.job_role, account)
    if settings.cluster and not _CLUSTER.fullmatch(settings.cluster):
        raise _wrong("cluster", settings.cluster, "is not the name of a cluster")
    if _MADE_CLUSTER.fullmatch(settings.cluster):
        raise _wrong(
            "cluster", settings.cluster, "is the cluster that was made for one runner: name another one, or none"
        )
    _check_each("subnets", settings.subnets, _SUBNET, "is not the id of a subnet")
    _check_each("security_groups", settings.security_groups, _SECURITY_GROUP, "is not the id of a security group")


def _check_role(role: str, account: AwsAccount) -> None:
    own = rules.account_of(account.role_arn)
    if rules.account_of(role) != own:
        raise _wrong("job_role", role, f"is not the ARN of a role of the account {own}")
    if role.lower() == account.role_arn.lower():
        raise _wrong("job_role", role, "is the role of the cloud identity itself, which jobs must not have")
    if _MADE_ROLE.fullmatch(role.rpartition("/")[2].lower()):
        raise _wrong("job_role", role, "was made for one runner, whose secrets it can read: name another one, or none")


def _check_service_account(name: str) -> None:
    if not _SERVICE_ACCOUNT.fullmatch(name):
        raise _wrong("job_role", name, "is not the name of a service account")
    if _MADE_ACCOUNT.fullmatch(name):
        raise _wrong("job_role", name, "was made for one runner, which it stands for: name another one, or none")


def _check_each(field: str, given: Sequence[str], pattern: re.Pattern[str], words: str) -> None:
    if len(given) > MAX_NAMED_COUNT:
        raise Invalid.in_field(field, f"{len(given)} are too many: at most {MAX_NAMED_COUNT}")
    for each in given:
        if not pattern.fullmatch(each):
            raise _wrong(field, each, words)


def _wrong(field: str, text: str, words: str) -> Invalid:
    return Invalid.in_field(field, f"{text[:200]!r} {words}")
