"""The dispatcher `kubernetes`: starts, finds, follows and stops the Jobs of attempts.

An attempt is a Job with one pod. The pod can run only when there is a Secret with the start that names this pod, so that is what
starts an attempt: before the Secret is requested, the file `container` in the attempt's directory says that a process may exist.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from terracrew.attempt import exit_codes, files
from terracrew.kubernetes_api import pod_words
from terracrew.kubernetes_api.api import ApiRefusal, KubernetesApi
from terracrew.kubernetes_api.objects import BatchJob, Pod
from terracrew.protocol.messages import CancelMode
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.config import RunnerConfig
from terracrew.runner.dispatch.containers import attempts, container_start
from terracrew.runner.dispatch.containers.attempts import BackgroundTasks, ContainerHandle
from terracrew.runner.dispatch.kubernetes import manifests, pod_states, settings
from terracrew.runner.dispatch.kubernetes.jobs import ImageEngines, Jobs
from terracrew.runner.dispatch.kubernetes.kubeconfig import open_access
from terracrew.runner.dispatch.kubernetes.manifests import PodOwner
from terracrew.runner.dispatch.kubernetes.pod_watch import PodWatch, SeenPod
from terracrew.runner.dispatch.kubernetes.settings import KubernetesSettings
from terracrew.runner.dispatch.protocol import AttemptEnd, NotStarted, of_another

log = logging.getLogger(__name__)

_LOOK_SECONDS = 60.0
WAITING_LOOK_SECONDS = 5.0
"""How often to ask why there is no pod yet."""
HOPELESS_SECONDS = 60.0
"""How long a pod may wait for something that seldom comes by itself, such as an image with a wrong name."""
_CAUSE_SECONDS = 10.0
"""How long to wait for the reason why a pod was ended, after its executor has ended."""
LATE_NODE_SECONDS = 10.0
"""How long a node may take to say that a container runs. The executor may have begun by then."""
_KILL_GRACE_SECONDS = 1
"""0 would remove the pod from the API before its processes have ended."""
_CANCELED = "it was canceled before its pod was started"
_KILLED = "its pod was killed, because the job was canceled"


class PodHandle(ContainerHandle):
    is_killed: bool = False
    """Whether the pod was deleted because the job was canceled."""


class _Mark(msgspec.Struct, frozen=True):
    """The content of the file `container`: which pod was given the start."""

    job_uid: str
    pod_uid: str


class Kubernetes:
    def __init__(
        self, chosen: KubernetesSettings, api: KubernetesApi, environment: Mapping[str, str], owner: PodOwner
    ) -> None:
        """`environment` holds the variables of the runner that engines may get."""
        self._settings, self.api = chosen, api
        self._environment = container_start.chosen(environment, chosen.environment)
        self._tasks = BackgroundTasks()
        self._use(owner)

    def _use(self, owner: PodOwner) -> None:
        self._owner = owner
        self._watch = PodWatch(self.api, owner.selector)
        self.place = self._jobs = Jobs(self.api, owner, self._watch)
        self._engines = ImageEngines(self._settings, self.api, owner)

    def use_instance(self, key: str) -> None:
        self._use(self._owner.with_key(key))

    async def engines(self) -> Mapping[str, list[str]] | None:
        return await self._engines.find()

    async def start(self, start: ExecutorStart) -> PodHandle:
        handle = PodHandle(Path(start.directory), start)
        if not start.is_salvage:  # what a dead executor left was delivered in its own pod, or is lost with it
            self._watch.remember(handle.directory.name)
            handle.launching = self._tasks.start(self._launch(handle, start))
        return handle

    def adopt(self, directory: Path) -> PodHandle:
        self._watch.remember(directory.name)
        return PodHandle(directory)

    def waits_for(self, handle: PodHandle) -> str:
        return handle.waits_for

    # ---- starting

    async def _launch(self, handle: PodHandle, start: ExecutorStart) -> None:
        directory = handle.directory
        if (directory / files.PID).exists():
            raise NotStarted("the attempt was handed back")
        deadline = time.monotonic() + self._settings.start_seconds
        try:
            async with asyncio.timeout(None) as scope:
                stopping = self._tasks.start(self._cancel_when_stopped(handle, scope))
                try:
                    mark, notes = await self._make(handle, start, deadline)
                finally:
                    stopping.cancel()
        except TimeoutError:
            async with attempts.briefly(ApiRefusal):  # without a Secret, no pod can run it
                await self._jobs.delete(directory.name)
            raise NotStarted(_CANCELED) from None
        given = container_start.inside(start, self._environment, waits_for_server=True)
        given = msgspec.structs.replace(given, notes=[*start.notes, *notes])
        await self._hand_over(handle, mark, given)
        await self._begin(handle, mark, deadline)

    async def _cancel_when_stopped(self, handle: PodHandle, scope: asyncio.Timeout) -> None:
        await handle.is_stopped.wait()
        scope.reschedule(asyncio.get_running_loop().time())

    async def _make(self, handle: PodHandle, start: ExecutorStart, deadline: float) -> tuple[_Mark, list[str]]:
        """Make the Job, and return its pod when there is one, and lines for the job's log."""
        directory = handle.directory
        await self._watch.listed()
        chosen = settings.with_choice(self._settings, start.choice)
        body = manifests.job(chosen, self._owner, directory.name, start.interrupt_seconds)
        silences: list[None] = []
        try:
            job = await self.api.ask(BatchJob, "POST", "jobs", body=body, when_silent=lambda: silences.append(None))
        except ApiRefusal as refusal:
            found = await self._jobs.find(directory.name) if silences or refusal.exists_already else None
            if found is None:
                raise NotStarted(f"the Job of the executor cannot be made: {refusal.message}") from None
            job = found
        pod, notes = await self._first_pod(handle, job, deadline)
        return _Mark(job.metadata.uid, pod.metadata.uid), notes

    async def _first_pod(self, handle: PodHandle, job: BatchJob, deadline: float) -> tuple[Pod, list[str]]:
        directory = handle.directory
        notes, said, began = list[str](), "", time.monotonic()
        while True:
            change = self._watch.next_change()
            for seen in self._watch.of(directory.name):
                if not seen.is_gone:
                    return seen.pod, notes
            if not await _within(change, WAITING_LOOK_SECONDS):
                words = pod_words.why_from_events(await self._jobs.events(job.metadata.uid))
                if words and words != said:
                    said = words
                    handle.waits_for = f"Waiting for a pod: {words}"
                    log.warning("%s has no pod yet: %s", directory.name, words)
                    notes.append(f"Waiting for a pod: {words}")
                is_deleted = await self._jobs.find(directory.name) is None
                is_hopeless = "forbidden" in words.lower() and "quota" not in words.lower()
                is_late = is_hopeless and time.monotonic() - began > HOPELESS_SECONDS
                if is_deleted or is_late or time.monotonic() > deadline:
                    await self._jobs.delete_and_wait(directory.name)
                    why = "its Job was deleted by somebody else" if is_deleted else said or "Kubernetes says nothing"
                    raise NotStarted(f"the executor got no pod: {why}")

    async def _hand_over(self, handle: PodHandle, mark: _Mark, start: ExecutorStart) -> None:
        """Give the start to the pod."""
        attempt = handle.directory.name
        attempts.write_mark(handle.directory, msgspec.json.encode(mark))
        body = manifests.secret(self._owner, attempt, mark.job_uid, mark.pod_uid, start)
        try:
            await self.api.ask(dict[str, Any], "POST", "secrets", body=body)
        except ApiRefusal as refusal:
            if not refusal.exists_already:  # otherwise the request was repeated
                await self._retract(handle, mark, f"the Secret of the executor cannot be made: {refusal.message}")

    async def _begin(self, handle: PodHandle, mark: _Mark, deadline: float) -> None:
        """Return when the executor's container has been started or has ended, or raise NotStarted if it never will be."""
        said, hopeless_since = "", math.inf
        while True:
            change = self._watch.next_change()
            seen = self._watch.get(mark.pod_uid)
            if seen is None or pod_states.has_ended(seen) or pod_states.has_started(seen.pod):
                return None
            if handle.is_stopped.is_set():
                return await self._retract(handle, mark, _CANCELED)
            now, why = time.monotonic(), pod_words.why_waiting(seen.pod)
            hopeless_since = min(hopeless_since, now) if pod_words.is_hopeless(seen.pod) else math.inf
            if now > min(deadline, hopeless_since + HOPELESS_SECONDS):
                why = why or pod_words.why_from_events(await self._jobs.events(mark.pod_uid))
                words = why or "Kubernetes says nothing"
                return await self._retract(handle, mark, f"the pod of the executor did not start: {words}")
            if why and why != said:
                said = why
                log.warning("the pod of %s waits: %s", handle.directory.name, why)
            handle.waits_for = f"The pod waits: {why}" if why else ""
            stopped = self._tasks.start(handle.is_stopped.wait())
            changed = self._tasks.start(change.wait())
            await asyncio.wait({stopped, changed}, timeout=WAITING_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            changed.cancel()

    async def _retract(self, handle: PodHandle, mark: _Mark, reason: str) -> None:
        """Take a start back. Raises NotStarted unless the pod has begun in the meantime."""
        await self._jobs.delete_and_wait(handle.directory.name)
        seen = self._watch.get(mark.pod_uid)
        if seen is not None and pod_states.has_started(seen.pod) and not pod_states.was_never_started(seen):
            return
        attempts.remove_mark(handle.directory)
        raise NotStarted(reason)

    # ---- following

    async def watch(self, handle: PodHandle) -> AttemptEnd:
        directory = handle.directory
        if handle.start is not None and handle.start.is_salvage:
            return AttemptEnd(exit_codes.NOTHING_LEFT)
        end = await attempts.wait_for_start(handle, "pod", lambda: self._jobs.delete(directory.name))
        if end is not None:
            return end
        mark = _read_mark(directory)
        await self._watch.listed()
        if handle.launching is None:
            await self._take_over(handle, mark)
        removing = self._tasks.start(self._jobs.delete_secret(directory.name))  # the pod has read it
        try:
            seen, cause = await self._ended(mark), ""
            if not handle.is_stopped.is_set():
                seen, cause = await self._explained(seen)
        finally:
            removing.cancel()
        return self._conclude(handle, seen, cause)

    async def _take_over(self, handle: PodHandle, mark: _Mark) -> None:
        """Take back what an earlier process of this runner began to start, unless the pod begins soon.

        The pod may or may not have got its start: the runner needs no right to read Secrets, so it cannot look.
        """
        deadline = time.monotonic() + LATE_NODE_SECONDS
        while True:
            change, left = self._watch.next_change(), deadline - time.monotonic()
            seen = self._watch.get(mark.pod_uid)
            if seen is None or pod_states.has_ended(seen) or pod_states.has_started(seen.pod):
                return None
            if left <= 0:
                reason = "the runner stopped before the pod of the executor was started"
                return await self._retract(handle, mark, reason)
            await _within(change, left)

    async def _ended(self, mark: _Mark) -> SeenPod | None:
        """Return the last state of the pod after its end; None if it does not exist, and nobody saw its end."""
        is_reported = False
        while True:
            change = self._watch.next_change()
            seen = self._watch.get(mark.pod_uid)
            if seen is None or pod_states.has_ended(seen):
                return seen
            ready = seen.pod.condition("Ready")
            if ready and ready.reason == "NodeStatusUnknown" and not is_reported:
                is_reported = True
                log.warning(
                    "the node %s of the pod %s does not answer; the attempt may still run there, and is not over until "
                    "Kubernetes says that the pod has ended or does not exist",
                    seen.pod.spec.node_name,
                    seen.pod.metadata.name,
                )
            await _within(change, _LOOK_SECONDS)

    async def _explained(self, seen: SeenPod | None) -> tuple[SeenPod | None, str]:
        """Return the last state of a pod, and why it was ended if only an event says so. Waits a moment for either."""
        deadline = time.monotonic() + _CAUSE_SECONDS
        while seen is not None and not seen.is_gone and pod_states.lacks_cause(seen.pod):
            change, uid, is_last = self._watch.next_change(), seen.pod.metadata.uid, pod_words.is_final(seen.pod)
            if cause := pod_words.eviction_from_events(await self._jobs.events(uid)):
                return seen, cause
            if is_last or (left := deadline - time.monotonic()) <= 0:
                break
            await _within(change, left)
            seen = self._watch.get(uid) or seen
        return seen, ""

    def _conclude(self, handle: PodHandle, seen: SeenPod | None, cause: str) -> AttemptEnd:
        """Write what the runner has to know of an attempt without processes, and say how it ended."""
        directory = handle.directory
        if seen is None:
            reason = "its pod does not exist any more: it was deleted or evicted while no runner watched it"
            return AttemptEnd(exit_codes.NOTHING_LEFT, reason)
        report = pod_states.report_of(seen.pod)
        if pod_states.was_never_started(seen) or (report and not report.has_begun):
            attempts.remove_mark(directory)
            raise NotStarted(pod_states.why_not_begun(seen))
        reason = _KILLED if handle.is_killed else cause or pod_states.how(seen)
        if report is None:
            return AttemptEnd(exit_codes.NOTHING_LEFT, reason)
        report.write_into(directory)
        if not report.done:
            return AttemptEnd(exit_codes.NOTHING_LEFT, reason)
        if report.executor == exit_codes.DELIVERED:
            reason = "" if handle.is_stopped.is_set() else cause or pod_words.why_ended(seen.pod)
        return AttemptEnd(report.executor, reason)

    # ---- stopping

    async def stop(self, handle: PodHandle, mode: CancelMode) -> None:
        if mode == "after_step":
            return  # an executor without a connection starts no mutating step, and gets the request when it reconnects
        handle.is_stopped.set()
        kill_at = time.monotonic() + attempts.KILL_SECONDS if mode == "kill" else math.inf
        if handle.launching is not None:
            try:
                await self._launched(handle, handle.launching, kill_at)
            except NotStarted:
                return
        try:
            mark = _read_mark(handle.directory)
        except FileNotFoundError:
            return
        await self._watch.listed()
        is_interrupted = False
        while (seen := self._watch.get(mark.pod_uid)) and not pod_states.has_ended(seen):
            change = self._watch.next_change()
            if time.monotonic() >= kill_at:
                handle.is_killed = True
                await self._kill(seen.pod)
                kill_at = math.inf
            elif not is_interrupted:
                await self._interrupt(seen.pod)
                is_interrupted = True
            await _within(change, min(_LOOK_SECONDS, max(0.0, kill_at - time.monotonic())))

    async def _launched(self, handle: PodHandle, launching: asyncio.Task[None], kill_at: float) -> None:
        """Return when the start has happened or was taken back. That lets an executor deliver first which has begun before its node
        said so, as every deletion of its Job does; so a kill must not wait for it."""
        await asyncio.wait({launching}, timeout=None if kill_at == math.inf else kill_at - time.monotonic())
        if not launching.done():
            for seen in self._watch.of(handle.directory.name):
                if not pod_states.has_ended(seen):
                    handle.is_killed = True
                    await self._kill(seen.pod)
        await asyncio.shield(launching)

    async def _interrupt(self, pod: Pod) -> None:
        """Let the node send SIGTERM. A pod whose time is over stays in the API with its end, unlike one that is deleted."""
        body = {"metadata": {"uid": pod.metadata.uid}, "spec": {"activeDeadlineSeconds": 1}}
        try:
            await self.api.ask(Pod, "PATCH", f"pods/{pod.metadata.name}", body=body)
        except ApiRefusal as refusal:
            if not refusal.is_missing:
                log.warning("the pod %s cannot be told to end: %s", pod.metadata.name, refusal.message)

    async def _kill(self, pod: Pod) -> None:
        body = {"gracePeriodSeconds": _KILL_GRACE_SECONDS, "preconditions": {"uid": pod.metadata.uid}}
        await self.api.delete(f"pods/{pod.metadata.name}", body)

    async def close(self) -> None:
        await self._tasks.close()
        await self._engines.close()
        await self._watch.close()
        await self.api.close()


def _read_mark(directory: Path) -> _Mark:
    try:
        return msgspec.json.decode((directory / files.CONTAINER).read_bytes(), type=_Mark)
    except ValueError:
        raise of_another(directory) from None


async def _within(event: asyncio.Event, seconds: float) -> bool:
    """Return whether the event is set within this time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
            return True
    return False


class KubernetesPlugin:
    def open(self, config: RunnerConfig, environment: Mapping[str, str]) -> Kubernetes:
        chosen = settings.parse(config.dispatcher_data)
        own = {name: value for name, value in environment.items() if not name.startswith("TERRACREW_")}
        return Kubernetes(
            chosen, KubernetesApi(open_access(chosen, own), chosen.namespace), own, PodOwner.for_runner(config)
        )


PLUGIN = KubernetesPlugin()
