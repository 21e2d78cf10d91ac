"""Somebody who publishes modules, and what engines ask the registry for."""

from typing import Any

import httpx

from tests.server.application import Application, Person
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.modules.packed_modules import packed

BASE = "/api/registry/v1/modules"
MAIN = b'variable "zone" { type = string }\noutput "zone" { value = var.zone }\n'
MODULES = "/api/v1/published-modules"


async def group(app: Application, path: str) -> None:
    await app.admin.made("/api/v1/groups", {"path": path}, parents="true")


async def create(who: Person, path: str, **fields: Any) -> Any:
    above, name, system = path.rsplit("/", 2)
    return await who.made(MODULES, {"group": above, "name": name, "system": system, **fields})


def address(path: str) -> str:
    return f"{MODULES}/{path.replace('/', '%2F')}"


async def upload(who: Person, main: bytes = MAIN, *others: tuple[str, bytes]) -> str:
    answer = await who.post("/api/v1/archives", content=packed(("main.tf", main), *others))
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def publish(
    who: Person, path: str, version: str, main: bytes = MAIN, *others: tuple[str, bytes]
) -> httpx.Response:
    body = {"version": version, "archive_id": await upload(who, main, *others)}
    return await who.post(f"{address(path)}/versions", json=body)


async def published(app: Application, path: str, *versions: str, **fields: Any) -> None:
    """A published module with these versions."""
    await group(app, path.rsplit("/", 2)[0])
    await create(app.admin, path, **fields)
    for version in versions:
        answer = await publish(app.admin, path, version)
        assert answer.status_code == 201, answer.text


async def versions(who: Person, path: str) -> list[str] | int:
    """The versions that an engine may choose from; the status if there is no such module for it."""
    answer = await who.get(f"{BASE}/{path}/versions")
    if answer.status_code != 200:
        return answer.status_code
    return [each["version"] for each in answer.json()["modules"][0]["versions"]]


async def download(who: Person, path: str, version: str) -> str | int:
    """Where a version can be downloaded; the status if it cannot."""
    answer = await who.get(f"{BASE}/{path}/{version}/download")
    return answer.headers["X-Terraform-Get"] if answer.status_code == 204 else answer.status_code


async def job_of(runner: SimulatedRunner, path: str) -> Person:
    """The engine of a job of a module at this path."""
    above = path.rpartition("/")[0]
    found = await runner.app.scalar("SELECT id FROM groups WHERE path = :path", path=above)
    if found is None:
        await group(runner.app, above)
    made = await runner.app.admin.made(
        "/api/v1/modules", {"path": path, "engine": "tofu", "source": {"kind": "local", "path": "/srv/sources/app"}}
    )
    return (await runner.run(made["id"])).engine
