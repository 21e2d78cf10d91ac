"""Asks the image of executors, in a pod of its own, which engines it has."""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Mapping

import msgspec

from terracrew.kubernetes_api.api import ApiRefusal, KubernetesApi
from terracrew.kubernetes_api.objects import BatchJob, PodList
from terracrew.runner.dispatch.kubernetes import manifests, pod_states
from terracrew.runner.dispatch.kubernetes.manifests import PodOwner
from terracrew.runner.dispatch.kubernetes.settings import KubernetesSettings

log = logging.getLogger(__name__)

_REMOVE_SECONDS = 60.0
_LOOK_SECONDS = 0.5


class ImageEngines:
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
            with contextlib.suppress(ApiRefusal, TimeoutError):
                async with asyncio.timeout(_REMOVE_SECONDS):
                    await self._api.delete(f"jobs/{name}", {"propagationPolicy": "Background"})

    async def _answer(self, job: BatchJob) -> dict[str, list[str]]:
        query = {"labelSelector": f"batch.kubernetes.io/job-name={job.metadata.name}"}
        while True:
            for pod in (await self._api.ask(PodList, "GET", "pods", query=query)).items:
                if (end := pod_states.terminated(pod)) is not None:
                    return msgspec.json.decode(end.message or "", type=dict[str, list[str]])
            await asyncio.sleep(_LOOK_SECONDS)
