"""A body in parts arrives whole or not at all, in any order, with any repetition, through any server."""

import hashlib
import random

import pytest

from terracrew.protocol.transfers import PART_BYTES
from terracrew.server.uploads import service
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import RUNNING
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner
from tests.server.state.stored_states import content
from tests.server.tree.modules.packed_modules import packed

LARGE = content(1, 3 << 20)


def cut(body: bytes) -> list[bytes]:
    return [body[at : at + PART_BYTES] for at in range(0, len(body), PART_BYTES)]


async def stage(attempt: SimulatedAttempt, target: str, body: bytes) -> tuple[str, list[int]]:
    wanted = {"target": target, "sha256": hashlib.sha256(body).hexdigest(), "size": len(body)}
    answer = await attempt.executor.put(f"{attempt.path}/uploads", json=wanted)
    assert answer.status_code == 200, answer.text
    assert answer.json()["part_bytes"] == PART_BYTES
    return answer.json()["id"], answer.json()["missing"]


async def send(attempt: SimulatedAttempt, upload: str, index: int, part: bytes) -> None:
    answer = await attempt.executor.put(f"{attempt.path}/uploads/{upload}/{index}", content=part)
    assert answer.status_code == 204, answer.text


async def parts_of(runner: SimulatedRunner, upload: str) -> list[str]:
    return await runner.server.objects.names(f"parts/{upload}")


@pytest.mark.feature("J15.kept")
async def test_parts_may_come_in_any_order_and_again_and_the_whole_is_used_once(runner: SimulatedRunner) -> None:
    attempt = await runner.begun()
    body = attempt.seal(LARGE)
    parts = cut(body)
    upload, missing = await stage(attempt, "states/2", body)
    assert missing == [0, 1, 2, 3, 4]
    order = [*missing, 3, 0]
    random.Random(4).shuffle(order)
    for at, index in enumerate(order):
        await send(attempt, upload, index, parts[index])
        again, missing = await stage(attempt, "states/2", body)
        assert again == upload
        assert set(missing) == set(range(5)) - set(order[: at + 1])
    path, named = f"{attempt.path}/states/2", {"X-Upload": upload}
    for _ in range(2):  # the answer to the first one may have been lost
        assert (await attempt.executor.put(path, content=b"", headers=named)).status_code == 204
        assert await parts_of(runner, upload) == []
    await send(attempt, upload, 0, parts[0])  # a repetition that was long on its way
    assert await parts_of(runner, upload) == []
    assert (await stage(attempt, "states/2", body)) == (upload, [])
    assert await attempt.write(LARGE, is_inline=False) == 2
    assert (await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}/state")).content == LARGE


async def test_an_upload_that_lacks_parts_is_not_used_and_says_which(runner: SimulatedRunner) -> None:
    attempt = await runner.begun()
    body = attempt.seal(LARGE)
    upload, _ = await stage(attempt, "states/2", body)
    await send(attempt, upload, 1, cut(body)[1])
    answer = await attempt.executor.put(f"{attempt.path}/states/2", content=b"", headers={"X-Upload": upload})
    assert (answer.status_code, answer.json()["code"], answer.json()["missing"]) == (409, "incomplete", [0, 2, 3, 4])
    for index, part in ((1, b"short"), (5, b"x"), (4, cut(body)[0])):
        await attempt.executor.refused("PUT", f"{attempt.path}/uploads/{upload}/{index}", 400, content=part)
    other = {"X-Upload": "upl_" + "0" * 32}
    answer = await attempt.executor.put(f"{attempt.path}/states/2", content=b"", headers=other)
    assert answer.json()["code"] == "incomplete"
    await attempt.executor.refused("PUT", f"{attempt.path}/states/3", 400, content=b"", headers={"X-Upload": upload})
    assert await runner.server.objects.names(f"states/{attempt.ref.job_id}") == []


async def test_what_does_not_have_the_announced_hash_is_thrown_away_and_may_be_sent_again(
    runner: SimulatedRunner,
) -> None:
    attempt = await runner.begun()
    body = attempt.seal(LARGE)
    parts = cut(body)
    upload, _ = await stage(attempt, "states/2", body)
    for index, part in enumerate([parts[1], *parts[1:]]):
        await send(attempt, upload, index, part)
    answer = await attempt.executor.put(f"{attempt.path}/states/2", content=b"", headers={"X-Upload": upload})
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    upload, missing = await stage(attempt, "states/2", body)
    assert missing == [0, 1, 2, 3, 4]
    for index, part in enumerate(parts):
        await send(attempt, upload, index, part)
    answer = await attempt.executor.put(f"{attempt.path}/states/2", content=b"", headers={"X-Upload": upload})
    assert answer.status_code == 204


@pytest.mark.feature("X4.bounded")
async def test_parts_are_encrypted_and_only_their_owners(runner: SimulatedRunner) -> None:
    attempt, other = await runner.begun(), await runner.run(kind="APPLY")
    upload, _ = await stage(attempt, "states/2", LARGE)  # in plain, as a salvaged state comes
    await send(attempt, upload, 0, LARGE[:PART_BYTES])
    assert b"lineage" not in await runner.server.objects.get(f"parts/{upload}/0")
    path = f"uploads/{upload}/1"
    await other.executor.refused("PUT", f"{other.path}/{path}", 409, content=LARGE[PART_BYTES : 2 * PART_BYTES])
    await other.executor.refused("PUT", f"{attempt.path}/{path}", 403, content=b"x")
    await runner.app.admin.refused("PUT", f"/api/v1/{path}", 409, content=b"x")


