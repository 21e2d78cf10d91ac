"""Comparing states takes no thread of the server, and nobody compares more than one pair at a time."""

import asyncio
import json
import time

import pytest

from terracrew.errors import Invalid
from terracrew.plan_diff.document import DiffDocument, DiffQuery
from terracrew.server.principals.model import Principal
from terracrew.server.state import comparison, diff_process, differences
from terracrew.server.state.diff_process import DiffProcess
from tests.builders.deliveries import log
from tests.server.application import Application
from tests.server.simulated_runner import SimulatedRunner
from tests.server.state.stored_states import applied

SOMEBODY = Principal("user", "usr_1", "vera", "org_1")
QUICK_SECONDS = 1.5


def large_state(serial: int, size: int = 2_000_000) -> bytes:
    """A state whose attributes are lists of objects, which take long to compare."""
    listed = [{"name": f"{serial}-{number}", "number": number} for number in range(200)]
    one = {"mode": "managed", "type": "testing", "instances": [{"attributes": {"rules": listed}}]}
    count = size // len(json.dumps(one))
    found = [one | {"name": f"resource{number}"} for number in range(count)]
    return json.dumps({"version": 4, "serial": serial, "lineage": "a", "resources": found}).encode()


async def _ids(application: Application) -> list[str]:
    newest = await application.scalar("SELECT max(version) FROM states")
    return [
        await application.scalar("SELECT id FROM states WHERE version = :number", number=number)
        for number in range(1, newest + 1)
    ]


async def test_a_delivery_does_not_wait_for_twelve_comparisons_of_large_states(runner: SimulatedRunner) -> None:
    """Each of them took a thread for seconds: a job of another organization took 83 s instead of one."""
    await applied(runner, *(large_state(serial) for serial in range(1, 5)))
    found = await _ids(runner.app)
    pairs = [(one, other) for one in found for other in found if one != other]
    people = [await runner.app.person(f"vera{number}", "owner") for number in range(len(pairs))]
    other = await runner.begun()
    asked = [
        asyncio.create_task(person.get(f"/api/v1/states/{one}/diff", params={"with": another}))
        for person, (one, another) in zip(people, pairs, strict=True)
    ]
    await asyncio.sleep(0.5)  # until the first is being computed
    waited: list[float] = []
    for number in range(8):
        began = time.monotonic()
        await other.deliver(log(f"line {number} " + "x" * 300_000))
        assert (await runner.app.admin.get("/healthz")).status_code == 200
        await asyncio.to_thread(lambda: None)
        waited.append(time.monotonic() - began)
    assert not all(each.done() for each in asked), "the comparisons were done before anything was measured"
    assert max(waited) < QUICK_SECONDS, waited
    for each in asked:
        each.cancel()
    await asyncio.wait(asked)


async def test_one_person_compares_one_pair_at_a_time(runner: SimulatedRunner) -> None:
    await applied(runner, *(large_state(serial, 200_000) for serial in range(1, 3)))
    _, newest = await _ids(runner.app)
    path = f"/api/v1/states/{newest}/diff"
    answers = await asyncio.gather(*(runner.app.admin.get(path) for _ in range(3)))
    assert sorted(each.status_code for each in answers) == [200, 429, 429]
    refused = next(each for each in answers if each.status_code == 429)
    assert refused.json()["code"] == "rate_limited"
    assert int(refused.headers["retry-after"]) >= 1
    assert (await runner.app.admin.get(path)).status_code == 200


async def test_the_result_is_kept_for_the_pair_but_only_for_those_who_may_read_it(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    await applied(runner, large_state(1, 20_000), large_state(2, 20_000))
    _, newest = await _ids(runner.app)
    path = f"/api/v1/states/{newest}/diff"
    first = (await runner.app.admin.get(path)).json()
    monkeypatch.setattr(diff_process.sys, "executable", "/nonexistent")
    assert (await runner.app.admin.get(path)).json() == first
    viewer = await runner.app.person("vera", "viewer")
    await viewer.refused("GET", path, 403)


async def test_a_state_that_is_too_large_is_not_compared(runner: SimulatedRunner) -> None:
    await applied(runner, large_state(1, 20_000), large_state(2, comparison.MAX_COMPARED_BYTES + 100_000))
    _, newest = await _ids(runner.app)
    why = await runner.app.admin.refused("GET", f"/api/v1/states/{newest}/diff", 400)
    assert "at most 4,194,304 are compared" in why


async def test_the_process_answers_as_a_direct_call_does() -> None:
    before, after = large_state(1), large_state(2)
    diffs = DiffProcess()
    async with diffs.turn(SOMEBODY):
        document = await diffs.compare(("sta_1", "sta_2"), before, after)
    assert document == differences.compared(before, after)
    assert diffs.kept("sta_1", "sta_2") == document
    assert diffs.kept("sta_2", "sta_1") is None
    query = DiffQuery(search="resource7", count=5)
    assert await diffs.page(SOMEBODY, document, query) == DiffDocument(document).page(query)
    with pytest.raises(Invalid, match="may have encrypted it"):
        await diffs.compare(("sta_1", "sta_3"), before, b'{"encrypted_data": "x"}')


async def test_the_oldest_documents_are_forgotten_when_they_need_too_many_bytes() -> None:
    states = [large_state(serial, 20_000) for serial in (1, 2)]
    size = len(differences.compared(*states))
    diffs = DiffProcess(max_kept_bytes=2 * size)
    for name in ("sta_2", "sta_3", "sta_4"):
        await diffs.compare(("sta_1", name), *states)
        assert diffs.kept("sta_1", "sta_2") is not None or name == "sta_4", "it was asked for, so it is not the oldest"
    assert diffs.kept("sta_1", "sta_3") is None
