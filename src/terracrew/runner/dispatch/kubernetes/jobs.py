"""The Jobs and Secrets of one runner instance in a namespace, and their removal.

A pod has no files that outlive it, so there is nothing to copy from one.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from terracrew.attempt import exit_codes
from terracrew.kubernetes_api.api import ApiRefusal, KubernetesApi
from terracrew.kubernetes_api.objects import (
    BatchJob,
    BatchJobList,
    ClusterEvent,
    ClusterEventList,
    PodList,
)
from terracrew.runner.dispatch.kubernetes import pod_states
from terracrew.runner.dispatch.kubernetes.manifests import ATTEMPT, INSTANCE, KEY, PodOwner
from terracrew.runner.dispatch.kubernetes.pod_watch import PodWatch

log = logging.getLogger(__name__)

_REMOVE_SECONDS = 60.0
"""How long an API server that does not answer holds up the end of an attempt. The next sweep removes what is left then."""
_EVENTS_SECONDS = 5.0
_LOOK_SECONDS = 1.0


class Jobs:
    def __init__(self, api: KubernetesApi, owner: PodOwner, watch: PodWatch) -> None:
        self._api, self._owner, self._watch = api, owner, watch

    # ---- the place of attempts

    async def retrieve(self, _directory: Path, /) -> None:
        return

    async def remove(self, directory: Path, /) -> None:
        try:
            async with asyncio.timeout(_REMOVE_SECONDS):
                await self.delete(directory.name)
        except (TimeoutError, ApiRefusal) as error:
            log.warning("the Job of %s is removed later: %s", directory.name, error or "Kubernetes does not answer")
        self._watch.forget(directory.name)

    async def sweep(self, kept: Callable[[], Collection[Path]], /) -> None:
        query = {"labelSelector": f"{INSTANCE}={self._owner.instance}"}
        listed = (await self._api.ask(BatchJobList, "GET", "jobs", query=query)).items
        staying = {directory.name for directory in kept()}
        for job in listed:
            attempt, is_own = job.metadata.labels.get(ATTEMPT, ""), job.metadata.labels.get(KEY) == self._owner.key
            if not attempt or (is_own and attempt in staying):
                continue
            if is_own or await self._has_delivered(job):
                log.info("removing what an earlier process left of %s", attempt)
                await self._delete_job(job.metadata.name, job.metadata.uid, "Background")

    async def _has_delivered(self, job: BatchJob) -> bool:
        """Return whether a Job, which the same instance started with another working directory, is not needed any more."""
        query = {"labelSelector": f"batch.kubernetes.io/controller-uid={job.metadata.uid}"}
        pods = (await self._api.ask(PodList, "GET", "pods", query=query)).items
        ended = [pod_states.terminated(pod) for pod in pods]
        return bool(ended) and all(end and end.exit_code == exit_codes.DELIVERED for end in ended)

    # ----

    async def find(self, attempt: str) -> BatchJob | None:
        return await self._api.find(BatchJob, f"jobs/{self._owner.name(attempt)}")

    async def delete_secret(self, attempt: str) -> None:
        await self._api.delete(f"secrets/{self._owner.name(attempt)}", {})

    async def delete(self, attempt: str) -> None:
        """Request the removal of everything of an attempt."""
        await self._delete_job(self._owner.name(attempt), "", "Background")
        await self.delete_secret(attempt)

    async def delete_and_wait(self, attempt: str) -> None:
        """Return when the API server says that neither the Job nor a pod of it exists."""
        name = self._owner.name(attempt)
        await self._delete_job(name, "", "Foreground")
        await self._watch.listed()
        while True:
            change = self._watch.next_change()
            if await self.find(attempt) is None and all(seen.is_gone for seen in self._watch.of(attempt)):
                return
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await change.wait()
            except TimeoutError:
                pass

    async def events(self, uid: str) -> list[ClusterEvent]:
        """Return what Kubernetes notes about an object; nothing if that cannot be found out soon."""
        query = {"fieldSelector": f"involvedObject.uid={uid}"}
        try:
            async with asyncio.timeout(_EVENTS_SECONDS):
                return (await self._api.ask(ClusterEventList, "GET", "events", query=query)).items
        except (TimeoutError, ApiRefusal):  # a runner may not be allowed to read them
            return []

    async def _delete_job(self, name: str, uid: str, policy: str) -> None:
        body: dict[str, Any] = {"propagationPolicy": policy}
        if uid:
            body["preconditions"] = {"uid": uid}
        await self._api.delete(f"jobs/{name}", body)
