"""Everything is encrypted under a new master key while the server serves, until the old key is not needed any more."""

import base64
from dataclasses import replace
from pathlib import Path

import pytest

from terracrew.api.operations import RekeyProgress
from terracrew.errors import Invalid, Unavailable
from terracrew.protocol.events import Output, OutputsRead, PlanDescribed, PlanShown
from terracrew.server.app import build, close
from terracrew.server.context import Server
from terracrew.server.db import lease
from terracrew.server.jobs import job_inputs
from terracrew.server.process import builtin
from terracrew.server.rekey import key_holders, progress, service
from terracrew.server.rekey.inventory import COLUMNS, FOLDERS, LAST, key_of
from terracrew.server.rekey.service import Rekey
from terracrew.server.runners.starts import service as starts
from terracrew.server.secrets import keyring
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state.model import MAX_INLINE_BYTES
from terracrew.server.tree.inputs import sealing
from terracrew.server.tree.inputs.effective import JobContent
from terracrew.server.tree.modules import contents, module_key
from terracrew.server.tree.modules.contents import Content
from tests.builders import sign_on_rows
from tests.builders.deliveries import DONE, fact
from tests.builders.job_rows import change_inputs, change_jobs
from tests.server.application import Application, on_one, open_application
from tests.server.forges import forge_rows
from tests.server.simulated_runner import SimulatedRunner
from tests.server.state.stored_states import content, written

OLD, NEW = bytes(range(32)), bytes(range(32, 64))


def text(*keys: bytes) -> str:
    return "\n".join(base64.b64encode(key).decode() for key in keys)


def loop_of(server: Server) -> Rekey:
    return Rekey(server.id, server.db, server.objects, server.keys)


async def populate(application: Application) -> str:
    """One of everything that is encrypted; the module's id."""
    runner = await SimulatedRunner.make(application)
    attempt = await written(runner, content(1), content(2, MAX_INLINE_BYTES), content(3))
    await attempt.deliver(fact(OutputsRead({"a": Output("secret", is_sensitive=True)}, "ab")))
    await attempt.deliver(fact(PlanDescribed("1" * 64, b"a diff")))
    await change_jobs(application.server.db, attempt.ref.job_id, needs_plan_json=True)
    await attempt.deliver(fact(PlanShown("2" * 64, b"a plan")))
    await attempt.deliver(DONE)
    keys, db, module_id = application.server.keys, application.server.db, attempt.module_id
    await db.write(lambda tx: contents.save(tx, keys, module_id, Content({"a": 1}, {"B": "c"})))
    await db.write(lambda tx: module_key.of_engine(tx, keys, module_id, "pulumi", None))
    own = {attempt.ref.job_id: JobContent({"c": 2}, {})}
    await db.write(lambda tx: job_inputs.save_own(tx, keys, own))
    await db.write(lambda tx: builtin.secret(tx, keys))
    await forge_rows.connection(db, keys, token="abc")
    part = "parts/upl_1/0"
    await application.server.objects.put(part, keys.encrypt(b"a part", part))
    hook = {"name": "ops", "kind": "webhook", "url": "https://hooks.example/1"}
    await application.admin.made("/api/v1/notification-channels", hook)
    await starts.put(db, keys, attempt.ref, "0" * 64, b"a start")
    organization_id = application.server.organization_id
    ann = await application.person("ann")
    await db.write(lambda tx: sign_on_rows.insert_secrets(tx, keys, organization_id, ann.principal.id))
    return module_id


async def heads(server: Server) -> dict[str, set[bytes]]:
    """The beginnings of all ciphertexts, by kind."""
    found: dict[str, set[bytes]] = {}
    for column in (*COLUMNS, LAST):
        rows = await server.db.read(lambda tx, column=column: tx.all(column.page, **column.first, most=1000))
        found[column.name] = {bytes(row["head"]) for row in rows}
    for folder in FOLDERS:
        names = [each.name async for page in server.objects.listing(folder.folder) for each in page]
        found[folder.name] = {(await server.objects.get(name))[:9] for name in names}
    return found


async def rekeyed(server: Server) -> RekeyProgress:
    await server.db.write(lambda tx: progress.start(tx, server.keys.key_id))
    return await loop_of(server).step()


