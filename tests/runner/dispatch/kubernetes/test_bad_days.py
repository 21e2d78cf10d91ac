"""The dispatcher `kubernetes` on bad days, with a real cluster: what is deleted, evicted, missing, full or somebody else's."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from terracrew.attempt import exit_codes, files
from terracrew.protocol.events import Stream
from terracrew.runner.dispatch.kubernetes import dispatcher as kubernetes_dispatcher
from terracrew.runner.dispatch.protocol import NotStarted
from tests.machine import platforms
from tests.machine.platforms.kubernetes import Cluster, own_cluster
from tests.runner.dispatch.kubernetes.bench import HOST_NETWORK, Bench

pytestmark = [
    pytest.mark.engine,
    pytest.mark.platform("docker", "kubernetes"),
    pytest.mark.feature("D6.watched"),
    pytest.mark.timeout(600),
]

END_SECONDS = 300.0


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    cluster = Cluster.of(platforms.need("kubernetes"))
    with cluster.namespace() as namespace:
        async with Bench(cluster, namespace, tmp_path) as bench:
            yield bench


async def _stays(watching: asyncio.Task[Any], seconds: float) -> None:
    done, _ = await asyncio.wait({watching}, timeout=seconds)
    assert not done, "the attempt was reported as over, but its engine may run"


async def _eventually(what: Any) -> None:
    async with asyncio.timeout(END_SECONDS):
        while not await asyncio.to_thread(what):
            await asyncio.sleep(0.2)


async def test_a_pod_that_is_deleted_in_the_middle_of_an_apply_delivers_and_is_never_replaced(bench: Bench) -> None:
    dispatcher, start = bench.open(), bench.start()
    attempt = Path(start.directory).name
    handle = await bench.held(dispatcher, start)
    name = bench.pods.name(attempt)
    watching = asyncio.create_task(dispatcher.watch(handle))
    bench.pods.kubectl("delete", "pod", name, "--wait=false")
    async with asyncio.timeout(END_SECONDS):
        ended = await watching
    assert (ended.code, ended.reason) == (exit_codes.DELIVERED, "the pod was deleted by somebody else")
    assert bench.hub.result.status == "CANCELED"
    assert bench.hub.states, "the engine had the time to save its state"
    assert b"Stopping" in bench.hub.log(Stream.SYSTEM)
    await asyncio.sleep(3)
    assert [each for each in bench.pods.of(attempt) if each["metadata"]["name"] != name] == []


async def test_a_replacement_of_a_pod_does_not_run_the_attempt_again(bench: Bench) -> None:
    """The Job's controller forgets a pod whose finalizer somebody removes, and makes another one."""
    dispatcher, start = bench.open(), bench.start()
    attempt = Path(start.directory).name
    handle = await bench.held(dispatcher, start)
    first = bench.pods.the(attempt)
    watching = asyncio.create_task(dispatcher.watch(handle))
    name = first["metadata"]["name"]
    bench.pods.kubectl("patch", "pod", name, "--type=merge", "--patch", '{"metadata": {"finalizers": null}}')
    bench.pods.kubectl("delete", "pod", name, "--force", "--grace-period=0")
    async with asyncio.timeout(END_SECONDS):
        ended = await watching
    assert ended.code in (exit_codes.NOTHING_LEFT, exit_codes.DELIVERED)
    await _eventually(
        lambda: all(
            each["metadata"]["uid"] == first["metadata"]["uid"] or not _is_new(each) for each in bench.pods.of(attempt)
        )
    )
    for pod in bench.pods.of(attempt):
        if pod["metadata"]["uid"] != first["metadata"]["uid"]:
            for status in pod["status"].get("containerStatuses", []):
                assert status["state"].get("terminated", {}).get("exitCode") in (None, exit_codes.NOT_BEGUN)


def _is_new(pod: dict[str, Any]) -> bool:
    """Whether a pod may still become something: it neither waits for a Secret that does not come nor has ended."""
    statuses = pod["status"].get("containerStatuses", [])
    return any("running" in status["state"] for status in statuses)


async def test_an_evicted_pod_is_not_lost_without_a_word(bench: Bench) -> None:
    dispatcher, start = bench.open(), bench.start()
    handle = await bench.held(dispatcher, start)
    watching = asyncio.create_task(dispatcher.watch(handle))
    bench.pods.evict(Path(start.directory).name)
    async with asyncio.timeout(END_SECONDS):
        ended = await watching
    assert ended.code == exit_codes.DELIVERED
    assert ended.reason.startswith("the pod was evicted: ")
    assert bench.hub.result.status == "CANCELED"


async def test_a_pod_that_is_killed_at_once_is_a_loss_with_a_reason(bench: Bench) -> None:
    dispatcher, start = bench.open(), bench.start()
    handle = await bench.held(dispatcher, start)
    watching = asyncio.create_task(dispatcher.watch(handle))
    os.kill(bench.pods.first_process(Path(start.directory).name), signal.SIGKILL)
    async with asyncio.timeout(END_SECONDS):
        ended = await watching
    assert ended.code == exit_codes.NOTHING_LEFT
    assert ended.reason == "its pod was ended by signal 9"
    assert not bench.hub.has_result


