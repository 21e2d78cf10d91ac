"""States are stored in versions, encrypted, and read only by those who may."""

import hashlib

import msgspec
import pytest

from terracrew.protocol.events import Output, OutputsRead, Result
from terracrew.server.state.model import MAX_INLINE_BYTES
from tests.builders.deliveries import DONE, RUNNING, fact
from tests.builders.job_rows import change_states
from tests.server.simulated_runner import SimulatedRunner
from tests.server.state.stored_states import applied, content


@pytest.mark.feature("J15.versions")
async def test_a_state_is_read_back_as_the_engine_wrote_it(runner: SimulatedRunner) -> None:
    attempt = await applied(runner, content(1), content(2))
    current = await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}/state")
    assert (current.content, current.headers["Content-Type"]) == (content(2), "application/json")
    assert (current.headers["X-State-Version"], current.headers["X-State-Status"]) == ("2", "current")
    listed = (await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}/states")).json()
    assert [(each["version"], each["status"], each["serial"]) for each in listed["items"]] == [
        (2, "current", 2),
        (1, "superseded", 1),
    ]
    old = await runner.app.admin.get(f"/api/v1/states/{listed['items'][1]['id']}")
    assert old.content == content(1)


@pytest.mark.feature("J15.encrypted")
async def test_no_part_of_a_state_lies_open_in_the_database_or_the_object_store(runner: SimulatedRunner) -> None:
    attempt = await applied(runner, content(1), content(2, MAX_INLINE_BYTES))
    rows = await runner.server.db.read(lambda tx: tx.all("SELECT content, object FROM states ORDER BY version"))
    assert rows[0]["object"] is None
    assert b"lineage" not in rows[0]["content"]
    assert rows[1]["content"] is None
    assert b"lineage" not in await runner.server.objects.get(rows[1]["object"])
    large = await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}/state")
    assert large.content == content(2, MAX_INLINE_BYTES)


@pytest.mark.feature("J15.versions")
@pytest.mark.parametrize("size", [0, MAX_INLINE_BYTES])
async def test_one_version_of_a_state_cannot_take_the_place_of_another(runner: SimulatedRunner, size: int) -> None:
    """Whoever could write to the database could put an old state of a module in the place of the current one."""
    attempt = await applied(runner, content(1, size), content(2, size))
    rows = await runner.server.db.read(lambda tx: tx.all("SELECT id, content, object FROM states ORDER BY version"))
    if size:
        old = await runner.server.objects.get(rows[0]["object"])
        await runner.server.objects.put(rows[1]["object"], old)
    else:
        await change_states(runner.server.db, rows[1]["id"], content=rows[0]["content"])
    answer = await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}/state")
    assert answer.status_code == 500
    assert b"lineage" not in answer.content


async def test_versions_come_in_pages(runner: SimulatedRunner) -> None:
    attempt = await applied(runner, *(content(n) for n in range(1, 6)))
    found = await runner.app.admin.listed(f"/api/v1/modules/{attempt.module_id}/states", limit=2)
    assert [each["version"] for each in found] == [5, 4, 3, 2, 1]


async def test_a_module_without_a_state_says_so(runner: SimulatedRunner) -> None:
    module_id = await runner.rows.module("net")
    assert "no state yet" in await runner.app.admin.refused("GET", f"/api/v1/modules/{module_id}/state", 404)
    assert (await runner.app.admin.get("/api/v1/modules/net/states")).json() == {"items": [], "next": None}
    assert (await runner.app.admin.get("/api/v1/modules/net/outputs")).json()["outputs"] == {}
    await runner.app.admin.refused("GET", "/api/v1/states/nonsense", 400)
    await runner.app.admin.refused("GET", f"/api/v1/states/sta_{'0' * 32}", 404)


async def test_reading_a_state_is_written_down(runner: SimulatedRunner) -> None:
    attempt = await applied(runner, content(1))
    await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}/state")
    rows = await runner.server.db.read(
        lambda tx: tx.all("SELECT actor_name, target_id FROM audit WHERE action = 'state.read'")
    )
    state_id = await runner.app.scalar("SELECT id FROM states")
    assert [(row["actor_name"], row["target_id"]) for row in rows] == [("admin", state_id)]


