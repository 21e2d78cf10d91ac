"""Starts instances, each as a task of its own. A request that is repeated starts nothing twice."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from terracrew.backoff import Backoff
from terracrew.clouds import runner_environment
from terracrew.clouds.aws.api import AwsApi
from terracrew.clouds.aws.deploying import SECURITY_GROUPS_FACT
from terracrew.clouds.aws.errors import AwsRefused, AwsThrottled, SignInRefused
from terracrew.clouds.aws.names import CONTAINER, INSTANCE_TAG, names_of, to_list
from terracrew.clouds.aws.steps import cluster, network, task_definition
from terracrew.clouds.aws.steps.work import Waits
from terracrew.clouds.contract import CloudSilent
from terracrew.clouds.model import Deployment, InstanceRefused, InstanceStarted, StartAnswer, StartRequest

log = logging.getLogger(__name__)

RefusalCode = Literal[
    "quota", "capacity", "addresses", "throttled", "not_permitted", "identity", "missing", "silent", "other"
]
_MAX_STARTS = 8
"""How many requests of one runner are under way at once."""
MAX_ANSWER_SECONDS = 30.0
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 8.0
_ROLE_LAG_WORDS = "unable to assume"
_REMEDIES: tuple[tuple[RefusalCode, tuple[str, ...], str], ...] = (
    (
        "quota",
        ("limit on the number of", "vcpu", "currently blocked", "blockedexception", "limitexceeded"),
        "Ask AWS for a higher quota: Service Quotas, AWS Fargate, `Fargate On-Demand vCPU resource count` (L-3032A538), or "
        "`Fargate Spot vCPU resource count` (L-36FBB829).",
    ),
    (
        "addresses",
        ("resource:eni", "insufficientfreeaddresses", "free addresses", "free private ip", "network interface limit"),
        "The subnets have no free address, or the account no further network interface. Name further subnets, or free addresses.",
    ),
    (
        "capacity",
        ("capacity is unavailable", "resource:", "capacity", "no spot capacity"),
        "AWS has no machine at the moment. It is tried again; further subnets in other zones, another size, or on-demand instead "
        "of Spot help.",
    ),
    (
        "identity",
        (_ROLE_LAG_WORDS, "role is not valid"),
        "A role of the deployment was changed or removed. Deploy the runner again.",
    ),
    (
        "missing",
        ("not found", "does not exist", "inactive", "missing", "cannot be found", "invalid subnet"),
        "Something that the deployment made or names is not there any more. Deploy the runner again.",
    ),
)


class Starter:
    def __init__(self, api: AwsApi, waits: Waits) -> None:
        self._api, self._waits = api, waits
        self._permits = asyncio.Semaphore(_MAX_STARTS)

    async def start(self, deployment: Deployment, wanted: Sequence[StartRequest]) -> list[StartAnswer]:
        """Start instances. The answers have the order of the requests."""
        if lacking := [
            step
            for step in (cluster.STEP, network.SUBNETS_STEP, task_definition.STEP)
            if not deployment.facts.get(step)
        ]:
            words = f"the runner is not deployed: there is no {' and no '.join(lacking)}. Deploy it"
            return [InstanceRefused(each.instance, "missing", words) for each in wanted]
        return list(await asyncio.gather(*(self._start(deployment, each) for each in wanted)))

    async def _start(self, deployment: Deployment, wanted: StartRequest) -> StartAnswer:
        instance = wanted.instance
        async with self._permits:
            try:
                answer = await self._run(request(deployment, wanted))
            except AwsThrottled as error:
                code = refusal_code(error.message)
                return InstanceRefused(instance, code if code == "quota" else "throttled", with_remedy(error.message))
            except CloudSilent as error:
                return InstanceRefused(instance, "silent", f"AWS did not answer: {error.message}")
            except SignInRefused as error:
                return InstanceRefused(instance, "identity", error.message)
            except AwsRefused as error:
                if error.aws_code == "ConflictException" and error.resource_ids:
                    # The first request was made before a change of the deployment, and has started the task.
                    return InstanceStarted(instance, error.resource_ids[0])
                if error.is_denied:
                    return InstanceRefused(instance, "not_permitted", error.message)
                return InstanceRefused(instance, refusal_code(error.message), with_remedy(error.message))
        if answer.get("tasks"):
            return InstanceStarted(instance, str(answer["tasks"][0]["taskArn"]))
        words = failure_words(answer.get("failures", []))
        return InstanceRefused(instance, refusal_code(words), with_remedy(words))

    async def _run(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Request a task. A role that was just made may not be visible to ECS yet, so that refusal is repeated for a while."""
        delays = Backoff(FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS)
        until = time.monotonic() + self._waits.propagation_seconds
        while True:
            try:
                return await self._api.call("ecs", "run_task", max_seconds=MAX_ANSWER_SECONDS, **arguments)
            except AwsRefused as error:
                is_lag = not isinstance(error, SignInRefused) and _ROLE_LAG_WORDS in error.message.lower()
                if not is_lag or time.monotonic() > until:
                    raise
                log.info("ECS cannot use the role of the runner yet, and is asked again: %s", error.message)
            await asyncio.sleep(delays.next())


def request(deployment: Deployment, wanted: StartRequest) -> dict[str, Any]:
    """Return the arguments of RunTask for one instance."""
    facts, settings = deployment.facts, deployment.settings
    place: dict[str, Any] = {"launchType": "FARGATE"}
    if settings.is_spot:
        place = {"capacityProviderStrategy": [{"capacityProvider": "FARGATE_SPOT", "weight": 1}]}
    addresses: dict[str, Any] = {
        "subnets": facts[network.SUBNETS_STEP].split(","),
        "assignPublicIp": "ENABLED" if settings.has_public_address else "DISABLED",
    }
    if groups := facts.get(SECURITY_GROUPS_FACT, ""):
        addresses["securityGroups"] = groups.split(",")
    return place | {
        "cluster": facts[cluster.STEP],
        "taskDefinition": facts[task_definition.STEP],
        "count": 1,
        "clientToken": wanted.instance,
        "startedBy": names_of(deployment.runner_id).started_by,
        "propagateTags": "TASK_DEFINITION",
        "tags": to_list({INSTANCE_TAG: wanted.instance}, "key", "value"),
        "networkConfiguration": {"awsvpcConfiguration": addresses},
        "overrides": {
            "containerOverrides": [
                {
                    "name": CONTAINER,
                    "environment": to_list(runner_environment.instance_variables(wanted), "name", "value"),
                }
            ]
        },
    }


def refusal_code(words: str) -> RefusalCode:
    for code, signs, _ in _REMEDIES:
        if _has(words, signs):
            return code
    return "other"


def with_remedy(words: str) -> str:
    remedy = next((remedy for _, signs, remedy in _REMEDIES if _has(words, signs)), "")
    return f"{words.rstrip('.')}. {remedy}" if remedy else words


def failure_words(failures: Sequence[Mapping[str, Any]]) -> str:
    """Say what RunTask answered if it started nothing."""
    said = [f"{each.get('reason', '')} {each.get('detail', '')}".strip() for each in failures]
    return f"ECS started no task: {'; '.join(dict.fromkeys(said)) or 'it did not say why'}"


def _has(words: str, signs: tuple[str, ...]) -> bool:
    lower = words.lower().replace("’", "'")
    return any(sign in lower for sign in signs)