async def test_after_a_rekey_the_server_starts_with_the_new_key_alone(database_url: str, tmp_path: Path) -> None:
    """With the new key alone the server refused to start, since nothing was ever encrypted anew."""
    key_file = tmp_path / "key"
    key_file.write_text(text(OLD))
    async with open_application(database_url, tmp_path / "data", master_key_file=key_file) as application:
        module_id = await populate(application)
        settings = application.server.settings
        before = await heads(application.server)
        assert all(before.values()), "something of every kind is stored"
    key_file.write_text(text(NEW))
    with pytest.raises(Invalid, match="not the master key of this database"):
        await build(settings)
    key_file.write_text(text(NEW, OLD))
    server = await build(settings)
    try:
        found = await rekeyed(server)
        assert (found.status, found.failed, found.problem) == ("finished", 0, "")
        assert found.encrypted >= len(before) - 1
        assert {head for each in (await heads(server)).values() for head in each} == {Keyring([NEW]).head}
        again = await rekeyed(server)
        assert (again.status, again.encrypted) == ("finished", 0), "there is nothing to do a second time"
        await server.db.write(lambda tx: tx.run("DELETE FROM api_tokens"))
    finally:
        await close(server)
    key_file.write_text(text(NEW))
    async with open_application(database_url, tmp_path / "data", master_key_file=key_file) as application:
        state = await application.admin.get(f"/api/v1/modules/{module_id}/state")
        assert state.content == content(3)
        listed = (await application.admin.get(f"/api/v1/modules/{module_id}/states")).json()["items"]
        read = [(await application.admin.get(f"/api/v1/states/{each['id']}")).content for each in listed]
        assert read == [content(3), content(2, MAX_INLINE_BYTES), content(1)]
        outputs = await application.admin.get(f"/api/v1/modules/{module_id}/outputs", params={"sensitive": True})
        assert outputs.json()["outputs"]["a"]["value"] == "secret"
        loaded = await application.server.db.read(lambda tx: contents.load(tx, application.server.keys, module_id))
        assert loaded == Content({"a": 1}, {"B": "c"})
        assert (
            application.server.keys.decrypt(await application.server.objects.get("parts/upl_1/0"), "parts/upl_1/0")
            == b"a part"
        )