@pytest.mark.feature("D4.kubernetes")
async def test_an_image_that_is_missing_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_dispatcher, "HOPELESS_SECONDS", 1.0)
    dispatcher, start = bench.open(image="terracrew-test/missing:1"), bench.start()
    async with asyncio.timeout(END_SECONDS):
        with pytest.raises(NotStarted, match=r"ErrImageNeverPull: .*terracrew-test/missing:1"):
            await dispatcher.watch(await dispatcher.start(start))
    assert not (Path(start.directory) / files.CONTAINER).exists()
    assert bench.pods.of(Path(start.directory).name) == []


@pytest.mark.feature("D4.kubernetes")
async def test_a_program_that_the_image_lacks_is_named(bench: Bench) -> None:
    dispatcher, start = bench.open(image="docker.io/terracrew-test/pause:1"), bench.start()
    async with asyncio.timeout(END_SECONDS):
        with pytest.raises(NotStarted, match=r"cannot be started: .*python3"):
            await dispatcher.watch(await dispatcher.start(start))


@pytest.mark.feature("D4.kubernetes")
async def test_a_pod_that_no_node_can_run_is_returned_with_the_reason(bench: Bench) -> None:
    template = {"spec": {**HOST_NETWORK["spec"], "nodeSelector": {"disk": "none"}}}
    dispatcher, start = bench.open(pod_template=template, start_seconds=2.0), bench.start()
    async with asyncio.timeout(END_SECONDS):
        with pytest.raises(NotStarted, match=r"no node can run it \(Unschedulable\): 0/1 nodes are available"):
            await dispatcher.watch(await dispatcher.start(start))


@pytest.mark.feature("D4.kubernetes", "J9.escalation")
async def test_a_pod_that_waits_can_be_canceled(bench: Bench) -> None:
    template = {"spec": {**HOST_NETWORK["spec"], "nodeSelector": {"disk": "none"}}}
    dispatcher, start = bench.open(pod_template=template), bench.start()
    handle = await dispatcher.start(start)
    await _eventually(lambda: bench.pods.of(Path(start.directory).name))
    async with asyncio.timeout(END_SECONDS):
        await dispatcher.stop(handle, "interrupt")
        with pytest.raises(NotStarted, match="canceled before its pod was started"):
            await dispatcher.watch(handle)
    await _eventually(lambda: not bench.pods.names())


@pytest.mark.feature("D4.kubernetes")
async def test_a_quota_that_is_used_up_is_named(bench: Bench) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    bench.cluster.apply(bench.namespace, quota)
    dispatcher, start = bench.open(start_seconds=6.0), bench.start()
    async with asyncio.timeout(END_SECONDS):
        with pytest.raises(NotStarted, match=r"got no pod: FailedCreate: .*exceeded quota: none"):
            await dispatcher.watch(await dispatcher.start(start))


async def test_two_runners_of_one_namespace_do_not_touch_each_others_pods(bench: Bench) -> None:
    first, second = bench.open(), bench.open(key="another runner")
    start = bench.start()
    handle = await bench.held(first, start)
    await second.place.sweep(list)
    with pytest.raises(NotStarted):
        await second.watch(second.adopt(Path(bench.start(number=2).directory)))
    await _eventually(lambda: bench.pods.is_running(Path(start.directory).name))  # the node reports it a moment later
    await bench.gate.open()
    async with asyncio.timeout(END_SECONDS):
        assert (await first.watch(handle)).code == exit_codes.DELIVERED
    await first.place.remove(Path(start.directory))
    assert bench.pods.names() == []


async def test_what_a_crashed_runner_left_is_removed_by_the_next_one(bench: Bench) -> None:
    first, start = bench.open(), bench.start()
    handle = await first.start(start)
    await bench.gate.open()
    async with asyncio.timeout(END_SECONDS):
        await first.watch(handle)
    await first.close()
    second = bench.open()
    name = Path(start.directory).name
    await second.place.sweep(lambda: [Path(start.directory)])
    assert bench.pods.of(name)
    await second.place.sweep(list)
    await _eventually(lambda: not bench.pods.names())


