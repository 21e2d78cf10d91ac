"""Signatures are those of the program minisign, and a file, a comment or a key that was changed is refused."""

import base64
import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.errors import Invalid, TooLarge
from terracrew.releases import minisign
from terracrew.releases.minisign import PublicKey, SecretKey
from tests.machine.needs import need

KEY = SecretKey.generate()
CONTENT = b"a wheel\n" * 1000
COMMENT = minisign.release_comment("0.1.0-rc.1", "terracrew-0.1.0rc1-py3-none-any.whl")
SMALL_OPERATION_COUNT, SMALL_MEMORY_BYTES = 2**19, 2**24
"""What libsodium calls interactive, which takes milliseconds."""


@pytest.fixture
def program() -> str:
    found = shutil.which("minisign")
    need(None if found else "no minisign here: scripts/system-packages installs it")
    assert found is not None
    return found


def run(*arguments: object, password: str = "", is_refused: bool = False) -> str:
    """Run minisign and return what it printed."""
    done = subprocess.run([*map(str, arguments)], input=password + "\n", capture_output=True, text=True, timeout=60)
    assert (done.returncode != 0) is is_refused, done.stdout + done.stderr
    return done.stdout + done.stderr


def changed_line(text: str, number: int, change: str) -> str:
    lines = text.splitlines()
    lines[number] = change
    return "\n".join(lines) + "\n"


def test_a_signature_verifies_with_its_key_and_content() -> None:
    text = minisign.sign(KEY, CONTENT, COMMENT)
    assert minisign.verify(KEY.public_key, CONTENT, text) == COMMENT
    assert minisign.verify(KEY.public_key, (CONTENT[at : at + 7] for at in range(0, len(CONTENT), 7)), text) == COMMENT
    assert minisign.verify(KEY.public_key, CONTENT, text.replace("\n", "\r\n")) == COMMENT, "a file from Windows"
    untrusted = changed_line(text, 0, "untrusted comment: anything")
    assert minisign.verify(KEY.public_key, CONTENT, untrusted) == COMMENT


def test_a_public_key_is_read_as_line_and_as_file() -> None:
    key = KEY.public_key
    assert PublicKey.parse(str(key)) == PublicKey.parse(key.to_file()) == PublicKey.parse(f"  {key}\r\n") == key
    assert KEY.id_text == key.id_text in key.to_file()


def test_what_was_changed_is_refused() -> None:
    key, text = KEY.public_key, minisign.sign(KEY, CONTENT, COMMENT)
    with pytest.raises(Invalid, match="does not fit the content"):
        minisign.verify(key, CONTENT[:-1], text)
    with pytest.raises(Invalid, match="does not fit the content"):
        minisign.verify(key, b"", text)
    with pytest.raises(Invalid, match="trusted comment of the signature was changed"):
        minisign.verify(key, CONTENT, text.replace("rc.1 ", "rc.2 "))
    other = minisign.sign(KEY, b"older", COMMENT)
    mixed = changed_line(text, 1, other.splitlines()[1])
    with pytest.raises(Invalid, match="trusted comment of the signature was changed"):
        minisign.verify(key, b"older", mixed)


def test_another_key_is_refused_also_with_the_same_id() -> None:
    text = minisign.sign(KEY, CONTENT, COMMENT)
    other = SecretKey.generate().public_key
    with pytest.raises(Invalid, match=f"made with key {KEY.id_text}, not with key {other.id_text}"):
        minisign.verify(other, CONTENT, text)
    with pytest.raises(Invalid, match="not by this key"):
        minisign.verify(PublicKey(KEY.id, other.point), CONTENT, text)
    with pytest.raises(Invalid, match="not by this key"):
        minisign.verify(PublicKey(KEY.id, bytes([255]) * 32), CONTENT, text)