async def test_an_interrupted_rekey_goes_on_and_until_then_both_keys_are_needed(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    await populate(application)
    server = replace(application.server, keys=_with_new_key(application))
    with monkeypatch.context() as patch:
        patch.setattr(service, "FOLDERS", (_Broken(),))
        await server.db.write(lambda tx: progress.start(tx, server.keys.key_id))
        with pytest.raises(OSError, match="the power is gone"):
            await loop_of(server).step()
    assert (await server.db.read(progress.load)).status == "running"
    assert (await heads(server))["check value"] != {server.keys.head}
    found = await loop_of(server).step()  # as the loop of a server that starts does
    assert found.status == "finished"
    assert {head for each in (await heads(server)).values() for head in each} == {server.keys.head}


async def test_a_rekey_waits_while_the_folder_of_the_objects_is_not_mounted(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It found no objects in the empty folder and was finished, so that the key which they needed could be removed."""
    await populate(application)
    server = replace(application.server, keys=_with_new_key(application))
    objects, folder = server.objects, server.settings.directory / "objects"
    await objects.put("store/id", b"sto_1\n")
    objects.id = "sto_1"
    head = objects.get_range

    async def unmounted_after_head(name: str, start: int, length: int) -> bytes:
        found = await head(name, start, length)
        folder.rename(folder.with_name("elsewhere"))
        return found

    await server.db.write(lambda tx: progress.start(tx, server.keys.key_id))
    with monkeypatch.context() as patch:
        patch.setattr(objects, "get_range", unmounted_after_head)
        patch.setattr(service, "MAX_HEAD_READS", 1)
        with pytest.raises(Unavailable, match="not there any more"):
            await loop_of(server).step()
    with pytest.raises(Unavailable, match="not there any more"):
        await loop_of(server).step()
    now = await server.db.read(progress.load)
    assert (now.status, now.failed) == ("running", 0)
    folder.with_name("elsewhere").rename(folder)
    assert (await loop_of(server).step()).status == "finished"
    assert {head for each in (await heads(server)).values() for head in each} == {server.keys.head}


async def test_a_write_between_reading_and_replacing_wins(application: Application) -> None:
    """Every kind is replaced by compare-and-set: what was read is not there any more, so nothing is replaced."""
    await populate(application)
    for column in (*COLUMNS, LAST):
        [row, *_] = await application.server.db.read(lambda tx, c=column: tx.all(c.page, **c.first, most=1))
        key = key_of(column, row)
        change = {**key, "old": b"what was read before", "new": b"lost"}
        assert await application.server.db.write(lambda tx, c=column, change=change: tx.run(c.replace, **change)) == 0
        stored = await application.server.db.read(lambda tx, c=column, key=key: tx.one(c.get, **key))
        assert stored is not None
        assert bytes(stored["sealed"]) != b"lost"


async def test_what_cannot_be_decrypted_is_told_and_the_old_key_stays_needed(application: Application) -> None:
    module_id = await populate(application)
    foreign = Keyring([b"f" * 32]).encrypt(b"1", sealing.context(module_id, "variable", "a", 1))
    sealed = await application.scalar("SELECT id FROM inputs WHERE place_id = :id AND name = 'a'", id=module_id)
    await change_inputs(application.server.db, sealed, sealed=foreign)
    server = replace(application.server, keys=_with_new_key(application))
    found = await rekeyed(server)
    assert (found.status, found.failed) == ("incomplete", 1)
    assert Keyring([b"f" * 32]).key_id in found.problem
    assert (await heads(server))["check value"] != {server.keys.head}


async def test_only_an_administrator_of_the_server_starts_watches_and_stops_a_rekey(application: Application) -> None:
    owner = await application.person("olga", "owner")
    for method in ("GET", "POST", "DELETE"):
        await owner.refused(method, "/api/v1/rekey", 403)
        await application.stranger().refused(method, "/api/v1/rekey", 401)
    assert (await application.admin.get("/api/v1/rekey")).json()["status"] == "none"
    started = await application.admin.post("/api/v1/rekey")
    assert (started.status_code, started.json()["status"]) == (202, "running")
    assert (await application.admin.delete("/api/v1/rekey")).json()["status"] == "stopped"
    assert (await loop_of(application.server).step()).status == "stopped"
    actions = [each["action"] for each in (await application.admin.get("/api/v1/audit")).json()["items"]]
    assert actions[:2] == ["server.stop_rekey", "server.rekey"]


async def test_a_rekey_does_not_begin_while_a_running_server_encrypts_under_another_key(
    application: Application,
) -> None:
    """It began, and a second server without the new key answered 500 to everybody who read what was encrypted under it."""
    db, old = application.server.db, Keyring([OLD])
    await key_holders.announce(db, application.server.id, application.server.keys)
    assert (await application.admin.post("/api/v1/rekey")).status_code == 202
    await lease.acquire(db, f"{key_holders.LEASE_PREFIX}srv_other", old.key_id, 60)
    refused = await application.admin.refused("POST", "/api/v1/rekey", 409)
    assert "srv_other" in refused
    assert old.key_id in refused
    await key_holders.withdraw(db, "srv_other", old)
    assert (await application.admin.post("/api/v1/rekey")).status_code == 202


async def test_a_rekey_is_not_finished_while_a_server_that_started_meanwhile_encrypts_under_the_old_key(
    application: Application,
) -> None:
    """It was finished, the operator removed the old key, and what that server had written since could not be read."""
    await populate(application)
    server = replace(application.server, keys=_with_new_key(application))
    await lease.acquire(server.db, f"{key_holders.LEASE_PREFIX}srv_other", application.server.keys.key_id, 60)
    found = await rekeyed(server)
    assert (found.status, found.failed) == ("incomplete", 1)
    assert "srv_other" in found.problem
    assert (await heads(server))["check value"] != {server.keys.head}
    await key_holders.withdraw(server.db, "srv_other", application.server.keys)
    assert (await rekeyed(server)).status == "finished"


async def test_a_server_without_the_key_of_an_unfinished_rekey_does_not_start(
    database_url: str, tmp_path: Path
) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(text(OLD))
    async with open_application(database_url, tmp_path / "data", master_key_file=key_file) as application:
        settings = application.server.settings
        await application.server.db.write(lambda tx: progress.start(tx, Keyring([NEW]).key_id))
    with pytest.raises(Invalid, match=Keyring([NEW]).key_id):
        await build(settings)
    key_file.write_text(text(OLD, NEW))
    await close(await build(settings))


@on_one
async def test_the_lease_of_a_killed_server_on_sqlite_does_not_delay_a_rekey(application: Application) -> None:
    await lease.acquire(application.server.db, f"{key_holders.LEASE_PREFIX}srv_killed", Keyring([OLD]).key_id, 60)
    await key_holders.announce(application.server.db, application.server.id, application.server.keys)
    assert (await application.admin.post("/api/v1/rekey")).status_code == 202


class _Broken:
    name = "stored states"

    @property
    def folder(self) -> str:
        raise OSError("the power is gone")


def _with_new_key(application: Application) -> Keyring:
    """Return the server's keyring with a newer key before its own."""
    settings = application.server.settings
    return Keyring([NEW, *keyring.parse(settings.key or (settings.directory / keyring.FILE_NAME).read_text())])
