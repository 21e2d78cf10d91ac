"""The object store keeps what is put, whole and durable, and accepts only safe names."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from terracrew.errors import Invalid, NotFound, Unavailable
from terracrew.server.objects import Objects, open_objects


@pytest.fixture(params=["file", "memory"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    return open_objects((tmp_path / "with space").as_uri() if request.param == "file" else "memory:///")


async def test_an_object_is_put_read_replaced_and_deleted(objects: Objects, tmp_path: Path) -> None:
    assert not await objects.exists("archives/arc_1")
    await objects.put("archives/arc_1", b"0123456789")
    assert await objects.exists("archives/arc_1")
    assert await objects.get("archives/arc_1") == b"0123456789"
    assert await objects.get_range("archives/arc_1", 3, 4) == b"3456"
    assert await objects.get_range("archives/arc_1", 8, 100) == b"89"
    assert await objects.get_range("archives/arc_1", 10, 5) == b"", "nothing is wrong with the store"
    assert objects.health.problem == ""
    file = tmp_path / "source"
    file.write_bytes(b"x" * 12_000_000)
    await objects.put("archives/arc_1", file)
    assert b"".join([chunk async for chunk in objects.stream("archives/arc_1")]) == file.read_bytes()
    await objects.delete("archives/arc_1")
    await objects.delete("archives/arc_1")
    assert not await objects.exists("archives/arc_1")
    for read in (objects.get("archives/arc_1"), objects.get_range("archives/arc_1", 0, 1)):
        with pytest.raises(NotFound):
            await read


@pytest.mark.parametrize(
    "name", ["", "a", "../x", "a/../b", "/etc/passwd", "a//b", "A/b", "a/b c", "a/b\n", "a/.hidden"]
)
async def test_only_a_kind_and_ids_name_an_object(objects: Objects, name: str) -> None:
    with pytest.raises(ValueError, match="cannot name an object"):
        await objects.put(name, b"")


def test_a_folder_is_its_owners_alone(tmp_path: Path) -> None:
    open_objects((tmp_path / "a" / "objects").as_uri())
    assert (tmp_path / "a" / "objects").stat().st_mode & 0o777 == 0o700


async def test_checks_that_are_cut_short_leave_at_most_one_test_object(objects: Objects) -> None:
    """A probe of the readiness ends a check of a slow store after a second, also between the write and the deletion."""
    for _ in range(50):
        objects.health.failed(OSError("no"), 1 << 20)
        checking = asyncio.create_task(objects.check())
        await asyncio.sleep(0.001)
        checking.cancel()
        await asyncio.wait([checking])
    assert len(await objects.names("probes")) <= 1


async def test_an_object_that_is_stored_elsewhere_does_not_hide_that_the_store_is_another_one(objects: Objects) -> None:
    """`/readyz` said 503 and 200 in turns after somebody had emptied a bucket."""
    objects.id = "sto_1"
    with pytest.raises(Unavailable, match="not there any more"):
        await objects.check()
    with contextlib.suppress(Unavailable):
        await objects.put("archives/arc_1", b"x")
    assert "not there any more" in objects.health.problem
    objects.id = ""
    await objects.put("store/id", b"sto_1\n")
    objects.id = "sto_1"
    assert await objects.problem() == ""


def test_a_store_that_nobody_knows_is_refused() -> None:
    with pytest.raises(Invalid, match="object_store: 'gopher://x' cannot be opened") as refused:
        open_objects("gopher://someone:password@x?signature=1")
    assert "password" not in refused.value.message
    assert "signature" not in refused.value.message
