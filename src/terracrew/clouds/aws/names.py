"""The names and tags of what a deployment makes in an account of AWS.

Names are made from the id of the runner, because its name and path can change. A thing that has one of these names but not the tags of the
runner was made by somebody else, and is never used, changed or removed.
"""

import re

import msgspec

from terracrew.clouds.model import Deployment

PREFIX = "terracrew-"
LOG_PREFIX, SECRET_PREFIX, STARTED_BY_PREFIX = "/terracrew/", "terracrew/", "terracrew/"
RUNNER_TAG, ORGANIZATION_TAG, JOB_TAG = "terracrew:runner", "terracrew:organization", "terracrew:job"
PATH_TAG, INSTANCE_TAG, DIGEST_TAG = "terracrew:path", "terracrew:instance", "terracrew:digest"
CONTAINER = "runner"
_SHORT_ID_CHARACTERS = 12
_MAX_TAG_CHARACTERS = 256
_NOT_IN_A_TAG = re.compile(r"[^A-Za-z0-9 +=._:/@-]")

Tags = dict[str, str]


class AwsNames(msgspec.Struct, frozen=True, kw_only=True):
    """What the things of one runner are called."""

    cluster: str
    execution_role: str
    task_role: str
    log_group: str
    security_group: str
    secret: str
    family: str
    """The family of its task definitions."""
    started_by: str
    """The mark of its tasks, by which they are listed. The tags of a task are lost when it is stopped."""


def names_of(runner_id: str) -> AwsNames:
    # The first digits of an id are the time, which runners that were made together share. The last ones are random.
    short = runner_id[-_SHORT_ID_CHARACTERS:]
    stem = f"{PREFIX}{short}"
    return AwsNames(
        cluster=stem,
        execution_role=f"{stem}-execution",
        task_role=f"{stem}-task",
        log_group=f"{LOG_PREFIX}{short}",
        security_group=stem,
        secret=f"{SECRET_PREFIX}{short}/worker-token",
        family=stem,
        started_by=f"{STARTED_BY_PREFIX}{runner_id}",
    )


def tags_of(deployment: Deployment, job_id: str) -> Tags:
    """Return the tags of what a job makes for a runner."""
    return {
        RUNNER_TAG: deployment.runner_id,
        ORGANIZATION_TAG: deployment.organization_id,
        JOB_TAG: job_id,
        PATH_TAG: _NOT_IN_A_TAG.sub("-", deployment.runner_path)[:_MAX_TAG_CHARACTERS],
    }


def to_list(tags: Tags, key: str = "Key", value: str = "Value") -> list[dict[str, str]]:
    """Return tags as most services take them. ECS writes `key` and `value`."""
    return [{key: name, value: text} for name, text in tags.items()]


def from_list(tags: list[dict[str, str]] | None) -> Tags:
    """Return tags as a dictionary, however the service writes them."""
    return {str(each.get("Key", each.get("key"))): str(each.get("Value", each.get("value", ""))) for each in tags or []}
