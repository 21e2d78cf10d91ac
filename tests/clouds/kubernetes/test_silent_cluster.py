"""An API server that is away, busy, replaced by something else, or that turns a token away."""

import base64
import contextlib
import json
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from terracrew.clouds.contract import CloudRefused, CloudSilent
from terracrew.clouds.kubernetes import client as cluster_client
from terracrew.clouds.kubernetes.client import ClusterClient
from terracrew.clouds.kubernetes.cloud import KubernetesCloud
from terracrew.clouds.model import KubernetesCluster, StartRequest
from terracrew.kubernetes_api import api as kubernetes_api
from terracrew.kubernetes_api.objects import AnyObject
from tests.clouds.kubernetes import examples
from tests.machine import certificates

FOUND = {"metadata": {"name": "a", "uid": "1"}}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_client, "MAX_RETRY_SECONDS", 0.3)
    monkeypatch.setattr(cluster_client, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(cluster_client, "MAX_PAUSE_SECONDS", 0.02)


def status(code: int, message: str, reason: str = "") -> web.Response:
    return web.json_response({"kind": "Status", "message": message, "reason": reason, "code": code}, status=code)


@contextlib.asynccontextmanager
async def served(handle: Handler, folder: Path) -> AsyncGenerator[KubernetesCluster]:
    certificate, key = certificates.certificate(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield KubernetesCluster(api_url=url, ca_certificate=certificate.read_text(), namespace="ns")
    finally:
        await runner.cleanup()


class Signer:
    def __init__(self, seconds: float = 600) -> None:
        self.count, self._seconds = 0, seconds

    async def __call__(self, is_probe: bool = False, /) -> str:
        self.count += 1
        payload = json.dumps({"exp": time.time() + self._seconds, "n": self.count}).encode()
        return f"h.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.s"


async def test_a_token_is_signed_again_when_it_is_about_to_end_or_was_not_accepted(tmp_path: Path) -> None:
    tokens: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        tokens.append(request.headers["Authorization"])
        return status(401, "Unauthorized") if len(tokens) == 1 else web.json_response(FOUND)

    async with served(handle, tmp_path) as cluster:
        lasting, short = Signer(), Signer(seconds=30)
        for signer, expected in ((lasting, 2), (short, 3)):
            client = ClusterClient(cluster, signer)
            for _ in range(3):
                await client.get(AnyObject, "pods/a")
            await client.close()
            assert signer.count == expected


async def test_a_token_that_is_never_accepted_is_a_refusal_that_says_what_to_compare(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        return status(401, "Unauthorized")

    async with served(handle, tmp_path) as cluster:
        signer = Signer()
        client = ClusterClient(cluster, signer)
        with pytest.raises(CloudRefused, match=r"does not accept the token.*issuer, audience") as caught:
            await client.get(AnyObject, "pods/a")
        assert signer.count == 3
        assert "Bearer" not in caught.value.message
        await client.close()


async def test_what_a_proxy_answers_says_nothing_about_the_cluster(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(status=403, text="<html>blocked</html>")

    async with served(handle, tmp_path) as cluster:
        client = ClusterClient(cluster, Signer())
        with pytest.raises(CloudSilent, match="no object of Kubernetes"):
            await client.get(AnyObject, "pods/a")
        await client.close()


async def test_an_answer_without_an_end_is_not_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_api, "MAX_ANSWER_BYTES", 1 << 20)
    sent = 0

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(200):
            await response.write(b" " * 65536)
            sent += 65536
        return response

    async with served(handle, tmp_path) as cluster:
        client = ClusterClient(cluster, Signer())
        with pytest.raises(CloudSilent, match="more than 1 MiB"):
            await client.get(AnyObject, "pods/a")
        await client.close()
    assert sent > 1 << 20


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (lambda: status(429, "too many requests"), "throttled", "too many requests"),
        (lambda: status(500, "etcdserver: leader changed"), "silent", "leader changed"),
        (
            lambda: status(403, 'pods is forbidden: User "x" cannot create'),
            "not_permitted",
            "Give the identity the Role",
        ),
        (lambda: status(403, "exceeded quota: q, requested: pods=1"), "quota", "Raise the ResourceQuota"),
        (lambda: status(404, 'namespaces "ns" not found', "NotFound"), "missing", "Make the namespace"),
        (lambda: status(422, "Pod is invalid: spec.x", "Invalid"), "other", "spec.x"),
        (lambda: status(401, "Unauthorized"), "identity", "does not accept the token"),
    ],
)
async def test_a_start_that_is_refused_has_a_code_and_the_words_of_the_cluster(
    answer: Callable[[], web.Response], code: str, words: str, tmp_path: Path
) -> None:
    async def handle(request: web.Request) -> web.Response:
        return answer()

    async with served(handle, tmp_path) as cluster:
        cloud = KubernetesCloud(examples.identity(cluster), Signer())
        found: Any = await cloud.start(examples.deployment(), [StartRequest("tc-1"), StartRequest("Not_A_Pod")])
        assert [each.instance for each in found] == ["tc-1", "Not_A_Pod"]
        assert found[0].code == code
        assert words in found[0].words
        assert found[1].code == "other"
        await cloud.close()


async def test_a_cluster_with_another_certificate_is_refused_at_once(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        raise AssertionError("the token was sent to a stranger")

    async with served(handle, tmp_path) as cluster:
        other = tmp_path / "other"
        other.mkdir()
        stranger = certificates.certificate(other)[0].read_text()
        client = ClusterClient(
            KubernetesCluster(api_url=cluster.api_url, ca_certificate=stranger, namespace="ns"), Signer()
        )
        with pytest.raises(CloudRefused, match="certificate"):
            await client.get(AnyObject, "pods/a")
        await client.close()


@pytest.mark.parametrize("url", ["http://10.0.0.1", "https://", "https://a:b@c", "https://c?x=1", "file:///etc", ""])
async def test_a_token_is_sent_only_by_https_to_a_plain_address(url: str) -> None:
    signer = Signer()
    with pytest.raises(CloudRefused, match="https://"):
        await ClusterClient(KubernetesCluster(api_url=url), signer).get(AnyObject, "pods/a")
    assert signer.count == 0


async def test_a_server_outside_of_a_cluster_has_no_pod_to_sign_in_as(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    cluster = KubernetesCluster(api_url="", way="workload")
    with pytest.raises(CloudRefused, match="does not run in a pod"):
        await ClusterClient(cluster, Signer()).get(AnyObject, "pods/a")
