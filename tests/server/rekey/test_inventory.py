"""The inventory contains everything that is encrypted; what it lacks would be lost with the old key."""

import re
from pathlib import Path
from typing import LiteralString

import terracrew.server
from terracrew.server.db.seam import Tx
from terracrew.server.rekey import inventory, progress
from tests.server.application import Application, on_one

SOURCES = Path(terracrew.server.__file__).parent
_COLUMNS: dict[str, LiteralString] = {
    "sqlite": """SELECT tables.name AS "table", columns.name AS "column" FROM sqlite_master AS tables
        JOIN pragma_table_info(tables.name) AS columns WHERE tables.type = 'table' AND lower(columns.type) = 'bytea'""",
    "postgres": """SELECT table_name AS "table", column_name AS "column" FROM information_schema.columns
        WHERE table_schema = current_schema() AND data_type = 'bytea'""",
}


async def test_every_binary_column_is_encrypted_anew_or_known_to_be_no_ciphertext(application: Application) -> None:
    async def read(tx: Tx) -> set[str]:
        return {f"{row['table']}.{row['column']}" for row in await tx.all(_COLUMNS[application.server.db.kind])}

    found = await application.server.db.read(read)
    known = {each.column for each in (*inventory.COLUMNS, inventory.LAST)}
    assert found == known | inventory.NOT_ENCRYPTED.keys(), "add a new column to server/rekey/inventory.py"
    assert not known & inventory.NOT_ENCRYPTED.keys()


@on_one
async def test_every_folder_of_the_object_store_is_in_the_inventory(application: Application) -> None:
    names = {
        found[1]
        for path in SOURCES.rglob("*.py")
        for found in re.finditer(r'f"([a-z]+)/\{', path.read_text())
        if "/api" not in str(path)
    }
    known = {each.folder for each in inventory.FOLDERS} | inventory.OTHER_FOLDERS.keys()
    assert names == known, "add a new folder to server/rekey/inventory.py"


def test_every_place_that_encrypts_is_known() -> None:
    """A new call of `encrypt` has to be looked at: is what it makes in the inventory?"""
    found = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if re.search(r"(keys|keyring)\.encrypt\b", path.read_text())
    }
    # Others keep these: with an unknown key, a browser is unknown, what a runner was told proves
    # nothing, and a terminal asks for another address. Nothing is lost.
    kept_by_others = {
        "history/points.py",
        "jobs/set_back/receipts.py",
        "secrets/sealed_texts.py",  # in addresses and cookies
        "terminals/state_bodies.py",  # while they arrive
    }
    assert found - kept_by_others == {
        "forges/sealing.py",
        "process/builtin.py",
        "hub/transfer/states.py",
        "secrets/keyring.py",
        "identity/keys/signing.py",
        "identity/sso/sealing.py",
        "jobs/attempts/claims.py",
        "notifications/sealing.py",
        "tree/inputs/sealing.py",
        "jobs/job_inputs.py",
        "jobs/plans/diff_store.py",
        "jobs/plans/json_store.py",
        "tree/modules/module_key.py",
        "rekey/service.py",
        "runners/starts/service.py",
        "state/content.py",
        "state/service.py",
        "uploads/service.py",
    }


async def test_every_setting_is_a_known_ciphertext_or_plain(application: Application) -> None:
    rows = await application.server.db.read(lambda tx: tx.all("SELECT name FROM settings"))
    plain = {progress.NAME, "write_probe"}
    assert {row["name"] for row in rows} <= inventory.ENCRYPTED_SETTINGS | plain
