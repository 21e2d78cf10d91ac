"""Something happens to an attempt before its node has said that its pod runs. Needs no cluster."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from terracrew.attempt import directories, exit_codes, files
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.containers import attempts
from terracrew.runner.dispatch.kubernetes import dispatcher as kubernetes_dispatcher
from terracrew.runner.dispatch.kubernetes import manifests
from terracrew.runner.dispatch.kubernetes.dispatcher import Kubernetes
from terracrew.runner.dispatch.kubernetes.settings import KubernetesSettings
from tests.runner.conftest import TIMEOUT_SECONDS, granted
from tests.runner.dispatch.kubernetes import scripted_api

MISSING = {"kind": "Status", "reason": "NotFound", "message": "not found", "code": 404}


class LateCluster:
    """A cluster of one pod, whose node says only later that it runs. The pod takes all the time that it is given."""

    def __init__(self) -> None:
        self.has_secret = asyncio.Event()
        self.graces: list[Any] = []
        self._pod: dict[str, Any] = {}
        self._has_job = self.has_deleted_job = False
        self._followers: list[asyncio.Queue[dict[str, Any] | None]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        kind, method = request.path.partition("/namespaces/ns/")[2].partition("/")[0], request.method
        body: Any = await request.json() if request.can_read_body else None
        if (method, kind) == ("POST", "jobs"):
            self._has_job = True
            labels = body["spec"]["template"]["metadata"]["labels"]
            metadata = {"name": "pod", "uid": "pod-uid", "labels": labels, "resourceVersion": "1"}
            self._pod = {"metadata": metadata, "spec": {"nodeName": "node"}, "status": {"phase": "Pending"}}
            self._tell("ADDED")
        elif (method, kind) == ("POST", "secrets"):
            self.has_secret.set()
        elif (method, kind) == ("DELETE", "pods"):
            self.graces.append(body["gracePeriodSeconds"])
            self.end()
        elif (method, kind) == ("GET", "pods") and "watch" in request.query:
            return await self._follow(request)
        elif (method, kind) == ("GET", "pods"):
            return web.json_response({"metadata": {"resourceVersion": "0"}, "items": [self._pod] if self._pod else []})
        elif (method, kind) == ("DELETE", "jobs"):
            self.has_deleted_job = True
        elif not self._has_job or kind == "secrets":
            return web.json_response(MISSING, status=404)
        return web.json_response({"metadata": {"name": "job", "uid": "job-uid"}})

    def say_that_it_runs(self) -> None:
        self._become("Running", {"running": {"startedAt": "2026-01-01T00:00:00Z"}})
        self._tell("MODIFIED")

    def end(self) -> None:
        self._become("Failed", {"terminated": {"exitCode": 137, "reason": "Error"}})
        self._has_job = False
        self._tell("DELETED")

    def restart_node(self) -> None:
        """Report what containerd says of a container that it finds dead after a restart."""
        self._become("Failed", {"terminated": {"exitCode": 255, "reason": "Unknown"}})
        self._tell("MODIFIED")

    def _become(self, phase: str, state: dict[str, Any]) -> None:
        self._pod["status"] = {
            "phase": phase,
            "containerStatuses": [{"name": "executor", "containerID": "c", "state": state}],
        }

    def _tell(self, change: str) -> None:
        for each in self._followers:
            each.put_nowait({"type": change, "object": self._pod})

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        changes = asyncio.Queue[dict[str, Any] | None]()
        self._followers.append(changes)
        if self._pod:  # it may have been made since the list was read
            changes.put_nowait({"type": "ADDED", "object": self._pod})
        response = web.StreamResponse()
        await response.prepare(request)
        while (change := await changes.get()) is not None:
            with contextlib.suppress(ConnectionError):
                await response.write(json.dumps(change).encode() + b"\n")
        return response

    def close(self) -> None:
        for each in self._followers:
            each.put_nowait(None)


def opened(folder: Path) -> Kubernetes:
    api = scripted_api.client(folder)
    dispatcher = Kubernetes(KubernetesSettings("image"), api, {}, manifests.PodOwner.for_key("", "r", "i"))
    dispatcher.use_instance("key")
    return dispatcher


@pytest.fixture
async def late(tmp_path: Path) -> AsyncIterator[tuple[LateCluster, Kubernetes]]:
    cluster = LateCluster()
    async with scripted_api.served(cluster.handle, tmp_path):
        dispatcher = opened(tmp_path)
        yield cluster, dispatcher
        await dispatcher.close()
        cluster.close()


@pytest.mark.feature("D4.kubernetes", "J9.escalation")
async def test_a_kill_does_not_wait_until_a_pod_whose_node_is_late_has_delivered(
    late: tuple[LateCluster, Kubernetes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its start was taken back, which gives the pod minutes to deliver, and no kill followed."""
    monkeypatch.setattr(attempts, "KILL_SECONDS", 0.1)
    cluster, dispatcher = late
    directory = directories.create(tmp_path, granted(), "http://server")
    async with asyncio.timeout(TIMEOUT_SECONDS):
        handle = await dispatcher.start(ExecutorStart("http://server", str(directory), "", "", "", {}, granted()))
        await cluster.has_secret.wait()
        await dispatcher.stop(handle, "kill")
        ended = await dispatcher.watch(handle)
    assert cluster.graces == [1], "a grace of 0 would remove the pod before its processes have ended"
    assert (ended.code, ended.reason) == (
        exit_codes.NOTHING_LEFT,
        "its pod was killed, because the job was canceled",
    )


