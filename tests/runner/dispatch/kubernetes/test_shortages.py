"""The dispatcher `kubernetes` where something is short: memory of a pod or of its node, room on nodes, disk, and the right image."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from terracrew.attempt import exit_codes
from terracrew.protocol.events import Stream
from terracrew.runner.dispatch.protocol import NotStarted
from tests.machine import platforms
from tests.machine.platforms.kubernetes import Cluster, own_cluster
from tests.machine.platforms.kubernetes.seats import seats
from tests.runner.dispatch.kubernetes.bench import HOST_NETWORK, Bench

pytestmark = [
    pytest.mark.engine,
    pytest.mark.platform("docker", "kubernetes"),
    pytest.mark.feature("D4.kubernetes"),
    pytest.mark.timeout(600),
]

END_SECONDS = 300.0
EATS_MEMORY = """
resource "terraform_data" "first" {}
output "eaten" { value = length(setproduct(range(1024), range(1024), range(8))) }
"""
"""Eight million tuples in OpenTofu's own memory."""


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    cluster = Cluster.of(platforms.need("kubernetes"))
    with cluster.namespace() as namespace:
        async with Bench(cluster, namespace, tmp_path) as bench:
            yield bench


async def _eventually(what: Any) -> None:
    async with asyncio.timeout(END_SECONDS):
        while not await asyncio.to_thread(what):
            await asyncio.sleep(0.2)


async def test_an_engine_that_is_killed_for_memory_is_named(bench: Bench) -> None:
    dispatcher, start = bench.open(memory_limit="400Mi"), bench.start(EATS_MEMORY)
    async with asyncio.timeout(END_SECONDS):
        ended = await dispatcher.watch(await dispatcher.start(start))
    if ended.code == exit_codes.DELIVERED:  # the kernel killed one process
        assert bench.hub.result.status == "FAILED"
        assert bench.hub.result.failure_kind == "out_of_memory"
        assert "the engine ran out of memory and was killed (signal 9)" in bench.hub.result.message
    else:  # with cgroups of version 2, a kubelet lets the kernel kill everything in the container
        assert ended.code == exit_codes.NOTHING_LEFT
        assert ended.reason == (
            "a process of its pod was killed because memory ran out: the limit of 400Mi was reached"
        )


async def test_a_job_waits_for_room_on_a_full_node_says_so_and_starts_when_there_is_some(bench: Bench) -> None:
    with seats(bench.cluster, bench.namespace) as places:
        places.occupy()
        await _eventually(places.is_occupied)
        dispatcher = bench.open(pod_template=places.template(hostNetwork=True))
        handle = await dispatcher.start(bench.start('resource "terraform_data" "one" {}\n'))
        words = f"The pod waits: no node can run it (Unschedulable): 0/1 nodes are available: 1 Insufficient {places.resource}"
        await _eventually(lambda: words in dispatcher.waits_for(handle))
        await asyncio.to_thread(places.free)
        async with asyncio.timeout(END_SECONDS):
            assert (await dispatcher.watch(handle)).code == exit_codes.DELIVERED
        assert bench.hub.result.status == "SUCCEEDED"
        assert dispatcher.waits_for(handle) == ""


async def test_a_pod_that_is_preempted_in_the_middle_of_an_apply_delivers_and_says_so(bench: Bench) -> None:
    with seats(bench.cluster, bench.namespace) as places:
        dispatcher = bench.open(pod_template=places.template(hostNetwork=True))
        handle = await bench.held(dispatcher, bench.start())
        watching = asyncio.create_task(dispatcher.watch(handle))
        await asyncio.to_thread(places.occupy, is_urgent=True)
        async with asyncio.timeout(END_SECONDS):
            ended = await watching
        assert ended.code == exit_codes.DELIVERED
        assert ended.reason.startswith("the pod was preempted by one with a higher priority: ")
        assert bench.hub.result.status == "CANCELED"
        assert bench.hub.states, "the engine had the time to save its state"
        await _eventually(places.is_occupied)


async def test_a_pod_that_uses_more_disk_than_it_may_is_evicted_and_the_words_of_its_node_are_kept(
    bench: Bench,
) -> None:
    template = {"spec": {**HOST_NETWORK["spec"], "volumes": [{"name": "files", "emptyDir": {"sizeLimit": "20Mi"}}]}}
    fills = bench.gate.provisioner(before="busybox dd if=/dev/zero of=$TMPDIR/full bs=1M count=60")
    main = f'resource "terraform_data" "fills" {{\n  {fills}\n}}\n'
    dispatcher = bench.open(pod_template=template)
    handle = await bench.held(dispatcher, bench.start(main))
    async with asyncio.timeout(END_SECONDS):
        ended = await dispatcher.watch(handle)
    assert ended.reason.startswith("the pod was evicted: Usage of EmptyDir volume ")
    assert b"at the gate" in bench.hub.log(Stream.OUTPUT), "what was printed before is not lost"


async def test_a_pod_on_a_node_without_memory_is_evicted_and_the_words_of_its_node_are_kept(tmp_path: Path) -> None:
    platforms.need("kubernetes")
    with own_cluster() as cluster, cluster.namespace() as namespace:
        async with Bench(cluster, namespace, tmp_path) as bench:
            dispatcher = bench.open()
            handle = await bench.held(dispatcher, bench.start())
            watching = asyncio.create_task(dispatcher.watch(handle))
            # The kubelet that starts again takes almost all of the machine's memory for too little.
            cluster.stop("kubelet")
            settings = cluster.places.data / "kubelet.json"
            document = json.loads(settings.read_text())
            settings.write_text(json.dumps({**document, "evictionHard": {"memory.available": "99%"}}))
            cluster.start("kubelet")
            async with asyncio.timeout(END_SECONDS):
                ended = await watching
            assert re.match(r"the pod was evicted: The node .*(low on resource: memory|MemoryPressure)", ended.reason)
            # An executor of such a pod has a second or two, and may or may not deliver everything.
            assert ended.code in (exit_codes.NOTHING_LEFT, exit_codes.DELIVERED)
            assert bench.hub.has_result == (ended.code == exit_codes.DELIVERED)


async def test_an_image_of_another_architecture_is_named(bench: Bench) -> None:
    folder = bench.folder / "foreign"
    folder.mkdir()
    program = bytearray(Path(sys.executable).resolve().read_bytes())
    program[18:20] = (0xF7).to_bytes(2, "little")  # the number of another machine in the header of the program
    (folder / "python3").write_bytes(program)
    (folder / "python3").chmod(0o755)
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY python3 /usr/local/bin/python3\nENV PATH=/usr/local/bin\n")
    docker, image = platforms.need("docker"), "terracrew-test/foreign-pod:1"
    command = ["docker", "--host", docker, "build", "--quiet", "--tag", image, str(folder)]
    subprocess.run(
        command, check=True, capture_output=True, env={"DOCKER_BUILDKIT": "0", "PATH": "/usr/local/bin:/usr/bin"}
    )
    dispatcher, start = bench.open(image=bench.cluster.load(image, docker=docker)), bench.start()
    async with asyncio.timeout(END_SECONDS):
        with pytest.raises(NotStarted, match=r"(?i)exec format error"):
            await dispatcher.watch(await dispatcher.start(start))
    await dispatcher.place.remove(Path(start.directory))
    await _eventually(lambda: not bench.pods.names())
