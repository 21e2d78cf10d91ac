"""A cloud account of the tests: a server on loopback that remembers what was made in it, and can refuse, wait or be silent."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from terracrew.api.deployments import DeploymentSettings
from terracrew.clouds.model import CloudIdentity, Deployment, KubernetesCluster


class SimulatedAccount:
    """It serves one JSON request in each line. `tests/fleet/simulated_cloud.py` is its client."""

    def __init__(self) -> None:
        self.url = ""
        self.resources: dict[str, str] = {}
        """What exists, with the job that made it."""
        self.values: dict[str, str] = {}
        """What was stored in what exists."""
        self.requests: list[dict[str, Any]] = []
        self.refusals: dict[str, str] = {}
        """What is refused, by `operation name`, with the words."""
        self.held: dict[str, asyncio.Event] = {}
        """Requests that wait, by `operation name`, until their event is set."""
        self._arrived = asyncio.Condition()

    def hold(self, *keys: str) -> None:
        """Let requests such as `put logs` wait."""
        for key in keys:
            self.held[key] = asyncio.Event()

    def release(self, key: str) -> None:
        self.held.pop(key).set()

    def made(self, prefix: str = "") -> list[str]:
        return sorted(name for name in self.resources if name.startswith(prefix))

    async def arrived(self, key: str, count: int = 1) -> None:
        """Wait until so many of these requests have come."""
        async with asyncio.timeout(30), self._arrived:
            await self._arrived.wait_for(lambda: self.count(key) >= count)

    def count(self, key: str) -> int:
        return sum(_key(each) == key for each in self.requests)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError), contextlib.closing(writer):
            while line := await reader.readline():
                request: dict[str, Any] = json.loads(line)
                async with self._arrived:
                    self.requests.append(request)
                    self._arrived.notify_all()
                if event := self.held.get(_key(request)):
                    await event.wait()
                writer.write(json.dumps(self._answer(request)).encode() + b"\n")

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if words := self.refusals.get(_key(request)):
            return {"refused": words}
        name = request["name"]
        if request["operation"] == "put":
            is_new = name not in self.resources
            self.resources.setdefault(name, request.get("job", ""))
            self.values[name] = request.get("value", "")
            return {"is_new": is_new}
        if request["operation"] == "remove":
            return {"existed": self.resources.pop(name, None) is not None}
        return {"names": self.made()}

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator["SimulatedAccount"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1")
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for event in self.held.values():
                event.set()


def _key(request: dict[str, Any]) -> str:
    return f"{request['operation']} {request['name'].rpartition('/')[2]}"


def identity(account: SimulatedAccount, identity_id: str = "cid_1") -> CloudIdentity:
    return CloudIdentity(
        id=identity_id,
        organization_id="org_1",
        name="simulated",
        subject="organization:a:cloud-identity:simulated:1",
        audience="simulated",
        issuer="http://127.0.0.1",
        cloud=KubernetesCluster(api_url=account.url),
    )


def deployment(runner_id: str = "rnr_1") -> Deployment:
    return Deployment(
        runner_id=runner_id,
        runner_path="burst",
        organization_id="org_1",
        server_url="http://127.0.0.1",
        region="here",
        version="1.0.0",
        settings=DeploymentSettings(),
    )
