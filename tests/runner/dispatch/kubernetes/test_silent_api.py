"""Which answers count: those of the API server, and not those of what stands in front of it. Needs no cluster."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from terracrew.attempt import directories
from terracrew.kubernetes_api.api import ApiRefusal, KubernetesApi
from terracrew.kubernetes_api.objects import BatchJob
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.kubernetes import manifests
from terracrew.runner.dispatch.kubernetes.dispatcher import Kubernetes
from terracrew.runner.dispatch.kubernetes.kubeconfig import Kubeconfig
from terracrew.runner.dispatch.kubernetes.settings import KubernetesSettings
from terracrew.runner.dispatch.protocol import NotStarted
from tests.runner.conftest import TIMEOUT_SECONDS, granted

JOB = {"metadata": {"name": "a", "uid": "u"}}


def _status(code: int, reason: str) -> web.Response:
    return web.json_response({"kind": "Status", "reason": reason, "message": reason, "code": code}, status=code)


class ScriptedApi:
    """Answers one request after the other from a list, then always with the Job."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.seen: list[str] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(f"{request.method} {request.path} {request.headers.get('Authorization')}")
        answer = self.answers.pop(0) if self.answers else web.json_response(JOB)
        if answer is None:
            assert request.transport
            request.transport.abort()
            return web.Response()
        return answer


@pytest.fixture
async def scripted(tmp_path: Path) -> AsyncIterator[tuple[ScriptedApi, KubernetesApi]]:
    scripted = ScriptedApi()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", scripted.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    api = KubernetesApi(_access(tmp_path, f"http://127.0.0.1:{port}"), "ns")
    yield scripted, api
    await api.close()
    await runner.cleanup()


def _access(folder: Path, server: str) -> Kubeconfig:
    path = folder / "kubeconfig"
    (folder / "token").write_text("t")
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"tokenFile": "token"}}],
    }
    path.write_text(json.dumps(document))
    return Kubeconfig(path, "", {})


@pytest.mark.feature("D6.watched")
@pytest.mark.parametrize(
    "silence",
    [
        lambda: None,
        lambda: web.Response(status=404, text="no such route"),
        lambda: web.Response(status=200, text="<html>"),
        lambda: web.Response(status=502, text="bad gateway"),
        lambda: _status(500, "InternalError"),
        lambda: _status(401, "Unauthorized"),
        lambda: _status(403, "Forbidden"),
        lambda: _status(429, "TooManyRequests"),
        lambda: _status(404, "404 page not found"),
    ],
)
async def test_what_is_no_answer_of_the_api_server_does_not_mean_that_something_is_missing(
    scripted: tuple[ScriptedApi, KubernetesApi], silence: Any
) -> None:
    script, api = scripted
    script.answers = [silence()]
    async with asyncio.timeout(TIMEOUT_SECONDS):
        try:
            found = await api.find(BatchJob, "jobs/a")
        except ApiRefusal:
            return  # a 404 of the API server about something else than an object
    assert found
    assert found.metadata.uid == "u"
    assert len(script.seen) == 2


@pytest.mark.feature("D6.watched")
async def test_only_the_api_server_says_that_something_is_missing(
    scripted: tuple[ScriptedApi, KubernetesApi],
) -> None:
    script, api = scripted
    script.answers = [_status(404, "NotFound")]
    assert await api.find(BatchJob, "jobs/a") is None
    assert script.seen == ["GET /apis/batch/v1/namespaces/ns/jobs/a Bearer t"]


async def test_a_refused_credential_is_read_again(scripted: tuple[ScriptedApi, KubernetesApi], tmp_path: Path) -> None:
    script, api = scripted
    assert await api.find(BatchJob, "jobs/a")
    (tmp_path / "token").write_text("new")
    script.answers = [_status(401, "Unauthorized")]
    assert await api.find(BatchJob, "jobs/a")
    assert [each.rsplit(" ", 1)[1] for each in script.seen] == ["t", "t", "new"]


async def test_what_may_not_be_made_is_refused(scripted: tuple[ScriptedApi, KubernetesApi]) -> None:
    script, api = scripted
    script.answers = [_status(403, "Forbidden")]
    with pytest.raises(ApiRefusal, match="Forbidden"):
        await api.ask(BatchJob, "POST", "jobs", body={})


@pytest.mark.feature("J9.escalation")
async def test_a_start_that_waits_for_the_api_server_can_be_canceled(tmp_path: Path) -> None:
    api = KubernetesApi(_access(tmp_path, "http://127.0.0.1:1"), "ns")
    dispatcher = Kubernetes(KubernetesSettings("image"), api, {}, manifests.PodOwner.for_key("", "r", "i"))
    dispatcher.use_instance("key")
    directory = directories.create(tmp_path, granted(), "http://server")
    try:
        handle = await dispatcher.start(ExecutorStart("http://server", str(directory), "", "", "", {}, granted()))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await dispatcher.stop(handle, "interrupt")
            with pytest.raises(NotStarted, match="canceled before its pod was started"):
                await dispatcher.watch(handle)
    finally:
        await dispatcher.close()
