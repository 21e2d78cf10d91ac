"""The requests of a command line that works with the state of a module itself."""

import hashlib
import json
from typing import Any

import httpx

from tests.server.application import Person

BASE = "/api/tfe/v2"


async def workspace(who: Person, name: str = "app", **attributes: Any) -> str:
    document = {"data": {"type": "workspaces", "attributes": {"name": name, **attributes}}}
    made = await who.post(f"{BASE}/organizations/default/workspaces", json=document)
    assert made.status_code == 201, made.text
    return str(made.json()["data"]["id"])


async def act(who: Person, module: str, action: str) -> httpx.Response:
    return await who.post(f"{BASE}/workspaces/{module}/actions/{action}", json={"reason": ""})


async def lock(who: Person, module: str) -> None:
    answer = await act(who, module, "lock")
    assert answer.status_code == 200, answer.text


def state(serial: int, lineage: str = "a", **more: Any) -> bytes:
    return json.dumps({"version": 4, "serial": serial, "lineage": lineage, "resources": [], **more}).encode()


def with_a_resource(serial: int) -> bytes:
    instance = {"attributes": {"id": "i-1"}}
    return state(
        serial, resources=[{"mode": "managed", "type": "a", "name": "b", "provider": "p", "instances": [instance]}]
    )


async def announce(who: Person, module: str, content: bytes, **attributes: Any) -> httpx.Response:
    given = json.loads(content)
    announced = {"serial": given["serial"], "lineage": given["lineage"], "md5": hashlib.md5(content).hexdigest()}
    document = {"data": {"attributes": announced | attributes}}
    return await who.post(f"{BASE}/workspaces/{module}/state-versions", json=document)


async def announced(who: Person, module: str, content: bytes) -> str:
    """Announce a state, and return the path to which it is uploaded."""
    answer = await announce(who, module, content)
    assert answer.status_code == 201, answer.text
    return path_of(answer.json()["data"]["attributes"]["hosted-state-upload-url"])


async def upload(stranger: Person, path: str, content: bytes) -> httpx.Response:
    return await stranger.put(path, content=content)


async def write(who: Person, stranger: Person, module: str, content: bytes) -> httpx.Response:
    return await upload(stranger, await announced(who, module, content), content)


def path_of(address: str) -> str:
    return address[address.index(BASE) :]