@pytest.mark.feature("X4.bounded")
async def test_an_owner_has_a_few_uploads_under_way_and_old_ones_are_removed(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    attempt = await runner.begun()
    uploads = list[str]()
    for number in range(service.MAX_UNFINISHED + 2):
        body = attempt.seal(LARGE)
        uploads.append((await stage(attempt, f"states/{number + 2}", body))[0])
        await send(attempt, uploads[-1], 0, cut(body)[0])
    kept = [upload for upload in uploads if await parts_of(runner, upload)]
    assert kept == uploads[2:]
    huge = {"target": "states/2", "sha256": "0" * 64, "size": 1 << 40}
    await attempt.executor.refused("PUT", f"{attempt.path}/uploads", 413, json=huge)
    assert await service.sweep(runner.server.db, runner.server.objects) == 0
    clock.advance(90_000)
    assert await service.sweep(runner.server.db, runner.server.objects) == len(kept)
    assert not any([await parts_of(runner, upload) for upload in uploads])
    assert await runner.app.scalar("SELECT count(*) FROM uploads") == 0


@pytest.mark.feature("X4.bounded")
async def test_a_plan_is_staged_only_while_it_can_be_used_and_one_at_a_time(runner: SimulatedRunner) -> None:
    """An attempt that had begun, or was over, staged four plans of 1 GiB each, which nothing could ever use."""
    attempt = await runner.run(kind="APPLY")
    await attempt.deliver(RUNNING)
    uploads = list[str]()
    for serial in (1, 2, 3):
        body = content(serial, 1 << 20)
        uploads.append((await stage(attempt, "plan", body))[0])
        await send(attempt, uploads[-1], 0, cut(body)[0])
    assert [len(await parts_of(runner, upload)) for upload in uploads] == [0, 0, 1]
    wanted = {"target": "plan", "sha256": hashlib.sha256(b"x").hexdigest(), "size": 1}
    await attempt.begin()
    assert "has begun" in await attempt.executor.refused("PUT", f"{attempt.path}/uploads", 409, json=wanted)
    lost = await runner.run(kind="APPLY")
    await lost.deliver(RUNNING)
    await lost.lose()
    assert "no longer the current" in await lost.executor.refused("PUT", f"{lost.path}/uploads", 409, json=wanted)


@pytest.mark.feature("X4.bounded")
async def test_a_part_that_arrives_while_its_upload_is_removed_is_not_kept(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part of an upload that was removed at this moment stayed in the object store for ever."""
    attempt = await runner.begun()
    body = attempt.seal(LARGE)
    upload, _ = await stage(attempt, "states/2", body)
    put = runner.server.objects.put

    async def put_late(name: str, content: bytes) -> None:
        await runner.server.db.write(lambda tx: tx.run("DELETE FROM uploads"))
        await put(name, content)

    monkeypatch.setattr(runner.server.objects, "put", put_late)
    await attempt.executor.refused("PUT", f"{attempt.path}/uploads/{upload}/0", 409, content=cut(body)[0])
    assert await parts_of(runner, upload) == []


@pytest.mark.feature("X4.bounded")
async def test_a_sweep_removes_all_old_uploads_and_not_only_the_first_hundred(runner: SimulatedRunner) -> None:
    """Half an hour passed before the next hundred was removed, and more than that can be staged meanwhile."""
    await runner.rows.run(
        """WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 250)
        INSERT INTO uploads (id, owner, target, sha256, size, result, used_at)
        SELECT 'upl_' || n, 'a:1', 'states/' || n, 'a', 1, NULL, 1.0 FROM numbers"""
    )
    assert await service.sweep(runner.server.db, runner.server.objects) == 250
    assert await runner.app.scalar("SELECT count(*) FROM uploads") == 0


@pytest.mark.feature("J5.archive")
async def test_a_large_archive_is_uploaded_in_parts_and_a_repeated_request_makes_no_second_one(
    runner: SimulatedRunner,
) -> None:
    body = packed(("main.tf", b""), ("noise", random.Random(1).randbytes(2 << 20)))
    wanted = {"target": "archive", "sha256": hashlib.sha256(body).hexdigest(), "size": len(body)}
    staged = (await runner.app.admin.put("/api/v1/uploads", json=wanted)).json()
    assert staged["missing"] == list(range(len(cut(body))))
    for index, part in enumerate(cut(body)):
        answer = await runner.app.admin.put(f"/api/v1/uploads/{staged['id']}/{index}", content=part)
        assert answer.status_code == 204, answer.text
    named = {"X-Upload": staged["id"], "Content-Type": "application/gzip"}
    made = [(await runner.app.admin.post("/api/v1/archives", content=b"", headers=named)).json() for _ in range(2)]
    assert made[0] == made[1]
    assert made[0]["sha256"] == wanted["sha256"]
    assert await runner.server.objects.get(f"archives/{made[0]['id']}") == body
    assert await runner.app.scalar("SELECT count(*) FROM archives") == 1
