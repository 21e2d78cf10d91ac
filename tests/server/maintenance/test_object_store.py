"""A server starts only with the object store of its database, whoever starts at the same time."""

import asyncio
import shutil
from pathlib import Path

import pytest

from terracrew import ids
from terracrew.errors import Invalid, Unavailable
from terracrew.server.db import Database
from terracrew.server.maintenance import object_store
from terracrew.server.objects import Objects, open_objects
from terracrew.settings.server import ServerSettings
from terracrew.source_rules import archive
from tests.server.application import Application

SETTINGS = ServerSettings()


async def start(db: Database, folder: Path, settings: ServerSettings = SETTINGS) -> Objects:
    """Do what a server does at its start with its store."""
    objects = open_objects(folder.as_uri())
    await object_store.require(db, objects, settings, ids.new("srv"))
    return objects


async def test_a_server_whose_store_is_another_one_does_not_start_and_says_what_to_do(
    database: Database, tmp_path: Path
) -> None:
    """Two servers with a folder each started, and a job failed: "no object archives/arc_… is stored"."""
    first = await start(database, tmp_path / "one")
    with pytest.raises(Invalid) as refused:
        await start(database, tmp_path / "other")
    assert "is not the object store of this database: it has no id" in refused.value.message
    assert f"was last at {(tmp_path / 'one').as_uri()} on " in refused.value.message
    assert "--object-store" in refused.value.message
    assert "adopt-object-store" in refused.value.message
    assert "By default the store is a folder in the data directory" in refused.value.message
    assert [each for each in (tmp_path / "other").rglob("*") if each.is_file()] == [], "it left nothing there"
    (tmp_path / "other" / "store").mkdir(exist_ok=True)
    (tmp_path / "other" / "store" / "id").write_text("sto_0\n")
    with pytest.raises(Invalid, match=f"its id is sto_0 instead of {first.id}"):
        await start(database, tmp_path / "other", ServerSettings(object_store="file:///x"))
    assert (await start(database, tmp_path / "one")).id == first.id


async def test_a_copy_of_the_store_takes_its_place(database: Database, tmp_path: Path) -> None:
    """A backup that is restored elsewhere, and a bucket that was moved with all of its objects."""
    first = await start(database, tmp_path / "one")
    await first.put("archives/arc_1", b"x")
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    copy = await start(database, tmp_path / "copy")
    assert copy.id == first.id
    shutil.rmtree(tmp_path / "one")
    with pytest.raises(Invalid, match=f"was last at {(tmp_path / 'copy').as_uri()}"):
        await start(database, tmp_path / "one")


async def test_a_database_adopts_another_store_only_when_it_is_told_to(database: Database, tmp_path: Path) -> None:
    before = await start(database, tmp_path / "one")
    other = open_objects((tmp_path / "other").as_uri())
    found = await object_store.look(database, other)
    assert (found.id, found.is_own, found.known and found.known.id) == (None, False, before.id)
    adopted = await object_store.bind(database, other)
    assert (await start(database, tmp_path / "other")).id == adopted.id != before.id
    with pytest.raises(Invalid, match="is not the object store of this database: its id is"):
        await start(database, tmp_path / "one")
    row = await database.read(lambda tx: tx.one("SELECT action, details FROM audit WHERE action LIKE 'server.%'"))
    assert row is not None
    assert (row["action"], "other on " in row["details"]) == ("server.adopt_store", True)


async def test_a_survey_counts_the_objects_of_the_database_that_a_store_lacks(
    application: Application, tmp_path: Path
) -> None:
    server, source = application.server, tmp_path / "source"
    source.mkdir()
    (source / "main.tf").write_text("")
    for _ in range(2):
        assert (await application.admin.post("/api/v1/archives", content=archive.pack(source))).status_code == 201
    here = await object_store.look(server.db, server.objects)
    assert (here.looked_for, here.missing) == (2, 0)
    there = await object_store.look(server.db, open_objects((tmp_path / "other").as_uri()))
    assert (there.looked_for, there.missing) == (2, 2)


async def test_a_new_database_does_not_take_the_store_of_another_one(database: Database, tmp_path: Path) -> None:
    folder = tmp_path / "used" / "store"
    folder.mkdir(parents=True)
    (folder / "id").write_text("sto_1\n")
    (tmp_path / "used" / "archives").mkdir()
    (tmp_path / "used" / "archives" / "arc_1").write_text("x")
    with pytest.raises(Invalid, match="in use by another database, and this database is new"):
        await start(database, tmp_path / "used")
    (tmp_path / "used" / "archives" / "arc_1").unlink()  # as if its first server had ended before it wrote the row
    assert (await start(database, tmp_path / "used")).id == "sto_1"


async def test_a_database_without_the_id_takes_the_store_that_has_its_objects(
    application: Application, tmp_path: Path
) -> None:
    """The server ended between the id in the store and the row, or an older backup of the database was restored.

    Each later start was refused: "in use by another database, and this database is new".
    """
    server, source = application.server, tmp_path / "source"
    source.mkdir()
    (source / "main.tf").write_text("")
    assert (await application.admin.post("/api/v1/archives", content=archive.pack(source))).status_code == 201
    await server.objects.put("store/id", b"sto_1\n")
    await object_store.require(server.db, server.objects, SETTINGS, server.id)
    assert server.objects.id == "sto_1"


async def test_servers_that_start_together_on_a_new_database_have_one_id(database: Database, tmp_path: Path) -> None:
    started = await asyncio.gather(*(start(database, tmp_path / "one") for _ in range(4)))
    assert len({each.id for each in started}) == 1
    assert (tmp_path / "one" / "store" / "id").read_text().strip() == started[0].id


async def test_of_servers_that_start_together_with_a_store_each_one_starts(database: Database, tmp_path: Path) -> None:
    """Each of two servers would have made an id for its own folder, and believed that it is that of the database."""
    folders = [tmp_path / str(number) for number in range(4)]
    found = await asyncio.gather(*(start(database, folder) for folder in folders), return_exceptions=True)
    assert sum(isinstance(each, Objects) for each in found) == 1
    assert sum(isinstance(each, Invalid) for each in found) == 3


async def test_a_folder_that_is_not_mounted_any_more_is_neither_written_nor_believed(
    database: Database, tmp_path: Path
) -> None:
    """What was stored in the folder below the mount was gone when the file system was mounted again."""
    objects = await start(database, tmp_path / "one")
    await objects.put("archives/arc_1", b"x")
    (tmp_path / "one").rename(tmp_path / "elsewhere")
    (tmp_path / "one").mkdir()
    with pytest.raises(Unavailable, match="not there any more"):
        await objects.put("archives/arc_2", b"y")
    with pytest.raises(Unavailable, match="not there any more"):
        await objects.get("archives/arc_1")
    for looked in (objects.exists("archives/arc_1"), objects.names("archives"), objects.delete("archives/arc_1")):
        with pytest.raises(Unavailable, match="not there any more"):
            await looked
    with pytest.raises(Unavailable, match="not there any more"):
        await anext(objects.listing("archives"))
    assert "not there any more" in await objects.problem()
    assert list((tmp_path / "one").rglob("*")) == []
    (tmp_path / "one").rmdir()
    (tmp_path / "elsewhere").rename(tmp_path / "one")
    assert await objects.problem() == ""
    assert await objects.get("archives/arc_1") == b"x"
