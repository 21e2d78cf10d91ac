"""The helper for Kubernetes prints what the kubelet has put into the file of the token, and nothing that is not a token."""

from pathlib import Path

import pytest

from terracrew.credential_helpers.kubernetes import MAX_TOKEN_BYTES
from terracrew.errors import ProgramFailed
from terracrew.runner.connection import credential_helper
from tests.credential_helpers.programs import command

pytestmark = pytest.mark.feature("A4.kubernetes")
FIRST, SECOND = "eyJhbGciOiJSUzI1NiJ9.e30.Rmlyc3Q", "eyJhbGciOiJSUzI1NiJ9.e30.U2Vjb25k"


def project(volume: Path, version: str, token: str) -> None:
    """Replace the token as the kubelet does: a folder of its own, and a link that is renamed over the one before."""
    (volume / version).mkdir(parents=True)
    (volume / version / "token").write_text(token)
    (volume / "..data_tmp").symlink_to(version)
    (volume / "..data_tmp").rename(volume / "..data")


async def test_a_token_that_the_kubelet_has_replaced_is_read_again(tmp_path: Path) -> None:
    project(tmp_path, "..2026_1", FIRST)
    (tmp_path / "token").symlink_to("..data/token")
    helper = command("kubernetes", "--file", str(tmp_path / "token"))
    assert await credential_helper.token(helper) == FIRST
    project(tmp_path, "..2026_2", f"{SECOND}\n")
    assert await credential_helper.token(helper) == SECOND


async def test_the_longest_token_is_printed(tmp_path: Path) -> None:
    token = f"e.e.{'x' * (MAX_TOKEN_BYTES - 4)}"
    (tmp_path / "token").write_text(f"{token}\n")
    assert await credential_helper.token(command("kubernetes", "--file", str(tmp_path / "token"))) == token


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "has no token: project a serviceAccountToken"),
        (b" \n", "has no token: project a serviceAccountToken"),
        (b"hunter2", "has no token: project a serviceAccountToken"),
        (b"e.e." + b"x" * (MAX_TOKEN_BYTES - 3), "has no token: project a serviceAccountToken"),
        (b"\xff\xfe", "cannot be read: it is not a token"),
    ],
    ids=["empty", "blank", "something else", "huge", "binary"],
)
async def test_a_file_without_a_token_is_refused_and_not_repeated(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(ProgramFailed) as caught:
        await credential_helper.token(command("kubernetes", "--file", str(file)))
    assert f"ended with exit status 1: {file} {words}" in caught.value.message
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/nowhere/token", "/nowhere/token cannot be read: [Errno 2] No such file or directory"),
        ("/dev", "/dev cannot be read: [Errno 21] Is a directory"),
        ("/dev/zero", "/dev/zero has no token"),
    ],
)
async def test_a_path_that_is_not_a_file_of_a_token_is_named(path: str, words: str) -> None:
    with pytest.raises(ProgramFailed) as caught:
        await credential_helper.token(command("kubernetes", "--file", path))
    assert words in caught.value.message
