"""The backend `http` of engines: methods and answers as they expect them, and what strangers and hostile callers get."""

import base64
import hashlib
import json
from typing import Any

import pytest

from tests.server.application import Application, Person
from tests.server.simulated_runner import SimulatedRunner

pytestmark = pytest.mark.feature("J15.lock")
ADDRESS = "/api/v1/modules/net%2Fm/state"
INFO = {
    "ID": "c1",
    "Operation": "OperationTypeApply",
    "Info": "",
    "Who": "ann@laptop",
    "Version": "1.12.6",
    "Created": "2026-01-01T00:00:00.5Z",
    "Path": "",
}
FORCED = {
    "ID": "c1",
    "Operation": "",
    "Info": "",
    "Who": "",
    "Version": "",
    "Created": "0001-01-01T00:00:00Z",
    "Path": "",
}


def content(serial: int, lineage: str = "a") -> bytes:
    return json.dumps({"version": 4, "serial": serial, "lineage": lineage, "resources": []}).encode()


async def engine(application: Application, name: str = "ann", role: str = "owner") -> Person:
    """The engine of a person, which knows only HTTP Basic."""
    person = await application.person(name, role)
    token = person.headers.pop("Authorization").removeprefix("Bearer ")
    person.headers["Authorization"] = "Basic " + base64.b64encode(f"anything:{token}".encode()).decode()
    return person


async def made(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "net"})
    source = {"kind": "local", "path": "/srv/sources/m"}
    await application.admin.made("/api/v1/modules", {"path": "net/m", "source": source})


async def asked(person: Person, method: str, body: Any = None, query: str = "") -> tuple[int, Any]:
    answer = await person.request(method, ADDRESS + query, json=body)
    return answer.status_code, answer.json() if answer.content else None


async def written(person: Person, plain: bytes, query: str = "?ID=c1", **headers: str) -> tuple[int, str]:
    answer = await person.post(ADDRESS + query, content=plain, headers=headers)
    return answer.status_code, answer.text


async def test_an_engine_locks_writes_reads_and_unlocks(application: Application) -> None:
    await made(application)
    ann, bob = await engine(application), await engine(application, "bob")
    assert (await ann.get(ADDRESS)).status_code == 404, "engines take this for an empty state"
    status, shown = await asked(ann, "LOCK", INFO)
    assert (status, shown["ID"], shown["Who"]) == (200, "c1", "ann's terminal: ann@laptop")
    assert (await asked(ann, "LOCK", INFO))[0] == 200, "the engine repeats a request whose answer was lost"
    status, shown = await asked(bob, "LOCK", INFO | {"ID": "c2"})
    assert (status, shown["ID"], shown["Operation"], shown["Version"]) == (423, "c1", "OperationTypeApply", "1.12.6")
    assert "is locked by ann's terminal" in shown["Info"]
    md5 = base64.b64encode(hashlib.md5(content(1), usedforsecurity=False).digest()).decode()
    assert (await written(ann, content(1), **{"Content-MD5": md5}))[0] == 200
    assert (await ann.get(ADDRESS)).content == content(1)
    assert await application.scalar("SELECT count(*) FROM audit WHERE action = 'state.write'") == 1
    status, words = await written(ann, content(2), **{"Content-MD5": md5})
    assert (status, "another MD5" in words) == (400, True)
    assert (await written(ann, content(2), "?ID=c2"))[0] == 409
    assert (await written(bob, content(2)))[0] == 409
    status, words = await written(ann, content(2), "")
    assert (status, "-lock=false" in words) == (409, True)
    assert (await written(ann, b"{}"))[0] == 400
    assert (await asked(bob, "UNLOCK", INFO))[0] == 423
    assert (await asked(ann, "UNLOCK", INFO))[0] == 200
    assert (await written(ann, content(2)))[0] == 409, "nobody holds the lock"
    assert (await asked(ann, "UNLOCK", INFO))[0] == 404


