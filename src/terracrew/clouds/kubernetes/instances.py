"""Starts the pods of a runner, and says what becomes of them.

The name of a pod is that of its instance, so that a request that is repeated finds the pod of the first one. A pod that has ended is kept
until nobody asks for it any more and the request that made it cannot be repeated.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from terracrew.clouds.contract import CloudRefused, CloudSilent
from terracrew.clouds.kubernetes import manifests, names, states
from terracrew.clouds.kubernetes.client import ClusterClient, ClusterRefused, ClusterThrottled
from terracrew.clouds.kubernetes.names import CONTAINER
from terracrew.clouds.model import (
    Deployment,
    InstanceRefused,
    InstanceStarted,
    InstanceState,
    StartAnswer,
    StartRequest,
)
from terracrew.kubernetes_api.objects import AnyObject, ClusterEvent, ClusterEventList, Pod, PodList

log = logging.getLogger(__name__)

KEPT_SECONDS = 180.0
"""How long a pod that has ended is kept at least: a request to start it can be repeated that long."""
_MAX_START_COUNT = 10
"""How many pods are asked for at the same time."""
_LAST_LINE_COUNT = 20
_MAX_EVENTS = 500


class Instances:
    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    async def start(self, deployment: Deployment, wanted: Sequence[StartRequest]) -> list[StartAnswer]:
        places = asyncio.Semaphore(_MAX_START_COUNT)

        async def start(each: StartRequest) -> StartAnswer:
            async with places:
                return await self._start(deployment, each)

        return list(await asyncio.gather(*map(start, wanted)))

    async def _start(self, deployment: Deployment, wanted: StartRequest) -> StartAnswer:
        instance = wanted.instance
        if not names.is_pod_name(instance):
            return InstanceRefused(instance, "other", f"no pod can have the name {instance!r}")
        started = InstanceStarted(instance, names.reference(self._client.namespace, instance))
        try:
            await self._client.create(AnyObject, "pods", manifests.pod(deployment, wanted))
        except ClusterRefused as refusal:
            if not refusal.exists_already:
                return InstanceRefused(instance, refusal.refusal_code, refusal.message)
            return await self._start_again(deployment, started)
        except CloudSilent as silence:
            is_throttled = isinstance(silence, ClusterThrottled)
            return InstanceRefused(instance, "throttled" if is_throttled else "silent", silence.message)
        except CloudRefused as refusal:
            return InstanceRefused(instance, "identity", refusal.message)
        return started

    async def _start_again(self, deployment: Deployment, started: InstanceStarted) -> StartAnswer:
        """Answer a request whose pod exists: it was made by an earlier one, or by somebody else."""
        try:
            pod = await self._client.get(Pod, f"pods/{started.instance}")
        except (CloudRefused, CloudSilent) as error:
            return InstanceRefused(started.instance, "other", error.message)
        if pod is None or names.are_of(deployment, pod.metadata.labels):
            return started  # what became of it is what `watch` says
        words = (
            f"the pod {started.reference} exists and was not made by Terracrew. Remove it, or choose another namespace."
        )
        return InstanceRefused(started.instance, "other", words)

    async def watch(self, deployment: Deployment, references: Sequence[str]) -> list[InstanceState]:
        found = await self._pods(deployment)
        present = {self._reference(pod) for pod in found}
        events = await self._events(found)
        states_found = [await self._state(pod, events.get(pod.metadata.uid, ()), references) for pod in found]
        gone = [states.gone(each, each.rpartition("/")[2]) for each in references if each not in present]
        await self._remove_old(found, references)
        return [*states_found, *gone]

    async def stop(self, deployment: Deployment, reference: str, reason: str) -> None:
        namespace, _, name = reference.rpartition("/")
        if namespace != self._client.namespace:
            raise CloudRefused(f"{reference} is in another namespace than {self._client.namespace}")
        pod = await self._client.get(Pod, f"pods/{name}")
        if pod is None:
            return
        if not names.are_of(deployment, pod.metadata.labels):
            raise CloudRefused(f"the pod {reference} was not made for this runner, and is left alone")
        log.info("the pod %s is deleted: %s", reference, reason)
        await self._client.delete(f"pods/{name}", pod.metadata.uid)

    async def _pods(self, deployment: Deployment) -> list[Pod]:
        return (await self._client.select(PodList, "pods", names.runner_selector(deployment))).items

    async def _state(self, pod: Pod, events: Iterable[ClusterEvent], references: Sequence[str]) -> InstanceState:
        reference = self._reference(pod)
        state = states.state_of(pod, reference, events)
        if state.phase != "ended" or not state.exit_code or reference not in references:
            return state
        return states.with_lines(state, await self._last_lines(pod))

    async def _last_lines(self, pod: Pod) -> list[str]:
        try:
            return await self._client.lines(pod.metadata.name, CONTAINER, _LAST_LINE_COUNT)
        except (CloudRefused, CloudSilent):
            return states.last_words(pod)  # the node, or its log, is gone

    async def _events(self, pods: Iterable[Pod]) -> dict[str, list[ClusterEvent]]:
        """Return what Kubernetes notes about the pods that have not started, by their uids."""
        if not any(states.is_starting(pod) for pod in pods):
            return {}
        query = {"fieldSelector": "involvedObject.kind=Pod", "limit": str(_MAX_EVENTS)}
        try:
            answer = await self._client.ask(ClusterEventList, "GET", "events", query=query)
        except (CloudRefused, CloudSilent):
            return {}  # they are words for people, and the pods themselves say what matters
        found: dict[str, list[ClusterEvent]] = {}
        for each in answer.items:
            found.setdefault(each.involved_object.uid, []).append(each)
        return found

    async def _remove_old(self, pods: Iterable[Pod], references: Sequence[str]) -> None:
        """Remove pods that ended a while ago and that nobody asks for: what became of them is known."""
        before = datetime.now(UTC) - timedelta(seconds=KEPT_SECONDS)
        for pod in pods:
            ended_at = states.ended_at(pod)
            if ended_at is not None and ended_at < before and self._reference(pod) not in references:
                try:
                    await self._client.delete(f"pods/{pod.metadata.name}", pod.metadata.uid)
                except (CloudRefused, CloudSilent) as error:
                    log.warning("the pod %s has ended and cannot be removed: %s", self._reference(pod), error.message)

    def _reference(self, pod: Pod) -> str:
        return names.reference(self._client.namespace, pod.metadata.name)
