"""What is kept is encrypted in pieces: nothing of it can be changed, moved, left out or cut off."""

import hashlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.errors import Invalid, TooLarge
from terracrew.executor.saved_plan import encrypt

KEY, MOST = bytes(range(32)), 1 << 30
WHOLE = encrypt.PIECE + 28


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
        [0, 1, encrypt.PIECE - 1, encrypt.PIECE, encrypt.PIECE + 1, 2 * encrypt.PIECE, 2 * encrypt.PIECE + 17]
    )
)
def test_what_is_sealed_is_read_again(size: int) -> None:
    plain = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    data = sealed(plain)
    assert read(data) == plain
    assert plain[:64] not in data or not plain


def test_only_who_has_the_key_and_knows_what_it_is_can_read_it() -> None:
    data = sealed(b"a plan")
    with pytest.raises(Invalid):
        read(data, context="job_1:2:plan")
    with pytest.raises(Invalid):
        read(data, key=bytes(32))


@pytest.mark.parametrize("attack", ["flip", "swap", "drop the first", "drop the last", "cut off"])
def test_what_was_tampered_with_is_refused(attack: str) -> None:
    data = sealed(b"x" * (3 * encrypt.PIECE))
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
        sealed(b"x" * (2 * encrypt.PIECE), most=encrypt.PIECE)