async def test_states_are_for_operators_and_for_the_modules_own_engine(runner: SimulatedRunner) -> None:
    attempt = await applied(runner, content(1))
    state_id = await runner.app.scalar("SELECT id FROM states")
    mine, other = await runner.run(attempt.module_id), await runner.run()
    viewer, operator = await runner.app.person("vera", "viewer"), await runner.app.person("otto", "operator")
    foreign = await runner.app.person("fred", "owner", organization="elsewhere")
    path = f"/api/v1/modules/{attempt.module_id}"
    for place in (f"{path}/state", f"{path}/states", f"/api/v1/states/{state_id}", f"{path}/outputs?sensitive=true"):
        await viewer.refused("GET", place, 403)
        await foreign.refused("GET", place, 404)
        await other.engine.refused("GET", place, 404)
        await mine.executor.refused("GET", place, 403)
        await attempt.engine.refused("GET", place, 401)  # its attempt is over
        for who in (operator, mine.engine):
            assert (await who.get(place)).status_code == 200
    for who in (viewer, operator, mine.engine):
        assert (await who.get(f"{path}/outputs")).status_code == 200
    await other.engine.refused("GET", f"{path}/outputs", 404)


@pytest.mark.feature("J12.stored", "J12.sensitive")
async def test_the_outputs_of_every_job_can_be_read_with_their_checksum(runner: SimulatedRunner) -> None:
    """Only the newest outputs of a module could be read, and their checksum nowhere."""
    first = await runner.run(kind="APPLY")
    old = {"url": Output("http://old", "string"), "password": Output("hunter2", "string", is_sensitive=True)}
    await first.deliver(RUNNING, fact(OutputsRead(old, "hash1")), DONE)
    again = await runner.run(first.module_id, kind="APPLY")
    await again.deliver(RUNNING, fact(OutputsRead(old, "hash1")), DONE)
    second = await runner.run(first.module_id, kind="APPLY")
    await second.deliver(RUNNING, fact(OutputsRead({"url": Output("http://new", "string")}, "hash2")), DONE)
    other = await runner.run(first.module_id)
    admin, path = runner.app.admin, f"/api/v1/jobs/{first.ref.job_id}/outputs"
    found = (await admin.get(path)).json()
    same = (await admin.get(f"/api/v1/jobs/{again.ref.job_id}/outputs")).json()
    assert (found["job_id"], found["checksum"]) == (first.ref.job_id, same["checksum"])
    assert {name: each["value"] for name, each in found["outputs"].items()} == {"url": "http://old", "password": None}
    shown = (await admin.get(f"{path}?sensitive=true")).json()
    assert shown["outputs"]["password"]["value"] == "hunter2"
    assert await runner.app.scalar("SELECT count(*) FROM audit WHERE action = 'outputs.read'") == 1
    latest = (await admin.get(f"/api/v1/modules/{first.module_id}/outputs")).json()
    assert latest["job_id"] == second.ref.job_id
    assert len({latest["checksum"], found["checksum"], None}) == 3
    none = (await admin.get(f"/api/v1/jobs/{other.ref.job_id}/outputs")).json()
    assert none == {"job_id": other.ref.job_id, "created_at": None, "checksum": None, "outputs": {}}


@pytest.mark.feature("J12.sensitive", "X3.roles")
async def test_the_checksum_of_outputs_does_not_help_to_guess_a_sensitive_one(runner: SimulatedRunner) -> None:
    """A viewer was given the SHA-256 of all outputs, and found a short sensitive value by trying all of them."""
    outputs = {"pin": Output("4711", "string", is_sensitive=True)}
    sha256 = hashlib.sha256(msgspec.json.encode(outputs)).hexdigest()
    first, elsewhere = await runner.run(kind="APPLY"), await runner.run(kind="APPLY")
    for attempt in (first, elsewhere):
        await attempt.deliver(RUNNING, fact(OutputsRead(outputs, sha256)), DONE)
    viewer = await runner.app.person("vera", "viewer")
    path = f"/api/v1/modules/{first.module_id}/outputs"
    seen = await viewer.get(path)
    assert seen.json()["outputs"]["pin"]["value"] is None
    assert sha256 not in seen.text
    assert sha256 not in (await viewer.get(f"/api/v1/jobs/{first.ref.job_id}/outputs")).text
    other = (await viewer.get(f"/api/v1/modules/{elsewhere.module_id}/outputs")).json()
    assert seen.json()["checksum"] != other["checksum"], "a guess in a module of one's own has another checksum"


