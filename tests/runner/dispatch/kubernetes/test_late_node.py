"""A job is killed before its node has said that its pod runs. Needs no cluster."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from terracrew.attempt import directories, exit_codes
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.kubernetes import dispatcher as kubernetes_dispatcher
from terracrew.runner.dispatch.kubernetes import manifests
from terracrew.runner.dispatch.kubernetes.api import KubernetesApi
from terracrew.runner.dispatch.kubernetes.dispatcher import Kubernetes
from terracrew.runner.dispatch.kubernetes.kubeconfig import Kubeconfig
from terracrew.runner.dispatch.kubernetes.settings import KubernetesSettings
from tests.runner.conftest import TIMEOUT_SECONDS, granted

MISSING = {"kind": "Status", "reason": "NotFound", "message": "not found", "code": 404}


class LateCluster:
    """A cluster of one pod, whose node says only at its end that it has run. The pod takes all the time that it is given."""

    def __init__(self) -> None:
        self.has_secret = asyncio.Event()
        self.graces: list[Any] = []
        self._pod: dict[str, Any] = {}
        self._has_job = False
        self._changes: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        kind, method = request.path.partition("/namespaces/ns/")[2].partition("/")[0], request.method
        body: Any = await request.json() if request.can_read_body else None
        if (method, kind) == ("POST", "jobs"):
            self._has_job = True
            labels = body["spec"]["template"]["metadata"]["labels"]
            metadata = {"name": "pod", "uid": "pod-uid", "labels": labels, "resourceVersion": "1"}
            self._pod = {"metadata": metadata, "spec": {"nodeName": "node"}, "status": {"phase": "Pending"}}
            self._changes.put_nowait({"type": "ADDED", "object": self._pod})
        elif (method, kind) == ("POST", "secrets"):
            self.has_secret.set()
        elif (method, kind) == ("DELETE", "pods"):
            self.graces.append(body["gracePeriodSeconds"])
            self._end()
        elif (method, kind) == ("GET", "pods") and "watch" in request.query:
            return await self._follow(request)
        elif (method, kind) == ("GET", "pods"):
            return web.json_response({"metadata": {"resourceVersion": "0"}, "items": []})
        elif not self._has_job or kind == "secrets":
            return web.json_response(MISSING, status=404)
        return web.json_response({"metadata": {"name": "job", "uid": "job-uid"}})

    def _end(self) -> None:
        ended = {"name": "executor", "containerID": "c", "state": {"terminated": {"exitCode": 137, "reason": "Error"}}}
        self._pod["status"] = {"phase": "Failed", "containerStatuses": [ended]}
        self._has_job = False
        self._changes.put_nowait({"type": "DELETED", "object": self._pod})

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while (change := await self._changes.get()) is not None:
            await response.write(json.dumps(change).encode() + b"\n")
        return response

    def close(self) -> None:
        self._changes.put_nowait(None)


@pytest.fixture
async def late(tmp_path: Path) -> AsyncIterator[tuple[LateCluster, Kubernetes]]:
    cluster, application = LateCluster(), web.Application()
    application.router.add_route("*", "/{path:.*}", cluster.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(document))
    api = KubernetesApi(Kubeconfig(tmp_path / "kubeconfig", "", {}), "ns")
    dispatcher = Kubernetes(KubernetesSettings("image"), api, {}, manifests.owner("", "r", "i"))
    dispatcher.use_instance("key")
    yield cluster, dispatcher
    await dispatcher.close()
    cluster.close()
    await runner.cleanup()


@pytest.mark.feature("D4.kubernetes", "J9.escalation")
async def test_a_kill_does_not_wait_until_a_pod_whose_node_is_late_has_delivered(
    late: tuple[LateCluster, Kubernetes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its start was taken back, which gives the pod minutes to deliver, and no kill followed."""
    monkeypatch.setattr(kubernetes_dispatcher, "KILL_SECONDS", 0.1)
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
