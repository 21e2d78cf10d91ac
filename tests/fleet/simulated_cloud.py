"""The cloud of a simulated account: a third implementation of `clouds/contract.py`, which the tests run in a real fleet process."""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from terracrew.api.cloud_identities import FoundResource
from terracrew.clouds.contract import Canceled, CloudRefused, CloudSilent, Reporter, SignToken
from terracrew.clouds.model import (
    CloudIdentity,
    Deployment,
    InstanceRefused,
    InstanceStarted,
    InstanceState,
    KubernetesCluster,
    StartAnswer,
    StartRequest,
)
from terracrew.errors import TerracrewError

STEPS = ("role", "logs", "definition")


class SimulatedCloud:
    def __init__(self, identity: CloudIdentity, sign_token: SignToken) -> None:
        assert isinstance(identity.cloud, KubernetesCluster)
        self._identity, self._sign_token = identity, sign_token
        parts = urlsplit(identity.cloud.api_url)
        self._address = parts.hostname or "", parts.port or 0

    async def check(self, reporter: Reporter, deployment: Deployment | None = None) -> bool:
        del deployment
        reporter.begin("sign_in", "Sign-in with web identity")
        token = await self._sign_token()
        reporter.done("sign_in", words=token)
        reporter.begin("list", "Read what is there")
        try:
            await self._ask("list", "all")
        except CloudRefused as error:
            reporter.failed("list", error.message, "allow `list` in the policy")
            return False
        reporter.done("list")
        return True

    async def deploy(
        self, deployment: Deployment, worker_token: str, job_id: str, reporter: Reporter
    ) -> dict[str, str]:
        made: list[str] = []
        try:
            for step in STEPS:
                reporter.require_wanted()
                reporter.begin(step, step.capitalize())
                name = f"{deployment.runner_id}/{step}"
                if (await self._ask("put", name, job=job_id))["is_new"]:
                    made.append(name)
                reporter.done(step, reference=f"ref:{name}")
            await self._ask("put", f"{deployment.runner_id}/secret", job=job_id, value=worker_token)
            reporter.line(f"the secret store has {worker_token}")
        except (CloudRefused, CloudSilent, Canceled):
            for name in [f"{deployment.runner_id}/secret", *reversed(made)]:
                await self._ask("remove", name)
                reporter.line(f"removed {name}")
            raise
        return {step: f"ref:{deployment.runner_id}/{step}" for step in STEPS}

    async def start(self, deployment: Deployment, wanted: Sequence[StartRequest]) -> list[StartAnswer]:
        answers: list[StartAnswer] = []
        for each in wanted:
            name = f"{deployment.runner_id}/task-{each.instance}"
            try:
                await self._ask("put", name)
                answers.append(InstanceStarted(each.instance, f"ref:{name}"))
            except TerracrewError as error:
                answers.append(InstanceRefused(each.instance, "quota", error.message))
        return answers

    async def watch(self, deployment: Deployment, references: Sequence[str]) -> list[InstanceState]:
        del references
        names = (await self._ask("list", "all"))["names"]
        prefix = f"{deployment.runner_id}/task-"
        return [
            InstanceState(instance=name.removeprefix(prefix), reference=f"ref:{name}", phase="running")
            for name in names
            if name.startswith(prefix)
        ]

    async def stop(self, deployment: Deployment, reference: str, reason: str) -> None:
        del deployment, reason
        await self._ask("remove", reference.removeprefix("ref:"))

    async def destroy(self, deployment: Deployment, job_id: str, reporter: Reporter) -> None:
        del job_id
        for name in reversed((await self._ask("list", "all"))["names"]):
            if name.startswith(f"{deployment.runner_id}/"):
                reporter.require_wanted()
                reporter.begin(name, f"Remove {name}")
                await self._ask("remove", name)
                reporter.done(name)

    async def found(self) -> list[FoundResource]:
        names = (await self._ask("list", "all"))["names"]
        return [FoundResource(kind="thing", name=each, reference=each, runner_id=each.split("/")[0]) for each in names]

    async def close(self) -> None: ...

    async def _ask(self, operation: str, name: str, **more: str) -> dict[str, Any]:
        try:
            reader, writer = await asyncio.open_connection(*self._address)
        except OSError as error:
            raise CloudSilent(f"the account does not answer: {error}") from error
        with contextlib.closing(writer):
            writer.write(json.dumps({"operation": operation, "name": name, **more}).encode() + b"\n")
            answer = json.loads(await reader.readline() or b"{}")
        if "refused" in answer:
            raise CloudRefused(answer["refused"])
        return answer
