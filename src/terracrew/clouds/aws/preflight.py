"""What a deployment would need beside permissions: vCPUs, addresses and the image."""

import math
import re
from typing import Any

import msgspec

from terracrew.api.deployments import DeploymentSettings
from terracrew.clouds.aws import permissions
from terracrew.clouds.aws.api import AwsApi
from terracrew.clouds.aws.errors import AwsRefused
from terracrew.clouds.contract import CheckFailed
from terracrew.clouds.model import Deployment

_VCPU_COUNT = 1024
"""CPU units of one vCPU."""
_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/(?P<repository>[^:@]+)"
    r"(?::(?P<tag>[^@]+))?(?:@(?P<digest>.+))?"
)


async def check_quota(api: AwsApi, deployment: Deployment | None) -> str:
    """Check that the account may run as many vCPUs as the runner can need. Raises CheckFailed."""
    settings = deployment.settings if deployment is not None else DeploymentSettings()
    one = settings.cpu_units / _VCPU_COUNT
    wanted = one * (settings.max_instances if deployment is not None else 1)
    code = permissions.FARGATE_SPOT_VCPU_QUOTA if settings.is_spot else permissions.FARGATE_VCPU_QUOTA
    answer = await api.call("service-quotas", "get_service_quota", ServiceCode="fargate", QuotaCode=code)
    quota = float(answer["Quota"]["Value"])
    kind = "Fargate Spot" if settings.is_spot else "Fargate On-Demand"
    remedy = (
        f"Ask for more in Service Quotas: AWS Fargate, `{kind} vCPU resource count` ({code}), in {api.account.region}."
    )
    if quota == 0:
        raise CheckFailed(
            f"the quota of {kind} vCPUs is 0: AWS has blocked this account, which it does with new ones, or it has never used Fargate",
            f"{remedy} For a new account, write to AWS Support.",
        )
    if quota < one:
        raise CheckFailed(
            f"the quota of {kind} vCPUs is {_number(quota)}, and one instance needs {_number(one)}", remedy
        )
    if quota < wanted:
        raise CheckFailed(
            f"the quota of {kind} vCPUs is {_number(quota)}, and {settings.max_instances} instances need {_number(wanted)}",
            f"{remedy} Or let the runner have at most {math.floor(quota / one)} instances.",
        )
    return f"{_number(quota)} vCPUs, needs {_number(wanted)}"


async def check_subnets(api: AwsApi, deployment: Deployment | None) -> str:
    """Check that the subnets are there and have enough free addresses. Raises CheckFailed."""
    settings = deployment.settings if deployment is not None else DeploymentSettings()
    wanted = settings.max_instances if deployment is not None else 1
    found = await _subnets(api, settings.subnets)
    networks = {str(each["VpcId"]) for each in found}
    if len(networks) > 1:
        raise CheckFailed(
            f"the subnets are in different networks: {', '.join(sorted(networks))}", "Choose subnets of one network."
        )
    free = sum(int(each["AvailableIpAddressCount"]) for each in found)
    if free < wanted:
        raise CheckFailed(
            f"{_named(found)} have {free} free addresses, and {wanted} {'instance needs' if wanted == 1 else 'instances need'} one each",
            "Name further subnets, or remove what uses their addresses.",
        )
    return f"{free} free in {len(found)} {'subnet' if len(found) == 1 else 'subnets'}, needs {wanted}"


async def _subnets(api: AwsApi, wanted: list[str]) -> list[dict[str, Any]]:
    region = api.account.region
    if not wanted:
        default = [{"Name": "default-for-az", "Values": ["true"]}]
        if found := await api.listed("ec2", "describe_subnets", "Subnets", Filters=default):
            return found
        raise CheckFailed(
            f"the account has no default network in {region}",
            "Name subnets in the settings of the runner, or make the network with `aws ec2 create-default-vpc`.",
        )
    try:
        return await api.listed("ec2", "describe_subnets", "Subnets", SubnetIds=wanted)
    except AwsRefused as error:
        if error.aws_code not in ("InvalidSubnetID.NotFound", "InvalidSubnetID.Malformed"):
            raise
        raise CheckFailed(
            f"one of the subnets {', '.join(wanted)} does not exist in {region}", "Correct the list of subnets."
        ) from None


class EcrImage(msgspec.Struct, frozen=True):
    account: str
    region: str
    repository: str
    tag: str | None
    digest: str | None


def ecr_repository(image: str) -> EcrImage | None:
    """Return the parts of the name of an image in ECR; None if it is in another registry."""
    found = _ECR.fullmatch(image)
    return EcrImage(**found.groupdict()) if found else None


async def check_ecr(api: AwsApi, name: EcrImage, image: str) -> str:
    """Check that ECR has the image. One of another account or region is not asked for. Raises CheckFailed."""
    own = permissions.parsed_arn(api.account.role_arn).account
    if name.account != own or name.region != api.account.region:
        return f"not checked: it is in {name.region} of the account {name.account}"
    wanted = {"imageDigest": name.digest} if name.digest else {"imageTag": name.tag or "latest"}
    try:
        answer = await api.call("ecr", "describe_images", repositoryName=name.repository, imageIds=[wanted])
    except AwsRefused as error:
        if error.aws_code not in ("ImageNotFoundException", "RepositoryNotFoundException"):
            raise
        raise CheckFailed(f"ECR has no {image}", "Push the image, or correct its name in the settings.") from None
    size = int(answer["imageDetails"][0].get("imageSizeInBytes", 0))
    return f"{size / 1e6:.0f} MB" if size else "it is there"


def _named(subnets: list[dict[str, Any]]) -> str:
    return ", ".join(str(each["SubnetId"]) for each in subnets)


def _number(value: float) -> str:
    return f"{value:g}"
