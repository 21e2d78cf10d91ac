"""A Job of Kubernetes that runs an engine without Terracrew, for comparison."""

import asyncio
import time
from pathlib import Path
from typing import Any

from terracrew.kubernetes_api.api import KubernetesApi
from terracrew.kubernetes_api.objects import BatchJob
from tests.bench.real import MODULE

_MAX_SECONDS = 120.0


class BareJob:
    def __init__(self, api: KubernetesApi, image: str) -> None:
        """`api` has a connection before the first Job that counts, as that of a dispatcher has."""
        self._api, self._image = api, image

    async def run(self, folder: Path) -> float:
        """Return the seconds from the request for a Job until its engine has printed a line. Its pod has ended then."""
        arrived: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        is_over = asyncio.Event()

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                if line.strip() and not arrived.done():
                    arrived.set_result(time.perf_counter())
            writer.close()
            is_over.set()

        async with await asyncio.start_server(take, "127.0.0.1", 0) as server, asyncio.timeout(_MAX_SECONDS):
            port = server.sockets[0].getsockname()[1]
            began = time.perf_counter()
            job = await self._api.ask(BatchJob, "POST", "jobs", body=self._manifest(folder.name, port))
            seconds = await arrived - began
            await is_over.wait()
            await self._api.delete(f"jobs/{job.metadata.name}", {"propagationPolicy": "Background"})
        return seconds

    def _manifest(self, name: str, port: int) -> dict[str, Any]:
        script = f'cd /module && echo "$MODULE" > main.tf && tofu init 2>&1 | nc 127.0.0.1 {port}'
        container = {
            "name": "engine",
            "image": self._image,
            "imagePullPolicy": "Never",
            "command": ["sh", "-c", script],
            "env": [{"name": "MODULE", "value": MODULE}],
            "volumeMounts": [{"name": "module", "mountPath": "/module"}],
        }
        spec: dict[str, Any] = {
            "restartPolicy": "Never",
            "hostNetwork": True,
            "containers": [container],
            "volumes": [{"name": "module", "emptyDir": {}}],
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {"backoffLimit": 0, "template": {"spec": spec}},
        }
