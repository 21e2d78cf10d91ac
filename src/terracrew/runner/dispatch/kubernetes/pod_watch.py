"""Watches the pods of one runner instance, all of them in one request.

The last state of a pod that is gone says how its attempt ended, so it is kept until the attempt is forgotten. Of other pods that
are gone nothing is kept.
"""

import asyncio
import contextlib
import logging
from typing import Any

import msgspec

from terracrew.backoff import Backoff
from terracrew.kubernetes_api.api import SILENCE, ApiRefusal, KubernetesApi
from terracrew.kubernetes_api.objects import ApiStatus, Pod, PodList
from terracrew.runner.dispatch.kubernetes.manifests import ATTEMPT
from terracrew.runner.dispatch.kubernetes.pod_template import EXECUTOR

log = logging.getLogger(__name__)

_GONE_CODE = 410
"""The API server has forgotten the changes since the version that it was asked for."""


class SeenPod(msgspec.Struct, frozen=True):
    pod: Pod
    is_gone: bool = False
    """Whether the API server said that the pod does not exist any more. `pod` is its last state that was seen."""
    has_run: bool = False
    """Whether the executor's container was seen to run, or to have been made, at any time."""


class _PodChange(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


_decode_change = msgspec.json.Decoder(_PodChange).decode
_decode_pod = msgspec.json.Decoder(Pod).decode
_decode_status = msgspec.json.Decoder(ApiStatus).decode


class PodWatch:
    def __init__(self, api: KubernetesApi, selector: str) -> None:
        self._api, self._selector = api, {"labelSelector": selector}
        self._pods: dict[str, SeenPod] = {}
        self._followed: set[str] = set()
        """The attempts whose pods are remembered when they are gone."""
        self._changed = asyncio.Event()
        self._is_listed = False
        self._task: asyncio.Task[None] | None = None

    async def listed(self) -> None:
        """Return when the API server has said which pods there are. Begins to follow them."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        while not self._is_listed:
            await self.next_change().wait()

    def next_change(self) -> asyncio.Event:
        """Return what is set at the next change. Take it before you look, so that no change is missed."""
        return self._changed

    def of(self, attempt: str) -> list[SeenPod]:
        return [seen for seen in self._pods.values() if seen.pod.metadata.labels.get(ATTEMPT) == attempt]

    def get(self, uid: str) -> SeenPod | None:
        return self._pods.get(uid)

    def remember(self, attempt: str) -> None:
        """Keep the last state of this attempt's pods from now on. Call this before their end can be seen."""
        self._followed.add(attempt)

    def forget(self, attempt: str) -> None:
        """Forget this attempt's pods: those that are gone now, and the others when they are gone."""
        self._followed.discard(attempt)
        for seen in self.of(attempt):
            if seen.is_gone:
                del self._pods[seen.pod.metadata.uid]

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        delays, version = Backoff(0.2, 30.0), ""
        while True:
            try:
                if not version:
                    version = await self._list()
                began = version
                version = await self._follow(version)
                if version != began:
                    delays.reset()
                    continue
            except ApiRefusal as refusal:
                if refusal.status != _GONE_CODE:
                    log.warning("Kubernetes does not let pods be watched, and is asked again: %s", refusal.message)
                version = ""
            except SILENCE as error:
                log.info("the watch of pods was interrupted, and continues: %s", error or repr(error))
            await asyncio.sleep(delays.next())

    async def _list(self) -> str:
        found = await self._api.ask(PodList, "GET", "pods", query=self._selector)
        present = {pod.metadata.uid: self._seen(pod, is_gone=False) for pod in found.items}
        gone = {
            uid: msgspec.structs.replace(seen, is_gone=True)
            for uid, seen in self._pods.items()
            if uid not in present and self._is_remembered(seen.pod)
        }
        self._pods = gone | present
        self._is_listed = True
        self._say_changed()
        return found.metadata.resource_version

    async def _follow(self, version: str) -> str:
        """Take changes after this version until the request ends. Returns the last version; empty if pods must be listed again."""
        changes: Any = self._api.watch("pods", {**self._selector, "resourceVersion": version})
        async with contextlib.aclosing(changes):
            async for line in changes:
                if not line.strip():
                    continue
                change = _decode_change(line)
                if change.type == "ERROR":
                    said = _decode_status(change.object)
                    raise ApiRefusal(said.code or 0, said.reason or "", said.message or "")
                pod = _decode_pod(change.object)
                version = pod.metadata.resource_version
                if change.type != "BOOKMARK":
                    self._take(pod, is_gone=change.type == "DELETED")
        return version

    def _take(self, pod: Pod, *, is_gone: bool) -> None:
        if is_gone and not self._is_remembered(pod):
            self._pods.pop(pod.metadata.uid, None)
        else:
            self._pods[pod.metadata.uid] = self._seen(pod, is_gone=is_gone)
        self._say_changed()

    def _is_remembered(self, pod: Pod) -> bool:
        return pod.metadata.labels.get(ATTEMPT) in self._followed

    def _seen(self, pod: Pod, *, is_gone: bool) -> SeenPod:
        before = self._pods.get(pod.metadata.uid)
        is_made = any(each.container_id for each in pod.status.container_statuses if each.name == EXECUTOR)
        return SeenPod(pod, is_gone, has_run=is_made or (before is not None and before.has_run))

    def _say_changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