async def test_force_unlock_names_only_the_id(application: Application) -> None:
    await made(application)
    ann, otto = await engine(application), await engine(application, "otto", "operator")
    vera = await engine(application, "vera", "viewer")
    await asked(ann, "LOCK", INFO)
    assert (await asked(vera, "UNLOCK", FORCED))[0] == 403
    assert (await asked(otto, "UNLOCK", FORCED | {"ID": "c9"}))[0] == 423
    assert (await asked(otto, "UNLOCK", FORCED))[0] == 200
    status, words = await written(ann, content(1))
    assert (status, "removed by force" in words) == (409, True)
    assert (await application.admin.get("/api/v1/modules/net%2Fm")).json()["quarantined"]


async def test_a_job_that_has_the_lock_is_named_to_the_engine(
    application: Application, runner: SimulatedRunner
) -> None:
    ann = await engine(application)
    attempt = await runner.begun()
    module = await application.scalar("SELECT module_id FROM jobs WHERE id = :id", id=attempt.ref.job_id)
    answer = await ann.request("LOCK", f"/api/v1/modules/{module}/state", json=INFO)
    assert (answer.status_code, answer.json()["Operation"]) == (423, "job 1")
    assert "job 1 has the lock" in answer.json()["Info"]


async def test_who_gets_nothing(application: Application) -> None:
    await made(application)
    stranger = application.stranger()
    operator, elsewhere = (
        await engine(application, "otto", "operator"),
        await application.person("eve", "owner", organization="other"),
    )
    for person, status in ((stranger, 401), (operator, 403), (elsewhere, 404)):
        assert (await asked(person, "LOCK", INFO))[0] == status
        assert (await written(person, content(1)))[0] == status
        assert (await asked(person, "UNLOCK", INFO))[0] == (403 if status == 403 else status)
    for wrong in (
        "Basic",
        "Basic !",
        "Basic " + base64.b64encode(b"a:tcu_x").decode(),
        "Basic " + base64.b64encode(b"\xff").decode(),
    ):
        answer = await stranger.get(ADDRESS, headers={"Authorization": wrong})
        assert answer.status_code == 401, wrong
    ann = await engine(application)
    assert (await ann.get("/api/v1/modules")).status_code == 401, "HTTP Basic is for the state alone"
    assert (await ann.request("LOCK", "/api/v1/modules")).status_code in (401, 404, 405)
    for body in (b"", b"[", b"{}", b"[" * 50_000):
        assert (await ann.request("LOCK", ADDRESS, content=body)).status_code == 400


async def test_a_module_without_a_state_here_cannot_be_locked_by_an_engine(application: Application) -> None:
    await made(application)
    ann = await engine(application)
    await application.admin.patch("/api/v1/modules/net%2Fm", json={"backend": "own"})
    status, shown = await asked(ann, "LOCK", INFO)
    assert (status, "keeps its state in the backend" in shown["Info"]) == (423, True)


async def test_the_token_of_a_job_reads_the_state_of_its_own_module_and_writes_none(
    application: Application, runner: SimulatedRunner
) -> None:
    await made(application)
    attempt = await runner.begun()
    await attempt.write(content(1), serial=1)
    own, engine = f"/api/v1/modules/{attempt.module_id}/state", application.stranger()
    password = base64.b64encode(f"job:{attempt.credentials.api}".encode()).decode()
    engine.headers["Authorization"] = f"Basic {password}"
    assert (await engine.get(own)).content == content(1)
    assert (await engine.get(ADDRESS)).status_code == 404
    assert (await engine.request("LOCK", own, json=INFO)).status_code == 403
    assert (await engine.post(f"{own}?ID=c1", content=content(2))).status_code == 403
    assert (await engine.request("UNLOCK", own, json=INFO)).status_code == 403


async def test_what_the_holder_of_a_lock_writes_who_may_no_longer_write_is_kept(application: Application) -> None:
    await made(application)
    ann = await engine(application)
    await asked(ann, "LOCK", INFO)
    await application.admin.made("/api/v1/roles", {"principal": "ann", "role": "viewer"})  # in place of the owner's
    status, words = await written(ann, content(1))
    assert (status, "you may no longer write states" in words) == (409, True)
    assert (await application.admin.get("/api/v1/modules/net%2Fm")).json()["quarantined"]
