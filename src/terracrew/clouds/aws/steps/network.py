"""Where tasks are in the network: the subnets, and a security group that lets nobody in."""

from typing import Any

from terracrew.clouds.aws.names import RUNNER_TAG, from_list, to_list
from terracrew.clouds.aws.steps.work import Work
from terracrew.clouds.contract import CloudRefused

SUBNETS_STEP, SUBNETS_WORDS = "subnets", "Network"
STEP, WORDS = "security_group", "Security group"
_IN_USE = frozenset({"DependencyViolation", "InvalidGroup.InUse"})
_GONE = frozenset({"InvalidGroup.NotFound"})
_MISSING_SUBNET = frozenset({"InvalidSubnetID.NotFound", "InvalidSubnetID.Malformed", "InvalidSubnetId.Malformed"})
_EXISTS = frozenset({"InvalidGroup.Duplicate"})


async def choose_subnets(work: Work) -> tuple[list[str], str]:
    """Return the ids of the subnets, and that of their network."""
    region = work.deployment.region
    if named := work.settings.subnets:
        answer = await work.find("ec2", "describe_subnets", _MISSING_SUBNET, SubnetIds=named)
        if answer is None:
            raise CloudRefused(f"one of the subnets {', '.join(named)} does not exist in {region}. Correct the list")
        networks = {str(each["VpcId"]) for each in answer["Subnets"]}
        if len(networks) != 1:
            raise CloudRefused(
                f"the subnets {', '.join(named)} are in different networks ({', '.join(sorted(networks))}). Choose those of one"
            )
        return list(named), networks.pop()
    found = await work.api.listed(
        "ec2", "describe_subnets", "Subnets", Filters=[{"Name": "default-for-az", "Values": ["true"]}]
    )
    if not found:
        raise CloudRefused(
            f"the account has no default network in {region}. Name subnets, or make one with `aws ec2 create-default-vpc`"
        )
    return sorted(str(each["SubnetId"]) for each in found), str(found[0]["VpcId"])


async def ensure(work: Work, network: str) -> tuple[str, str]:
    """Return the id of the security group in this network, and what was done."""
    name = work.names.security_group
    if (found := await _find(work, network)) is None:
        answer = await work.find(
            "ec2",
            "create_security_group",
            _EXISTS,
            GroupName=name,
            Description="Made by Terracrew for a runner. Nobody can connect to it.",
            VpcId=network,
            TagSpecifications=[{"ResourceType": "security-group", "Tags": to_list(work.tags)}],
        )
        if answer is not None:
            return str(answer["GroupId"]), "made"
        found = await _find(work, network)
    if found is None:
        raise CloudRefused(f"the security group {name} exists and does not exist. Deploy again")
    work.require_ours("security group", name, from_list(found.get("Tags")))
    return str(found["GroupId"]), "was there"


async def remove(work: Work) -> str:
    """Remove the security groups of the runner in all networks. Returns their ids."""
    filters = [{"Name": f"tag:{RUNNER_TAG}", "Values": [work.deployment.runner_id]}]
    removed: list[str] = []
    for group in await work.api.listed("ec2", "describe_security_groups", "SecurityGroups", Filters=filters):
        if work.is_removed(from_list(group.get("Tags"))):
            await _delete(work, str(group["GroupId"]))
            removed.append(str(group["GroupId"]))
    return ", ".join(removed)


async def _delete(work: Work, group: str) -> None:
    await work.retry(
        lambda: work.find("ec2", "delete_security_group", _GONE, GroupId=group),
        lambda error: "The network interfaces of tasks are still being detached." if error.aws_code in _IN_USE else "",
        work.waits.detaching_seconds,
    )


async def _find(work: Work, network: str) -> dict[str, Any] | None:
    filters = [
        {"Name": "group-name", "Values": [work.names.security_group]},
        {"Name": "vpc-id", "Values": [network]},
    ]
    answer = await work.call("ec2", "describe_security_groups", Filters=filters)
    return next(iter(answer.get("SecurityGroups", [])), None)