async def _left_by_first(cluster: LateCluster, folder: Path) -> Path:
    """Return the directory of an attempt whose runner has ended as soon as the pod could begin."""
    first = opened(folder)
    directory = directories.create(folder, granted(), "http://server")
    await first.start(ExecutorStart("http://server", str(directory), "", "", "", {}, granted()))
    await cluster.has_secret.wait()
    await first.close()
    return directory


@pytest.mark.feature("D4.kubernetes", "O4.adopted")
async def test_a_runner_that_is_started_again_lets_a_pod_go_on_whose_node_is_late(
    late: tuple[LateCluster, Kubernetes], tmp_path: Path
) -> None:
    """Its start was taken back at once, so that an executor that had begun was told to end."""
    cluster, second = late
    async with asyncio.timeout(TIMEOUT_SECONDS):
        watching = asyncio.create_task(second.watch(second.adopt(await _left_by_first(cluster, tmp_path))))
        await asyncio.sleep(0.3)  # the start would have been taken back by then
        cluster.say_that_it_runs()
        cluster.end()
        assert (await watching).code == exit_codes.NOTHING_LEFT
    assert not cluster.has_deleted_job


@pytest.mark.feature("D4.kubernetes", "D6.watched")
async def test_an_attempt_whose_node_was_restarted_may_have_begun(
    late: tuple[LateCluster, Kubernetes], tmp_path: Path
) -> None:
    """Symptom: «its pod was ended by signal 127» was reported as an attempt that never began. The server cannot accept that of a
    change that has begun, so the module stayed locked until the lease was over."""
    cluster, dispatcher = late
    directory = directories.create(tmp_path, granted(), "http://server")
    async with asyncio.timeout(TIMEOUT_SECONDS):
        start = ExecutorStart("http://server", str(directory), "", "", "", {}, granted())
        watching = asyncio.create_task(dispatcher.watch(await dispatcher.start(start)))
        await cluster.has_secret.wait()
        cluster.say_that_it_runs()
        cluster.restart_node()
        ended = await watching
    assert (ended.code, ended.reason) == (
        exit_codes.NOTHING_LEFT,
        "its container was found dead, as after a restart of its machine or of the container runtime",
    )
    assert (directory / files.CONTAINER).exists(), "a runner that starts again must know that there was a process"


async def test_a_runner_that_is_started_again_takes_back_a_start_that_does_not_happen(
    late: tuple[LateCluster, Kubernetes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_dispatcher, "LATE_NODE_SECONDS", 0.2)
    cluster, second = late
    async with asyncio.timeout(TIMEOUT_SECONDS):
        watching = asyncio.create_task(second.watch(second.adopt(await _left_by_first(cluster, tmp_path))))
        while not cluster.has_deleted_job:
            await asyncio.sleep(0.01)
        watching.cancel()
