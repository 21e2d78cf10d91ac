"""Lists what of ours is in an account and region, why it is there, and what it costs.

Things are found by their tags and by their names, because each of the two can be lost: a task loses its tags when it is stopped, and
somebody may remove tags by hand. What has the tags of another organization of the same or of another server is left out.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from terracrew.api.cloud_identities import FoundResource
from terracrew.clouds.aws import prices
from terracrew.clouds.aws.api import AwsApi
from terracrew.clouds.aws.errors import AwsRefused
from terracrew.clouds.aws.names import (
    JOB_TAG,
    LOG_PREFIX,
    ORGANIZATION_TAG,
    PREFIX,
    RUNNER_TAG,
    SECRET_PREFIX,
    STARTED_BY_PREFIX,
    Tags,
    from_list,
)

_MAX_DESCRIBED_COUNT = 100
_UNTAGGED = "It has a name like ours, but not our tags: look at it before you remove it."


async def found(api: AwsApi) -> list[FoundResource]:
    """Return everything of ours. Raises AwsRefused or CloudSilent if a part of it cannot be listed."""
    looking = _Looking(api)
    await looking.clusters()
    await looking.tagged()
    await looking.task_definitions()
    await looking.roles()
    await looking.log_groups()
    await looking.security_groups()
    await looking.secrets()
    return looking.found


class _Looking:
    def __init__(self, api: AwsApi) -> None:
        self._api, self._region = api, api.account.region
        self.found: list[FoundResource] = []
        self._references: set[str] = set()

    def add(
        self,
        kind: str,
        name: str,
        reference: str,
        tags: Tags,
        why: str,
        *,
        made_at: datetime | None = None,
        dollars: float | None = 0.0,
        runner_id: str = "",
    ) -> None:
        owner = tags.get(ORGANIZATION_TAG, self._api.identity.organization_id)
        if reference in self._references or owner != self._api.identity.organization_id:
            return
        self._references.add(reference)
        runner_id = tags.get(RUNNER_TAG, "") or runner_id
        self.found.append(
            FoundResource(
                kind=kind,
                name=name,
                reference=reference,
                runner_id=runner_id,
                job_id=tags.get(JOB_TAG, ""),
                made_at=made_at,
                why=why if runner_id else _UNTAGGED,
                dollars_a_month=dollars,
            )
        )

    async def clusters(self) -> None:
        """Our clusters, and everything that runs in them."""
        arns = [
            arn
            for arn in await self._api.listed("ecs", "list_clusters", "clusterArns")
            if _last(arn).startswith(PREFIX)
        ]
        for part in _parts(arns, _MAX_DESCRIBED_COUNT):
            answer = await self._api.call("ecs", "describe_clusters", clusters=part, include=["TAGS"])
            for each in answer.get("clusters", []):
                if each.get("status") != "INACTIVE":
                    tags = from_list(each.get("tags"))
                    self.add("cluster", each["clusterName"], each["clusterArn"], tags, "Its tasks run in it.")
        for arn in arns:
            await self._tasks(arn, await self._api.listed("ecs", "list_tasks", "taskArns", cluster=arn))

    async def tagged(self) -> None:
        """Tasks with our tags in clusters that people have named."""
        entries = await self._api.listed(
            "resourcegroupstaggingapi",
            "get_resources",
            "ResourceTagMappingList",
            TagFilters=[{"Key": RUNNER_TAG}],
            ResourceTypeFilters=["ecs:task"],
        )
        for each in entries:
            arn, tags = str(each["ResourceARN"]), from_list(each.get("Tags"))
            if arn in self._references:
                continue
            try:
                await self._tasks(arn.rpartition("/")[0].rpartition("/")[2], [arn])
            except AwsRefused as error:
                if not error.is_denied:
                    raise
                # The role may not look into that cluster, but the task is there.
                self.add("task", _last(arn), arn, tags, "It runs jobs.", dollars=None)

    async def _tasks(self, cluster: str, arns: Sequence[str]) -> None:
        described: list[dict[str, Any]] = []
        for part in _parts(arns, _MAX_DESCRIBED_COUNT):
            answer = await self._api.call("ecs", "describe_tasks", cluster=cluster, tasks=part, include=["TAGS"])
            described += answer.get("tasks", [])
        for task in described:
            started_by, tags = str(task.get("startedBy", "")), from_list(task.get("tags"))
            is_marked = started_by.startswith(STARTED_BY_PREFIX)
            if task.get("lastStatus") == "STOPPED" or not (is_marked or RUNNER_TAG in tags):
                continue
            hourly = task_price(self._region, task)
            self.add(
                "task",
                _last(str(task["taskArn"])),
                str(task["taskArn"]),
                tags,
                "It runs jobs. The cost is that of a whole month.",
                made_at=task.get("createdAt"),
                dollars=None if hourly is None else hourly * prices.HOURS_A_MONTH_COUNT,
                runner_id=started_by.removeprefix(STARTED_BY_PREFIX) if is_marked else "",
            )

    async def task_definitions(self) -> None:
        families = await self._api.listed(
            "ecs", "list_task_definition_families", "families", familyPrefix=PREFIX, status="ACTIVE"
        )
        for family in families:
            for arn in await self._api.listed(
                "ecs", "list_task_definitions", "taskDefinitionArns", familyPrefix=family
            ):
                answer = await self._api.call("ecs", "describe_task_definition", taskDefinition=arn, include=["TAGS"])
                made_at = answer["taskDefinition"].get("registeredAt")
                why = "Size, image and roles of its tasks."
                self.add("task definition", _last(arn), arn, from_list(answer.get("tags")), why, made_at=made_at)

    async def roles(self) -> None:
        for role in await self._api.listed("iam", "list_roles", "Roles"):
            name, arn = str(role["RoleName"]), str(role["Arn"])
            if not name.startswith(PREFIX) or arn == self._api.account.role_arn:
                continue
            answer = await self._api.call("iam", "get_role", RoleName=name)
            is_execution = name.endswith("-execution")
            why = (
                "ECS fetches the image and the secret with it, and writes the log."
                if is_execution
                else "What its jobs may do."
            )
            self.add("role", name, arn, from_list(answer["Role"].get("Tags")), why, made_at=role.get("CreateDate"))

    async def log_groups(self) -> None:
        for group in await self._api.listed("logs", "describe_log_groups", "logGroups", logGroupNamePrefix=LOG_PREFIX):
            arn, stored = str(group["arn"]).removesuffix(":*"), int(group.get("storedBytes", 0))
            answer = await self._api.call("logs", "list_tags_for_resource", resourceArn=arn)
            days = group.get("retentionInDays")
            kept = f"kept {days} days" if days else "kept for ever"
            self.add(
                "log group",
                str(group["logGroupName"]),
                arn,
                dict(answer.get("tags", {})),
                f"What its tasks print: {_size(stored)}, {kept}.",
                made_at=datetime.fromtimestamp(int(group["creationTime"]) / 1000, UTC),
                dollars=prices.log_dollars_a_month(self._region, stored),
            )

    async def security_groups(self) -> None:
        for filters in ({"Name": "tag-key", "Values": [RUNNER_TAG]}, {"Name": "group-name", "Values": [f"{PREFIX}*"]}):
            groups = await self._api.listed("ec2", "describe_security_groups", "SecurityGroups", Filters=[filters])
            for each in groups:
                why = "It lets nobody connect to the tasks."
                self.add(
                    "security group", str(each["GroupName"]), str(each["GroupId"]), from_list(each.get("Tags")), why
                )

    async def secrets(self) -> None:
        by_name = [{"Key": "name", "Values": [SECRET_PREFIX]}]
        for secret in await self._api.listed("secretsmanager", "list_secrets", "SecretList", Filters=by_name):
            self.add(
                "secret",
                str(secret["Name"]),
                str(secret["ARN"]),
                from_list(secret.get("Tags")),
                "The token with which instances connect to the server.",
                made_at=secret.get("CreatedDate"),
                dollars=prices.SECRET_MONTH_RATE,
            )


def task_price(region: str, task: dict[str, Any]) -> float | None:
    """Return what a task costs an hour, by what ECS says about it; None if the price is not known."""
    architecture = {each.get("name"): each.get("value") for each in task.get("attributes", [])}.get(
        "ecs.cpu-architecture"
    )
    if not task.get("cpu") or not task.get("memory"):
        return None
    return prices.task_dollars_an_hour(
        region,
        int(task["cpu"]),
        int(task["memory"]),
        "arm64" if architecture == "arm64" else "x86_64",
        is_spot=task.get("capacityProviderName") == "FARGATE_SPOT",
    )


def _size(stored_bytes: int) -> str:
    return f"{stored_bytes / 1e9:.1f} GB" if stored_bytes >= 1e8 else f"{stored_bytes / 1e6:.1f} MB"


def _last(arn: str) -> str:
    return arn.rpartition("/")[2]


def _parts(entries: Sequence[str], count: int) -> list[list[str]]:
    return [list(entries[start : start + count]) for start in range(0, len(entries), count)]