async def test_a_runner_that_died_before_the_pod_got_its_start_takes_the_start_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark is on the disk, the Job has a pod, and there is no Secret."""
    first, start = bench.open(), bench.start()
    asked = asyncio.Event()
    ask = first.api.ask

    async def die(kind: Any, method: str, path: str, **more: Any) -> Any:
        if (method, path) == ("POST", "secrets"):
            asked.set()
            await asyncio.Event().wait()
        return await ask(kind, method, path, **more)

    monkeypatch.setattr(first.api, "ask", die)
    await first.start(start)
    await asyncio.wait_for(asked.wait(), END_SECONDS)
    await first.close()
    assert (Path(start.directory) / files.CONTAINER).exists()
    second = bench.open()
    async with asyncio.timeout(END_SECONDS):
        with pytest.raises(NotStarted, match="stopped before the pod of the executor was started"):
            await second.watch(second.adopt(Path(start.directory)))
    assert bench.pods.of(Path(start.directory).name) == []
    assert not bench.hub.has_result


@pytest.mark.feature("X4.isolation")
async def test_an_engine_has_another_user_no_capability_and_nothing_of_its_executor(bench: Bench) -> None:
    looks = (
        "id -u; cat /proc/self/status; cat /proc/1/environ > /dev/null && echo readable | cat; "
        "ls /terracrew/attempts; cat /run/terracrew-start/*; touch /usr/bin/changed; "
        "ls /var/run/secrets/kubernetes.io; true"
    )
    main = f'resource "terraform_data" "looks" {{\n  provisioner "local-exec" {{ command = "{looks}" }}\n}}\n'
    dispatcher = bench.open()
    async with asyncio.timeout(END_SECONDS):
        assert (await dispatcher.watch(await dispatcher.start(bench.start(main)))).code == exit_codes.DELIVERED
    log = bench.hub.log(Stream.OUTPUT).decode()
    assert bench.hub.result.status == "SUCCEEDED", log
    assert "10002" in log
    assert "CapEff:\t0000000000000000" in log
    assert "NoNewPrivs:\t1" in log
    assert "Seccomp:\t2" in log
    assert "\x1b[0mreadable" not in log
    assert log.count("ermission denied") >= 2
    assert "server_url" not in log, "the start is not readable"
    assert "No such file or directory" in log, "there is no token of a service account"


@pytest.mark.feature("D4.kubernetes")
async def test_an_image_says_which_engines_it_has(bench: Bench) -> None:
    found = await bench.open().engines()
    assert found is not None
    assert list(found) == ["tofu"]
    await _eventually(lambda: not bench.pods.names())


async def test_a_namespace_that_is_deleted_takes_the_attempt_with_it_and_says_so(tmp_path: Path) -> None:
    cluster = Cluster.of(platforms.need("kubernetes"))
    with cluster.namespace() as namespace:
        async with Bench(cluster, namespace, tmp_path) as bench:
            bench.kubeconfig = Path(cluster.kubeconfig)  # rights of a namespace are deleted with it
            dispatcher, start = bench.open(), bench.start()
            handle = await bench.held(dispatcher, start)
            watching = asyncio.create_task(dispatcher.watch(handle))
            cluster.kubectl("delete", "namespace", namespace, "--wait=false")
            async with asyncio.timeout(END_SECONDS):
                ended = await watching
            assert ended.code == exit_codes.DELIVERED
            assert bench.hub.result.status == "CANCELED"
            start = bench.start(number=2)
            async with asyncio.timeout(END_SECONDS):
                with pytest.raises(NotStarted, match=r"cannot be made: .*(terminated|not found)"):
                    await dispatcher.watch(await dispatcher.start(start))


async def test_an_api_server_that_is_away_does_not_make_an_attempt_gone(tmp_path: Path) -> None:
    platforms.need("kubernetes")
    with own_cluster() as cluster, cluster.namespace() as namespace:
        async with Bench(cluster, namespace, tmp_path) as bench:
            dispatcher, start = bench.open(), bench.start()
            handle = await bench.held(dispatcher, start)
            watching = asyncio.create_task(dispatcher.watch(handle))
            cluster.stop("kube-apiserver")
            try:
                await _stays(watching, 3)
                await bench.gate.open()
                await bench.hub.until(lambda: bench.hub.has_result)
                await _stays(watching, 1)
            finally:
                cluster.start("kube-apiserver")
            async with asyncio.timeout(END_SECONDS):
                assert (await watching).code == exit_codes.DELIVERED


async def test_a_node_that_vanishes_does_not_make_an_attempt_gone(tmp_path: Path) -> None:
    platforms.need("kubernetes")
    with own_cluster() as cluster, cluster.namespace() as namespace:
        async with Bench(cluster, namespace, tmp_path) as bench:
            dispatcher, start = bench.open(), bench.start()
            handle = await bench.held(dispatcher, start)
            watching = asyncio.create_task(dispatcher.watch(handle))
            cluster.stop("kubelet")
            await _eventually(lambda: "NodeStatusUnknown" in cluster.kubectl("get", "nodes", "--output", "json"))
            await _stays(watching, 2)
            # The pod is to be removed now, and nobody removes it.
            bench.pods.kubectl("delete", "pod", bench.pods.name(Path(start.directory).name), "--wait=false")
            await _stays(watching, 2)
            cluster.start("kubelet")
            async with asyncio.timeout(END_SECONDS):
                ended = await watching
            assert ended.code == exit_codes.DELIVERED
            assert bench.hub.result.status == "CANCELED"
