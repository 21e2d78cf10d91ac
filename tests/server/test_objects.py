"""The object store keeps what is put, whole and durable, and accepts only safe names."""

from pathlib import Path

import pytest

from terracrew.errors import Invalid, NotFound
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


def test_a_store_that_nobody_knows_is_refused() -> None:
    with pytest.raises(Invalid, match="object_store: 'gopher://x' cannot be opened") as refused:
        open_objects("gopher://someone:password@x?signature=1")
    assert "password" not in refused.value.message
    assert "signature" not in refused.value.message
