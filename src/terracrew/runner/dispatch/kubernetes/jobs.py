"""The Jobs and Secrets of one runner instance in a namespace, and their removal.

A pod has no files that outlive it, so there is nothing to copy from one.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from terracrew.attempt import exit_codes
from terracrew.kubernetes_api.api import ApiRefusal, KubernetesApi
from terracrew.kubernetes_api.objects import (
    BatchJob,
    BatchJobList,
    ClusterEvent,
    ClusterEventList,
    PodList,
)
from terracrew.runner.dispatch.containers import attempts
from terracrew.runner.dispatch.kubernetes import manifests, pod_states
from terracrew.runner.dispatch.kubernetes.manifests import ATTEMPT, INSTANCE, KEY, PodOwner
from terracrew.runner.dispatch.kubernetes.pod_watch import PodWatch
from terracrew.runner.dispatch.kubernetes.settings import KubernetesSettings

log = logging.getLogger(__name__)

_EVENTS_SECONDS = 5.0
_LOOK_SECONDS = 1.0


class Jobs:
    def __init__(self, api: KubernetesApi, owner: PodOwner, watch: PodWatch) -> None:
        self._api, self._owner, self._watch = api, owner, watch

    # ---- the place of attempts

    async def retrieve(self, _directory: Path, /) -> None:
        return

    async def remove(self, directory: Path, /) -> None:
        async with attempts.or_later(f"the Job of {directory.name}", ApiRefusal):
            await self.delete(directory.name)
        self._watch.forget(directory.name)

    async def sweep(self, kept: Callable[[], Collection[Path]], /) -> None:
        query = {"labelSelector": f"{INSTANCE}={self._owner.names_hash}"}
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


_ANSWER_LOOK_SECONDS = 0.5


class ImageEngines:
    """Asks the image of executors, in a pod of its own, which engines it has."""

    def __init__(self, settings: KubernetesSettings, api: KubernetesApi, owner: PodOwner) -> None:
        self._settings, self._api, self._owner = settings, api, owner
        self._found: Mapping[str, list[str]] | None = settings.engines or None
        self._asking: asyncio.Task[None] | None = None

    async def find(self) -> Mapping[str, list[str]] | None:
        """Return the engines of the image; None if it does not answer. It is asked again the next time."""
        if self._found is None:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.get_running_loop().create_task(self._ask())
            await asyncio.wait({self._asking})
            if self._found is None:
                log.warning(
                    "the image %s has not said which engines it has, so those of this machine are announced; "
                    "TERRACREW_JOB_DISPATCHER_DATA_ENGINES can name them",
                    self._settings.image,
                )
        return self._found

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})

    async def _ask(self) -> None:
        name = f"terracrew-{self._owner.key}-engines-{secrets.token_hex(4)}"
        body = manifests.asking_for_engines(self._settings, self._owner, name)
        try:
            async with asyncio.timeout(self._settings.start_seconds):
                job = await self._api.ask(BatchJob, "POST", "jobs", body=body)
                self._found = await self._answer(job)
        except (ApiRefusal, TimeoutError, ValueError) as error:
            log.warning("the image cannot be asked for its engines: %s", error or "its pod did not answer")
        finally:
            async with attempts.or_later(f"the Job {name}", ApiRefusal):
                await self._api.delete(f"jobs/{name}", {"propagationPolicy": "Background"})

    async def _answer(self, job: BatchJob) -> dict[str, list[str]]:
        query = {"labelSelector": f"batch.kubernetes.io/job-name={job.metadata.name}"}
        while True:
            for pod in (await self._api.ask(PodList, "GET", "pods", query=query)).items:
                if (end := pod_states.terminated(pod)) is not None:
                    return msgspec.json.decode(end.message or "", type=dict[str, list[str]])
            await asyncio.sleep(_ANSWER_LOOK_SECONDS)
