"""The documents of the issuer are written as files that clouds can read at another address."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

ISSUER = "https://keys.example.com/crew"
VIEW: dict[str, Any] = {
    "issuer": ISSUER,
    "is_separate": True,
    "configuration": {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/.well-known/jwks.json"},
    "jwks": {"keys": [{"kid": "key_1"}, {"kid": "key_2"}]},
    "signing_key": "key_1",
    "next_key": "key_2",
    "next_signs_from": "2026-12-18T08:00:00Z",
    "export_by": "2027-01-17T08:00:00Z",
    "problem": "the issuer does not have the next key",
    "looked_at": "2026-11-18T08:00:00Z",
}
pytestmark = pytest.mark.feature("W1.issuer")


def test_both_files_are_written_with_the_days_between_which_to_export_again(
    terracrew: Terracrew, server: ScriptedServer, tmp_path: Path
) -> None:
    server.then(lambda asked: asked.answer(200, VIEW), lambda asked: asked.answer(200, VIEW))
    folder = tmp_path / "a" / "issuer"
    for _ in range(2):  # again, over the files that are there
        terracrew("server", "issuer", "export", str(folder))
        assert terracrew.code == 0
    written = {
        str(path.relative_to(folder)): json.loads(path.read_text()) for path in folder.rglob("*") if path.is_file()
    }
    assert written == {
        ".well-known/openid-configuration": VIEW["configuration"],
        ".well-known/jwks.json": VIEW["jwks"],
    }
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {0o644}
    assert f"{ISSUER}/.well-known/openid-configuration" in terracrew.err
    assert "enough until 2027-01-17" in terracrew.err
    assert "From 2026-12-18 on" in terracrew.err


def test_files_of_an_issuer_that_is_the_server_itself_are_refused(
    terracrew: Terracrew, server: ScriptedServer, tmp_path: Path
) -> None:
    server.then(lambda asked: asked.answer(200, VIEW | {"is_separate": False}))
    terracrew("server", "issuer", "export", str(tmp_path / "issuer"))
    assert terracrew.code != 0
    assert "set `issuer_url`" in terracrew.err
    assert not (tmp_path / "issuer").exists()


def test_what_is_wrong_with_the_files_is_shown(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.then(lambda asked: asked.answer(200, VIEW))
    assert ISSUER in terracrew("server", "issuer", "show")
    assert "does not have the next key" in terracrew.err
