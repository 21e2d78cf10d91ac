"""The rights that the chart gives to a runner are exactly those that its dispatcher uses."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from terracrew.runner.dispatch.containers import attempts
from terracrew.runner.dispatch.kubernetes import dispatcher as kubernetes_dispatcher
from terracrew.runner.dispatch.kubernetes.dispatcher import Kubernetes
from terracrew.runner.dispatch.protocol import NotStarted
from tests.machine import platforms
from tests.machine.platforms.kubernetes import Cluster, runner_account
from tests.runner.dispatch.kubernetes.bench import Bench

pytestmark = [
    pytest.mark.engine,
    pytest.mark.platform("docker", "kubernetes"),
    pytest.mark.feature("D4.kubernetes", "D8.kubernetes"),
    pytest.mark.timeout(600),
]
END_SECONDS = 300.0
QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    cluster = Cluster.of(platforms.need("kubernetes"))
    with cluster.namespace() as namespace:
        async with Bench(cluster, namespace, tmp_path) as bench:
            yield bench


def _recorded(dispatcher: Kubernetes, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """Return the verbs and resources that a dispatcher asks its API server for, as they are asked."""
    found: set[tuple[str, str]] = set()
    api = dispatcher.api
    request, watch = api.request, api.watch

    async def seen_request(method: str, path: str, body: Any, query: Mapping[str, str]) -> bytes:
        verbs = {"POST": "create", "DELETE": "delete", "PATCH": "patch", "GET": "get" if "/" in path else "list"}
        found.add((verbs[method], path.partition("/")[0]))
        return await request(method, path, body, query)

    def seen_watch(path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        found.add(("watch", path))
        return watch(path, query)

    monkeypatch.setattr(api, "request", seen_request)
    monkeypatch.setattr(api, "watch", seen_watch)
    return found


async def test_a_dispatcher_uses_every_right_of_the_chart_and_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "KILL_SECONDS", 0.5)
    monkeypatch.setattr(kubernetes_dispatcher, "WAITING_LOOK_SECONDS", 0.5)
    dispatcher = bench.open(start_seconds=2.0)
    used = _recorded(dispatcher, monkeypatch)
    async with asyncio.timeout(END_SECONDS):
        await dispatcher.place.sweep(list)
        bench.cluster.apply(bench.namespace, QUOTA)
        with pytest.raises(NotStarted, match="exceeded quota"):
            await dispatcher.watch(await dispatcher.start(bench.start(number=2)))
        bench.pods.kubectl("delete", "resourcequota", "none")
        patient = bench.open()
        used_by_second = _recorded(patient, monkeypatch)
        start = bench.start()
        handle = await bench.held(patient, start)
        assert handle.launching
        await handle.launching  # the pod is known to run; otherwise its Job is deleted, and not the pod
        await asyncio.gather(patient.stop(handle, "kill"), patient.watch(handle))
        await patient.place.remove(Path(start.directory))
    granted = {(verb, what) for rule in runner_account.rules() for what in rule["resources"] for verb in rule["verbs"]}
    assert used | used_by_second == granted
