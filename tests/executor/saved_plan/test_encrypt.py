"""What is kept is encrypted in pieces: nothing of it can be changed, moved, left out or cut off."""

import hashlib
import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.errors import Invalid, TooLarge
from terracrew.executor.saved_plan import encrypt

KEY, MOST = bytes(range(32)), 1 << 30
WHOLE = encrypt.PIECE_BYTES + 28


def sealed(plain: bytes, context: str = "job_1:1:plan", most: int = MOST) -> bytes:
    file = io.BytesIO()
    sealing = encrypt.Sealing(file, KEY, context, most=most)
    for start in range(0, len(plain), 100_000):
        sealing.write(plain[start : start + 100_000])
    sealing.finish()
    assert (sealing.sha256, sealing.size) == (hashlib.sha256(file.getvalue()).hexdigest(), len(file.getvalue()))
    return file.getvalue()


def read(data: bytes, context: str = "job_1:1:plan", key: bytes = KEY) -> bytes:
    return encrypt.opened(io.BytesIO(data), key, context).read()


@given(
    st.sampled_from(
        [
            0,
            1,
            encrypt.PIECE_BYTES - 1,
            encrypt.PIECE_BYTES,
            encrypt.PIECE_BYTES + 1,
            2 * encrypt.PIECE_BYTES,
            2 * encrypt.PIECE_BYTES + 17,
        ]
    )
)
def test_what_is_sealed_is_read_again(size: int) -> None:
    plain = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    data = sealed(plain)
    assert read(data) == plain
    assert size < 16 or plain[:64] not in data, "a few bytes can be there by chance"


def test_only_who_has_the_key_and_knows_what_it_is_can_read_it() -> None:
    data = sealed(b"a plan")
    with pytest.raises(Invalid):
        read(data, context="job_1:2:plan")
    with pytest.raises(Invalid):
        read(data, key=bytes(32))


@pytest.mark.parametrize("attack", ["flip", "swap", "drop the first", "drop the last", "cut off"])
def test_what_was_tampered_with_is_refused(attack: str) -> None:
    data = sealed(b"x" * (3 * encrypt.PIECE_BYTES))
    first, second, last = data[:WHOLE], data[WHOLE : 2 * WHOLE], data[2 * WHOLE :]
    harmed = {
        "flip": data[:500] + bytes([data[500] ^ 1]) + data[501:],
        "swap": second + first + last,
        "drop the first": second + last,
        "drop the last": first + second,
        "cut off": data[:-1],
    }[attack]
    with pytest.raises(Invalid):
        read(harmed)


def test_there_is_an_end_to_what_is_kept() -> None:
    with pytest.raises(TooLarge, match="larger than 1 MiB"):
        sealed(b"x" * (2 * encrypt.PIECE_BYTES), most=encrypt.PIECE_BYTES)


VECTORS = [
    (b"", "000000000000000000000000c5beb36584d69691f8eef1c4e677a9fb"),
    (b"a plan", "0000000000000000000000006f9cc5b2d442ac50ca59e2e8a5fcad81c16f2675db8c"),
]
"""Made with AES-256-GCM alone: key 00 01 … 1f, context `job_1:1:plan`, the nonce of piece n is n as 12 bytes."""
TWO_PIECES_SHA256 = "fa036d29c2ad8bddbb31c6a346c2e8c3c61a30153905fd32f06f66069e7af435"
"""The hash of the vector for 1 MiB and 5 bytes of `x`, which are two pieces."""


@pytest.mark.parametrize(("plain", "vector"), VECTORS)
def test_the_format_is_the_one_of_the_test_vectors(plain: bytes, vector: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(bytes.fromhex(vector)) == plain
    _count_nonces(monkeypatch)
    assert sealed(plain).hex() == vector


def test_the_format_of_several_pieces_is_the_one_of_the_test_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    _count_nonces(monkeypatch)
    assert hashlib.sha256(sealed(b"x" * ((1 << 20) + 5))).hexdigest() == TWO_PIECES_SHA256


def test_what_was_cut_off_at_its_very_beginning_is_refused() -> None:
    """An empty file was read as an empty text."""
    with pytest.raises(Invalid):
        read(b"")


def _count_nonces(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()
    monkeypatch.setattr(encrypt.os, "urandom", lambda size: next(numbers).to_bytes(size, "big"))
