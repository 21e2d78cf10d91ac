"""AWS as the contract of clouds looks into it, past what is tested."""

import contextlib
from collections.abc import Callable, Generator
from typing import Any

import pytest

from terracrew.clouds.aws import watching
from terracrew.clouds.aws.names import names_of
from terracrew.clouds.aws.steps.work import Waits
from terracrew.clouds.model import Deployment
from tests.contracts.cloud import Killed
from tests.machine import aws_account
from tests.machine.aws_account import Account, CutApi

QUICK = Waits(propagation_seconds=0.05, stopping_seconds=0.05, emptying_seconds=0.05, detaching_seconds=0.05)


class AwsPlace:
    def __init__(self, api: CutApi, account: Account) -> None:
        self._api, self._account = api, account
        self.cloud = aws_account.cloud(api, QUICK)

    def deployment(self, **settings: Any) -> Deployment:
        return aws_account.deployment(**settings)

    def things(self, deployment: Deployment) -> list[str]:
        return sorted(name for each in self._account.things(deployment.runner_id).values() for name in each)

    def instances(self, deployment: Deployment) -> list[str]:
        return [each["TERRACREW_RUNNER__INSTANCE"] for each in self._overrides(deployment)]

    def variables(self, deployment: Deployment, instance: str) -> dict[str, str]:
        [found] = [each for each in self._overrides(deployment) if each["TERRACREW_RUNNER__INSTANCE"] == instance]
        return found

    def _overrides(self, deployment: Deployment) -> list[dict[str, str]]:
        ecs, found = self._account.ecs, list[dict[str, str]]()
        for cluster in watching.clusters(deployment):
            with contextlib.suppress(ecs.exceptions.ClusterNotFoundException):
                arns = ecs.list_tasks(cluster=cluster, desiredStatus="RUNNING")["taskArns"]
                for task in ecs.describe_tasks(cluster=cluster, tasks=arns)["tasks"] if arns else ():
                    [override] = task["overrides"]["containerOverrides"]
                    found.append({each["name"]: each["value"] for each in override["environment"]})
        return found

    def token(self, deployment: Deployment) -> str:
        return self._account.secrets.get_secret_value(SecretId=names_of(deployment.runner_id).secret)["SecretString"]

    def take_a_name(self, deployment: Deployment) -> Callable[[], bool]:
        self._account.secrets.create_secret(Name=names_of(deployment.runner_id).secret, SecretString="theirs")
        return lambda: self.token(deployment) == "theirs"

    @contextlib.contextmanager
    def killing(self, number: int, *, happens: bool) -> Generator[None]:
        self._api.cut(number, "killed", happens=happens)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(aws_account, "Killed", Killed)
            yield
        self._api.heal()