@pytest.mark.feature("J12.sensitive", "X4.engine")
async def test_the_outputs_of_a_job_are_for_those_who_may_see_the_job(runner: SimulatedRunner) -> None:
    first = await runner.run(kind="APPLY")
    await first.deliver(RUNNING, fact(OutputsRead({"url": Output("http://x", "string")}, "hash")), DONE)
    path = f"/api/v1/jobs/{first.ref.job_id}/outputs"
    mine, other = await runner.run(first.module_id), await runner.run()
    viewer, operator = await runner.app.person("vera", "viewer"), await runner.app.person("otto", "operator")
    foreign = await runner.app.person("fred", "owner", organization="elsewhere")
    for who in (viewer, operator, mine.engine):
        assert (await who.get(path)).status_code == 200
    for address in (path, f"{path}?sensitive=true"):
        await foreign.refused("GET", address, 404)
        await other.engine.refused("GET", address, 404)
        await mine.executor.refused("GET", address, 403)
        await first.engine.refused("GET", address, 401)  # its attempt is over
    await viewer.refused("GET", f"{path}?sensitive=true", 403)


@pytest.mark.feature("X4.engine", "J13.token")
async def test_a_job_can_read_its_own_module_and_nothing_more_of_the_tree(runner: SimulatedRunner) -> None:
    """It was refused with "ask an owner for a role", which a job cannot do."""
    attempt, other = await runner.run(), await runner.run()
    admin, path = runner.app.admin, f"/api/v1/modules/{attempt.module_id}"
    name = (await admin.get(path)).json()["path"]
    secret = {"place": name, "name": "DB_PASSWORD", "secret": "hunter2-hunter2", "target": "environment"}
    assert (await admin.post("/api/v1/inputs", json=secret)).status_code == 200
    for reference in (attempt.module_id, name.replace("/", "%2F")):
        answer = await attempt.engine.get(f"/api/v1/modules/{reference}")
        assert (answer.status_code, answer.json()["id"]) == (200, attempt.module_id)
        assert "hunter2" not in answer.text
    await other.engine.refused("GET", path, 404)
    assert "its own job" in await attempt.executor.refused("GET", path, 403)
    for method, address in (
        ("GET", f"{path}/dependencies"),
        ("GET", f"{path}/steps"),
        ("GET", f"/api/v1/inputs?place={name}"),
        ("PATCH", path),
        ("DELETE", path),
        ("POST", f"{path}/jobs"),
    ):
        body = {"type": "APPLY"} if method == "POST" else {}
        refusal = await attempt.engine.refused(method, address, 403, json=body if method in ("POST", "PATCH") else None)
        assert "the credential of a job is only for its own job" in refusal, (method, address)
    for address in ("/api/v1/modules", "/api/v1/groups", "/api/v1/jobs"):
        assert (await attempt.engine.get(address)).json()["items"] == []
    await attempt.deliver(RUNNING, DONE)
    await attempt.engine.refused("GET", path, 401)


async def test_sensitive_outputs_are_shown_only_to_those_who_ask_and_may(runner: SimulatedRunner) -> None:
    attempt = await runner.run(kind="APPLY")
    found = {"url": Output("http://x", "string"), "password": Output("hunter2", "string", is_sensitive=True)}
    await attempt.deliver(RUNNING, fact(OutputsRead(found, "hash")), DONE)
    path = f"/api/v1/modules/{attempt.module_id}/outputs"
    hidden = (await runner.app.admin.get(path)).json()
    assert hidden["job_id"] == attempt.ref.job_id
    assert hidden["outputs"] == {
        "url": {"value": "http://x", "type": "string", "sensitive": False},
        "password": {"value": None, "type": "string", "sensitive": True},
    }
    shown = (await runner.app.admin.get(f"{path}?sensitive=true")).json()
    assert shown["outputs"]["password"]["value"] == "hunter2"
    assert await runner.app.scalar("SELECT count(*) FROM audit WHERE action = 'outputs.read'") == 1
    destroy = await runner.run(attempt.module_id, kind="DESTROY")
    await destroy.deliver(RUNNING, fact(Result("SUCCEEDED")))
    assert (await runner.app.admin.get(path)).json()["outputs"] == {}
