"""What a credential helper prints is a token and nothing else; what is wrong with it is told without what it printed."""

import sys
from pathlib import Path

import pytest

from terracrew.errors import ProgramFailed
from terracrew.runner.config import HelperCommand
from terracrew.runner.connection import credential_helper


def helper(directory: Path, text: str, *arguments: str) -> HelperCommand:
    file = directory / "helper.py"
    file.write_text(text)
    return HelperCommand(sys.executable, ["-S", "-E", str(file), *arguments], 120.0)


@pytest.mark.feature("A4.command")
async def test_the_token_is_what_the_helper_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERRACREW_RUNNER__CREDENTIALS__CLIENT_SECRET", "tcs_secret")
    monkeypatch.setenv("AWS_PROFILE", "crew")
    text = """
import json, os, sys
seen = sorted(name for name in os.environ if name.startswith(("TERRACREW_", "AWS_PROFILE")))
print(json.dumps({"token": "-".join([*sys.argv[1:], *seen]), "expires_in": 300}))
"""
    assert await credential_helper.token(helper(tmp_path, text, "--aud", "crew")) == "--aud-crew-AWS_PROFILE"


@pytest.mark.feature("A4.errors")
@pytest.mark.parametrize(
    "printed",
    [
        "''",
        "'eyJhbGciOiJFUzI1NiJ9.e30.AAAA'",
        "'{\"token\": 5}'",
        '\'{"token": ""}\'',
        '\'{"secret": "hunter2-hunter2"}\'',
        "'[' * 9000",
        "'{\"token\": \"' + 'x' * 13000 + '\"}'",
        '\'{"token": "a\\\\nb"}\'',
        '\'{"token": "hunter2-hunter2"} and more\'',
        "b'\\xff\\xfe'",
    ],
)
async def test_a_helper_that_prints_garbage_is_told_what_to_print(tmp_path: Path, printed: str) -> None:
    text = f"import sys; it = {printed}; sys.stdout.buffer.write(it if isinstance(it, bytes) else it.encode())"
    with pytest.raises(ProgramFailed) as caught:
        await credential_helper.token(helper(tmp_path, text))
    assert 'must print one JSON object {"token": "…"} to its standard output' in caught.value.message
    assert "hunter2" not in caught.value.message
    assert "eyJ" not in caught.value.message
    assert caught.value.is_transient, "the runner tries again"


@pytest.mark.feature("A4.errors")
async def test_a_helper_that_fails_is_reported_with_its_standard_error(tmp_path: Path) -> None:
    with pytest.raises(ProgramFailed, match="ended with exit status 4: no role is attached"):
        await credential_helper.token(
            helper(tmp_path, "import sys; sys.stderr.write('no role is attached'); sys.exit(4)")
        )
