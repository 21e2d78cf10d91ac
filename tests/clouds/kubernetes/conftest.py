"""A bench in a namespace of its own on the cluster that all tests share."""

from collections.abc import AsyncIterator

import pytest

from tests.clouds.kubernetes.bench import CloudBench
from tests.machine import platforms
from tests.machine.platforms.kubernetes import Cluster


@pytest.fixture
async def bench() -> AsyncIterator[CloudBench]:
    cluster = Cluster.of(platforms.need("kubernetes"))
    with cluster.namespace() as namespace:
        bench = CloudBench(cluster, namespace)
        bench.grant()
        yield bench
        await bench.cloud.close()