@pytest.mark.parametrize("lines", range(4))
def test_a_truncated_signature_is_refused(lines: int) -> None:
    text = minisign.sign(KEY, CONTENT, COMMENT)
    with pytest.raises(Invalid, match="it has four lines"):
        minisign.verify(KEY.public_key, CONTENT, "\n".join(text.splitlines()[:lines]))
    parts = text.splitlines()
    parts[lines] = parts[lines][: 10 if lines == 0 else len(parts[lines]) // 2]
    with pytest.raises(Invalid):
        minisign.verify(KEY.public_key, CONTENT, "\n".join(parts))


@pytest.mark.parametrize(
    ("number", "line", "words"),
    [
        (1, "é" * 100, "not Base64"),
        (1, "A" * 99 + "*", "not Base64"),
        (1, base64.b64encode(b"RS" + bytes(72)).decode(), "not Ed25519"),
        (1, base64.b64encode(bytes(73)).decode(), "73 bytes instead of 74"),
        (2, "trusted comment: \x1b[2J", "cannot be printed"),
        (3, "", "0 bytes instead of 64"),
    ],
)
def test_a_malformed_line_is_named(number: int, line: str, words: str) -> None:
    text = changed_line(minisign.sign(KEY, CONTENT, COMMENT), number, line)
    with pytest.raises(Invalid, match=words):
        minisign.verify(KEY.public_key, CONTENT, text)


@pytest.mark.parametrize(
    "text", ["", "RWQ", "untrusted comment: x\n", "a\nb\nc", "é", base64.b64encode(bytes(42)).decode()]
)
def test_what_is_not_a_key_is_refused(text: str) -> None:
    for parse in (PublicKey.parse, SecretKey.parse):
        with pytest.raises(Invalid):
            parse(text)


def test_huge_texts_are_refused_before_they_are_read() -> None:
    for parse in (PublicKey.parse, SecretKey.parse, minisign.Signature.parse):
        with pytest.raises(TooLarge, match="at most 16,384 characters"):
            parse("A" * 50_000_000)


def test_huge_content_is_read_in_pieces_and_not_kept(program: str, tmp_path: Path) -> None:
    """Only the hash of what is signed is needed. The older kind needs everything in memory, so that it has a limit."""
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while taken < 10 * minisign.MAX_UNHASHED_BYTES:
            taken += len(piece)
            yield piece

    piece = bytes(minisign.READ_BYTES)
    secret, _, signature = signed_by_program(program, tmp_path, "-l")
    with pytest.raises(TooLarge, match="more than 64 MiB"):
        minisign.verify(secret.public_key, endless(), signature)
    assert taken == minisign.MAX_UNHASHED_BYTES + len(piece)


def signed_by_program(program: str, folder: Path, *options: str) -> tuple[SecretKey, Path, str]:
    """Make a key and sign a file with the real minisign. The key has no password."""
    secret, public, file = folder / "its.key", folder / "its.pub", folder / "file.whl"
    file.write_bytes(CONTENT)
    run(program, "-G", "-W", "-s", secret, "-p", public)
    run(program, "-S", *options, "-s", secret, "-m", file, "-t", COMMENT)
    key = SecretKey.parse(secret.read_text())
    assert PublicKey.parse(public.read_text()) == key.public_key
    return key, file, file.with_name("file.whl.minisig").read_text()


@pytest.mark.parametrize(("option", "is_hashed"), [("-H", True), ("-l", False)])
def test_signatures_of_the_program_are_verified(program: str, tmp_path: Path, option: str, is_hashed: bool) -> None:
    key, file, text = signed_by_program(program, tmp_path, option)
    assert minisign.Signature.parse(text).is_hashed is is_hashed
    assert minisign.verify(key.public_key, file, text) == COMMENT
    with pytest.raises(Invalid, match="does not fit the content"):
        minisign.verify(key.public_key, CONTENT + b"x", text)


def test_the_program_verifies_our_signatures(program: str, tmp_path: Path) -> None:
    file, public = tmp_path / "file.whl", tmp_path / "ours.pub"
    file.write_bytes(CONTENT)
    public.write_text(KEY.public_key.to_file())
    signature = tmp_path / "file.whl.minisig"
    signature.write_text(minisign.sign(KEY, file, COMMENT))
    assert f"Trusted comment: {COMMENT}" in run(program, "-V", "-p", public, "-m", file)
    run(program, "-V", "-P", KEY.public_key, "-m", file)
    signature.write_text(signature.read_text().replace("rc.1 ", "rc.2 "))
    run(program, "-V", "-p", public, "-m", file, is_refused=True)


@pytest.mark.parametrize("password", ["", "correct horse é"])
def test_the_program_signs_with_our_keys(program: str, tmp_path: Path, password: str) -> None:
    secret, file = tmp_path / "ours.key", tmp_path / "file.whl"
    secret.write_text(KEY.to_file(password, operations=SMALL_OPERATION_COUNT, memory_bytes=SMALL_MEMORY_BYTES))
    file.write_bytes(CONTENT)
    run(program, "-S", "-s", secret, "-m", file, "-t", COMMENT, password=password)
    assert minisign.verify(KEY.public_key, file, (tmp_path / "file.whl.minisig").read_text()) == COMMENT


def test_a_secret_key_opens_with_its_password_only() -> None:
    text = KEY.to_file("right", operations=SMALL_OPERATION_COUNT, memory_bytes=SMALL_MEMORY_BYTES)
    assert SecretKey.parse(text, "right") == KEY
    assert (minisign.has_password(text), minisign.has_password(KEY.to_file())) == (True, False)
    for password in ("", "wrong"):
        with pytest.raises(Invalid, match="password of the secret key is wrong"):
            SecretKey.parse(text, password)
    assert KEY.seed.hex() not in repr(KEY)
    assert repr(KEY.seed) not in repr(KEY)


def test_a_secret_key_that_asks_for_all_memory_is_refused() -> None:
    content = bytearray(base64.b64decode(KEY.to_file("x", operations=1, memory_bytes=2**20).splitlines()[1]))
    content[46:54] = (2**50).to_bytes(8, "little")
    with pytest.raises(Invalid, match="more work or memory"):
        SecretKey.parse(base64.b64encode(content).decode(), "x")


def test_a_file_of_a_release_is_the_file_of_that_release_only() -> None:
    """An older wheel, whose signature is good, must not be installed under the name of a newer one."""
    name = "terracrew-0.1.0rc1-py3-none-any.whl"
    text = minisign.sign(KEY, CONTENT, minisign.release_comment("0.1.0-rc.1", name))
    minisign.verify_release_file(KEY.public_key, CONTENT, text, "0.1.0-rc.1", name)
    for version, filename in [("0.1.0-rc.2", name), ("0.1.0-rc.1", "terracrew-0.1.0rc2-py3-none-any.whl")]:
        with pytest.raises(Invalid, match=r"The signature is for 'terracrew 0\.1\.0-rc\.1"):
            minisign.verify_release_file(KEY.public_key, CONTENT, text, version, filename)


def test_the_signature_of_a_hash_is_not_taken_for_one_of_a_file_of_a_release() -> None:
    """Two letters, which nothing signs, say whether a signature covers a hash or a file. The hash is a file that nobody signed."""
    name = "terracrew-0.1.0rc1-py3-none-any.whl"
    text = minisign.sign(KEY, CONTENT, minisign.release_comment("0.1.0-rc.1", name))
    signed = base64.b64decode(text.splitlines()[1])
    relabelled = changed_line(text, 1, base64.b64encode(b"Ed" + signed[2:]).decode())
    with pytest.raises(Invalid, match="covers the whole file instead of its hash"):
        minisign.verify_release_file(KEY.public_key, hashlib.blake2b(CONTENT).digest(), relabelled, "0.1.0-rc.1", name)


@pytest.mark.parametrize(
    ("version", "name"), [("latest", "a"), ("1.0.0", "a b"), ("1.0.0", "../a"), ("1.0.0", "a\nb"), ("1.0.0", "")]
)
def test_comments_have_no_room_for_another_meaning(version: str, name: str) -> None:
    with pytest.raises(Invalid):
        minisign.release_comment(version, name)
    with pytest.raises(Invalid, match="one line"):
        minisign.sign(KEY, CONTENT, "two\nlines")
