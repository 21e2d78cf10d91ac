"""The log group that instances print to."""

from terracrew.clouds.aws import prices
from terracrew.clouds.aws.names import Tags
from terracrew.clouds.aws.steps.work import Work

STEP, WORDS = "log_group", "Log group"
_EXISTS = frozenset({"ResourceAlreadyExistsException"})
_MISSING = frozenset({"ResourceNotFoundException"})


async def ensure(work: Work) -> tuple[str, str]:
    """Return the ARN of the log group, and what was done."""
    name, said = work.names.log_group, "made"
    if await work.find("logs", "create_log_group", _EXISTS, logGroupName=name, tags=work.tags) is None:
        arn, tags = await _found(work)
        work.require_ours("log group", name, tags)
        said = "was there"
    else:
        arn, _ = await _found(work)
    days = prices.retention_days(work.settings.log_days)
    await work.call("logs", "put_retention_policy", logGroupName=name, retentionInDays=days)
    return arn, f"{said}, keeps {days} days"


async def remove(work: Work) -> str:
    arn, tags = await _found(work)
    if not arn or not work.is_removed(tags):
        return ""
    await work.find("logs", "delete_log_group", _MISSING, logGroupName=work.names.log_group)
    return arn


async def _found(work: Work) -> tuple[str, Tags]:
    """Return the ARN and the tags of the log group; nothing if there is none."""
    name = work.names.log_group
    answer = await work.call("logs", "describe_log_groups", logGroupNamePrefix=name)
    for group in answer.get("logGroups", []):
        if group["logGroupName"] == name:
            arn = str(group["arn"]).removesuffix(":*")
            tags = await work.find("logs", "list_tags_for_resource", _MISSING, resourceArn=arn)
            return arn, dict((tags or {}).get("tags", {}))
    return "", {}
