"""`terracrew adopt` makes a module with its state, or none."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Terracrew
from tests.client.scripted_server import Asked, ScriptedServer

pytestmark = pytest.mark.feature("J15.imported")


@pytest.fixture
def folder(tmp_path: Path, server: ScriptedServer) -> Path:
    """A folder with a state, and a server that accepts all but the state."""
    folder = tmp_path / "estate"
    folder.mkdir()
    (folder / "main.tf").write_text("")
    (tmp_path / "state.json").write_text(json.dumps({"version": 4, "serial": 1, "lineage": "a"}))
    server.on("POST /api/v1/archives", {"id": "arc_1"})
    server.on("POST /api/v1/modules", {"path": "shop"}, 201)
    server.on("DELETE /api/v1/modules/shop?force=true", None, 204)
    return folder


def arguments(folder: Path, *options: str) -> list[str]:
    return [
        "adopt",
        str(folder),
        "--as",
        "shop",
        "--engine",
        "tofu",
        "--state",
        str(folder.parent / "state.json"),
        *options,
    ]


def test_a_file_that_cannot_be_read_is_refused_before_there_is_a_module(
    terracrew: Terracrew, server: ScriptedServer, folder: Path
) -> None:
    """The module stayed without its state, and an apply created everything again."""
    values = folder.parent / "prod.tfvars"
    values.write_bytes(b'name = "M\xfcller"')
    terracrew(*arguments(folder, "--var-file", str(values)))
    assert terracrew.code == 2
    assert "prod.tfvars cannot be read as a file with values of variables" in terracrew.err
    assert "POST /api/v1/modules" not in server.asked


def test_a_module_whose_adoption_is_interrupted_is_deleted(
    terracrew: Terracrew, server: ScriptedServer, folder: Path
) -> None:
    server.routes["POST /api/v1/modules/shop/states"] = interrupt
    terracrew(*arguments(folder))
    assert terracrew.code != 0
    assert server.asked[-1] == "DELETE /api/v1/modules/shop?force=true"


def test_a_module_that_cannot_be_deleted_again_is_named_beside_the_reason(
    terracrew: Terracrew, server: ScriptedServer, folder: Path
) -> None:
    """The error of the deletion replaced the one that told why the state was refused."""
    server.routes["POST /api/v1/modules/shop/states"] = lambda asked: asked.problem(400, "invalid", "not a state")
    server.routes["DELETE /api/v1/modules/shop?force=true"] = lambda asked: asked.problem(409, "conflict", "in use")
    terracrew(*arguments(folder))
    assert terracrew.code != 0
    assert "not a state" in terracrew.err
    assert "module shop exists without its state and could not be deleted (in use)" in terracrew.err


def interrupt(asked: Asked) -> None:
    """Do what Ctrl-C does, in the middle of a request."""
    os.kill(os.getpid(), signal.SIGINT)
    asked.handler.rfile.read(1)  # until the client has closed the connection
