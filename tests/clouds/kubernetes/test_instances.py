"""Instances as pods of a real cluster: started once, watched in words, ended by themselves, and gone afterwards."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from terracrew import ids
from terracrew.clouds.contract import CloudRefused
from terracrew.clouds.kubernetes import instances, manifests, names, policies, sign_in
from terracrew.clouds.model import Deployment, InstanceStarted, InstanceState, KubernetesCluster, StartRequest
from terracrew.kubernetes_api.api import KubernetesApi
from tests.clouds.kubernetes import examples
from tests.clouds.kubernetes.bench import ACCOUNT, CloudBench, Steps, worker_token

pytestmark = [pytest.mark.platform("kubernetes"), pytest.mark.timeout(300)]
END_SECONDS = 120.0


@pytest.fixture(autouse=True)
def quick_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The image of the tests ends at once when it is told to, and one that does not is not waited for."""
    monkeypatch.setattr(manifests, "GRACE_SECONDS", 2)


def use_shell(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let pods run a script instead of a runner."""
    pod = manifests.pod

    def changed(deployment: Deployment, wanted: StartRequest, *, account: str = "") -> dict[str, Any]:
        made = pod(deployment, wanted, account=account)
        [container] = made["spec"]["containers"]
        del container["args"]
        container["command"] = ["/bin/sh", "-c", script]
        return made

    monkeypatch.setattr(manifests, "pod", changed)


async def deployed(bench: CloudBench, **settings: Any) -> Deployment:
    deployment = bench.deployment(**settings)
    await bench.cloud.deploy(deployment, worker_token(), ids.new("fjb"), Steps())
    return deployment


async def started(bench: CloudBench, deployment: Deployment, *instances: str) -> list[str]:
    answers = await bench.cloud.start(deployment, [StartRequest(each) for each in instances])
    assert [each.instance for each in answers] == list(instances)
    assert all(isinstance(each, InstanceStarted) for each in answers), answers
    return [each.reference for each in answers if isinstance(each, InstanceStarted)]


async def watched(bench: CloudBench, deployment: Deployment, reference: str, phase: str, words: str) -> InstanceState:
    """Watch until an instance is in this phase and says something with these words."""
    found: list[InstanceState] = []
    try:
        async with asyncio.timeout(END_SECONDS):
            while True:
                found = await bench.cloud.watch(deployment, [reference])
                for state in found:
                    if state.reference == reference and state.phase == phase and words in state.words:
                        return state
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"{found}\n{bench.kubectl('get', 'pods', '--output', 'yaml')}") from None


async def test_an_instance_that_is_asked_for_many_times_is_started_once(bench: CloudBench) -> None:
    deployment = await deployed(bench)
    others = [bench.open() for _ in range(4)]  # as many servers
    wanted = [StartRequest("tc-a-1-0"), StartRequest("tc-a-1-1")]
    answers = await asyncio.gather(*(cloud.start(deployment, wanted) for cloud in others for _ in range(3)))
    first = [InstanceStarted(each.instance, f"{bench.namespace}/{each.instance}") for each in wanted]
    assert all(each == first for each in answers)
    assert len(bench.names("pods")) == 2
    state = await watched(bench, deployment, first[0].reference, "running", "")
    assert (state.instance, state.started_at is not None) == ("tc-a-1-0", True)
    assert {each.kind for each in await bench.cloud.found()} == {"pod", "secret", "service account"}

    await bench.cloud.stop(deployment, first[0].reference, "a test")
    await watched(bench, deployment, first[0].reference, "ended", "")
    await watched(bench, deployment, first[0].reference, "ended", "does not exist any more")
    await bench.cloud.stop(deployment, first[0].reference, "a test, again")
    with pytest.raises(CloudRefused, match="another namespace"):
        await bench.cloud.stop(deployment, "default/tc-a-1-1", "a test")

    await bench.cloud.destroy(deployment, ids.new("fjb"), Steps())
    assert bench.names() == []
    for cloud in others:
        await cloud.close()


async def test_an_instance_that_leaves_is_kept_until_its_request_cannot_be_repeated(
    bench: CloudBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = await deployed(bench)
    use_shell(monkeypatch, "exit 0")
    [reference] = await started(bench, deployment, "tc-a-1-0")
    state = await watched(bench, deployment, reference, "ended", "it left by itself")
    assert (state.exit_code, state.last_lines) == (0, [])
    assert (await bench.cloud.watch(deployment, []))[0].phase == "ended"
    await started(bench, deployment, "tc-a-1-0")
    assert (await bench.cloud.watch(deployment, [reference]))[0].phase == "ended", "it was not started again"

    monkeypatch.setattr(instances, "KEPT_SECONDS", -60.0)
    await bench.cloud.watch(deployment, [reference])
    assert len(bench.names("pods")) == 1, "somebody still asks for it"
    await bench.cloud.watch(deployment, [])
    bench.cluster.wait("removal of the pod", lambda: not bench.names("pods"))


async def test_an_instance_that_fails_says_its_last_lines(bench: CloudBench, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = await deployed(bench)
    use_shell(monkeypatch, "echo begins; echo the server is not reachable; exit 3")
    [reference] = await started(bench, deployment, "tc-a-1-0")
    state = await watched(bench, deployment, reference, "ended", "it ended with exit code 3")
    assert (state.exit_code, state.last_lines) == (3, ["begins", "the server is not reachable"])


async def test_an_instance_that_cannot_start_says_why(bench: CloudBench) -> None:
    deployment = await deployed(bench, image="localhost:1/no/such:image")
    [reference] = await started(bench, deployment, "tc-a-1-0")
    await watched(bench, deployment, reference, "starting", "the image cannot be pulled: ")

    large = await deployed(bench, cpu_units=16384, memory_mb=122_880)
    [reference] = await started(bench, large, "tc-b-1-0")
    await watched(bench, large, reference, "starting", "no node can run it (Unschedulable): 0/1 nodes are available")

    foreign = await deployed(bench, architecture="arm64")
    [reference] = await started(bench, foreign, "tc-c-1-0")
    await watched(bench, foreign, reference, "starting", "node affinity/selector")
    for each in (deployment, large, foreign):
        await bench.cloud.destroy(each, ids.new("fjb"), Steps())
    assert bench.names() == []


async def test_the_identity_uses_every_permission_that_its_page_shows_and_no_other(
    bench: CloudBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, used = KubernetesApi.request, set[tuple[str, str]]()

    async def seen(self: KubernetesApi, method: str, path: str, body: Any, query: Mapping[str, str]) -> bytes:
        parts = path.strip("/").split("/")
        if path.startswith("/api/v1/namespaces/"):
            used.add(("namespaces", "get"))
        elif not path.startswith("/"):
            verbs = {"POST": "create", "DELETE": "delete", "PATCH": "patch", "GET": "get" if len(parts) > 1 else "list"}
            used.add(("/".join([parts[0], *parts[2:]]), verbs[method]))
        return await request(self, method, path, body, query)

    monkeypatch.setattr(KubernetesApi, "request", seen)
    deployment = bench.deployment()
    assert await bench.cloud.check(Steps(), deployment)
    for _ in range(2):
        await bench.cloud.deploy(deployment, worker_token(), ids.new("fjb"), Steps())
    use_shell(monkeypatch, "exit 1")
    [reference] = await started(bench, deployment, "tc-a-1-0")
    await started(bench, deployment, "tc-a-1-0")
    await watched(bench, deployment, reference, "ended", "")
    await bench.cloud.stop(deployment, reference, "a test")
    await bench.cloud.found()
    await bench.cloud.destroy(deployment, ids.new("fjb"), Steps())
    assert used == {(each.resource, each.verb) for each in policies.PERMISSIONS}


async def test_an_identity_that_is_the_servers_own_pod_uses_only_a_namespace_that_names_it(
    bench: CloudBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All organizations of a server are one user of the cluster if the server signs in as its own pod."""

    class OwnPod(sign_in.InCluster):
        def __init__(self, host: str, port: str) -> None:
            super().__init__(host, port, tmp_path)

    (tmp_path / "token").write_text(bench.tokens[ACCOUNT])
    (tmp_path / "ca.crt").write_text(bench.cluster.places.authority.read_text())
    monkeypatch.setattr(sign_in, "InCluster", OwnPod)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", bench.cluster.address)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    own = KubernetesCluster(api_url="", namespace=bench.namespace, way="workload")
    ours, theirs = (
        examples.identity(own, subject=f"organization:{name}:cloud-identity:a:1") for name in ("us", "them")
    )
    bench.kubectl("annotate", "namespace", bench.namespace, f"{names.IDENTITIES_ANNOTATION}={ours.subject}")
    deployment = bench.deployment()
    cloud, stranger = bench.open(ours), bench.open(theirs)
    steps = Steps()
    assert await cloud.check(steps, deployment), steps.failed_steps
    await cloud.deploy(deployment, worker_token(), ids.new("fjb"), Steps())
    steps = Steps()
    assert not await stranger.check(steps)
    assert "kubectl annotate namespace" in steps.failed_steps["namespace"][0]
    with pytest.raises(CloudRefused, match="does not name this cloud identity"):
        await stranger.deploy(bench.deployment(), worker_token(), ids.new("fjb"), Steps())
    [refused] = await stranger.start(deployment, [StartRequest("tc-a-1-0")])
    assert getattr(refused, "code", "") == "not_permitted"
    for call in (stranger.watch(deployment, []), stranger.found(), stranger.destroy(deployment, "", Steps())):
        with pytest.raises(CloudRefused, match="does not name this cloud identity"):
            await call
    assert len(bench.names()) == 2
    await cloud.destroy(deployment, ids.new("fjb"), Steps())
    await cloud.close()
    await stranger.close()
