"""The master key protects what is stored, and a wrong key is recognized."""

import base64
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.errors import Invalid, TerracrewError
from terracrew.server.db import Database, Tx
from terracrew.server.secrets.keyring import FILE_NAME, Keyring, open_keyring, parse

OLD, NEW = b"o" * 32, b"n" * 32


@given(st.binary(max_size=200), st.text(max_size=20), st.integers(0, 400))
def test_what_was_encrypted_comes_back_and_a_changed_bit_does_not(plain: bytes, context: str, place: int) -> None:
    keyring = Keyring([OLD])
    sealed = keyring.encrypt(plain, context)
    assert keyring.decrypt(sealed, context) == plain
    changed = bytearray(sealed)
    changed[place % len(sealed)] ^= 1
    with pytest.raises(TerracrewError):
        keyring.decrypt(bytes(changed), context)


def test_a_ciphertext_is_good_only_where_it_was_made_for() -> None:
    keyring = Keyring([OLD])
    with pytest.raises(TerracrewError, match="belongs elsewhere"):
        keyring.decrypt(keyring.encrypt(b"x", "state:a"), "state:b")


def test_every_ciphertext_names_its_key_so_keys_can_be_replaced() -> None:
    before = Keyring([OLD]).encrypt(b"x", "c")
    both = Keyring([NEW, OLD])
    assert both.decrypt(before, "c") == b"x"
    after = both.encrypt(b"x", "c")
    assert Keyring([NEW]).decrypt(after, "c") == b"x"
    with pytest.raises(TerracrewError, match="which was not given"):
        Keyring([NEW]).decrypt(before, "c")


def test_a_keyring_shows_no_key() -> None:
    shown = repr(Keyring([OLD])) + str(vars(Keyring([OLD])))
    assert OLD.hex() not in shown
    assert "oooo" not in shown


@pytest.mark.parametrize("text", ["", "short", "!" * 44, base64.b64encode(b"x" * 31).decode(), "zz" * 32])
def test_what_is_no_key_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(Invalid) as error:
        Keyring(parse(text))
    assert not text or text not in str(error.value)


def test_a_key_may_be_base64_of_either_alphabet_or_hexadecimal() -> None:
    key = bytes(range(224, 256))
    assert parse(key.hex()) == parse(base64.b64encode(key).decode()) == [key]
    assert parse(base64.urlsafe_b64encode(key).decode().rstrip("=") + "\n\n") == [key]


async def test_a_wrong_or_missing_master_key_is_refused_at_start(database: Database, tmp_path: Path) -> None:
    key = base64.b64encode(OLD).decode()
    assert (await open_keyring(database, key)).encrypt(b"", "")
    assert (await open_keyring(database, key)).encrypt(b"", "")
    with pytest.raises(Invalid, match="not the master key of this database"):
        await open_keyring(database, base64.b64encode(NEW).decode())
    assert await open_keyring(database, f"{base64.b64encode(NEW).decode()}\n{key}")
    with pytest.raises(Invalid, match="master key"):
        await open_keyring(database, None, None, tmp_path)
    assert not (tmp_path / FILE_NAME).exists(), "a new key would not open an old database"


async def test_a_key_is_made_only_beside_an_embedded_database(database: Database, tmp_path: Path) -> None:
    if database.kind != "sqlite":
        with pytest.raises(Invalid, match="is missing"):
            await open_keyring(database, None, None, tmp_path)
        assert not (tmp_path / FILE_NAME).exists()
        return
    made = await open_keyring(database, None, None, tmp_path)
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    again = await open_keyring(database, None, None, tmp_path)
    assert again.decrypt(made.encrypt(b"x", "c"), "c") == b"x"
    (tmp_path / FILE_NAME).unlink()
    with pytest.raises(Invalid, match="cannot be read"):
        await open_keyring(database, None, None, tmp_path)


async def test_the_check_value_is_no_help_without_the_key(database: Database) -> None:
    await open_keyring(database, base64.b64encode(OLD).decode())

    async def read(tx: Tx) -> bytes:
        row = await tx.one("SELECT value FROM settings")
        assert row is not None
        return bytes(row["value"])

    assert b"terracrew" not in await database.read(read)
