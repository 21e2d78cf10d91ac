"""Published modules on the command line."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from terracrew.api.registry import (
    PublishedModuleDetails,
    PublishedModuleUse,
    PublishedVersionDetails,
    PublishedVersionView,
)
from tests.cli.answers import answer
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("P7.versions", "E1.commands")
HERE = "/api/v1/published-modules/shop%2Fvpc%2Faws"
VERSION = {
    "id": "pbv_1",
    "version": "1.2.0",
    "sha256": "5f" * 32,
    "size": 10,
    "tag": "",
    "commit_id": "",
    "moved_to": "",
    "is_withdrawn": True,
    "withdrawn_reason": "it is slow",
    "created_by_name": "ada",
}
VIEW = answer(
    PublishedModuleDetails,
    id="pub_1",
    group="shop",
    name="vpc",
    system="aws",
    path="shop/vpc/aws",
    address="shop/vpc/aws",
    readers="group",
    latest="1.1.0",
    url="",
    looked_at=None,
    problem="",
    refused_tags=[{"tag": "v9", "commit_id": "a", "reason": "it has no configuration"}],
    versions=[answer(PublishedVersionView, **VERSION)],
)
FOLDER = {
    "folder": "",
    "readme": "",
    "inputs": [{"name": "zone", "type": "string", "description": "Where", "default": None, "is_sensitive": False}],
    "outputs": [{"name": "id", "description": "Its id", "is_sensitive": False}],
    "providers": [{"name": "aws", "source": "hashicorp/aws", "version": "~> 5"}],
    "modules": [],
    "resources": [],
    "engine_version": "",
    "problems": ["broken.tf: line 1: a name is missing"],
}
DOCS = answer(
    PublishedVersionDetails,
    **VERSION,
    documentation={
        "main": FOLDER,
        "submodules": [{**FOLDER, "folder": "modules/subnet", "outputs": [], "engine_version": ">= 1.6"}],
        "examples": [{"name": "simple", "readme": "", "main": 'module "vpc" {}\x1b[31m\n# the end'}],
    },
)


def test_a_folder_is_published_withdrawn_and_given_back(
    terracrew: Terracrew, server: ScriptedServer, tmp_path: Path
) -> None:
    (tmp_path / "vpc").mkdir()
    (tmp_path / "vpc" / "main.tf").write_text("# ours\n")
    asked: list[tuple[str, str, bytes]] = []

    def reply(value: Any) -> Any:
        def respond(request: Any) -> Any:
            asked.append((request.method, request.path, request.body))
            return request.answer(200, value)

        return respond

    made = answer(PublishedVersionView, **VERSION)
    archive = {
        "id": "arc_1",
        "organization_id": "org_1",
        "sha256": "",
        "size": 1,
        "created_by": "",
        "created_at": "2026-11-01T03:00:00Z",
    }
    server.then(*(reply(each) for each in (VIEW, archive, made, made, made, VIEW)))
    out = terracrew("registry", "publish", str(tmp_path / "vpc"), "shop/vpc/aws", "1.2.0")
    assert "published shop/vpc/aws 1.2.0 (SHA-256 5f5f5f5f5f5f)" in out
    terracrew("registry", "withdraw", "shop/vpc/aws", "1.2.0", "--reason", "it is slow")
    terracrew("registry", "restore", "shop/vpc/aws", "1.2.0")
    terracrew("registry", "look", "shop/vpc/aws")
    assert [each[:2] for each in asked] == [
        ("GET", HERE),
        ("POST", "/api/v1/archives"),
        ("POST", f"{HERE}/versions"),
        ("PATCH", f"{HERE}/versions/1.2.0"),
        ("PATCH", f"{HERE}/versions/1.2.0"),
        ("POST", f"{HERE}/look"),
    ]
    with tarfile.open(fileobj=io.BytesIO(asked[1][2])) as packed:
        assert packed.getnames() == ["main.tf"]
    assert json.loads(asked[2][2]) == {"version": "1.2.0", "archive_id": "arc_1"}
    assert [json.loads(each[2])["is_withdrawn"] for each in asked[3:5]] == [True, False]


def test_it_is_shown_with_the_block_that_uses_it(terracrew: Terracrew, server: ScriptedServer) -> None:
    def respond(request: Any) -> Any:
        return request.answer(200, DOCS if "/versions/" in request.path else VIEW)

    server.then(*[respond] * 3)
    out = terracrew("registry", "show", "shop/vpc/aws")
    assert "withdrawn: it is slow" in out
    assert '/shop/vpc/aws"' in out
    assert 'version = "~> 1.1"' in out
    assert "it has no configuration" in out + terracrew.err
    out = terracrew("registry", "docs", "shop/vpc/aws")
    for words in ("zone", "required", "Where", "Its id", "hashicorp/aws"):
        assert words in out
    for words in ("submodule modules/subnet\n", ">= 1.6", 'example simple\nmodule "vpc" {}', "\n# the end\n"):
        assert words in out
    assert "\x1b" not in out
    assert "broken.tf" in out + terracrew.err


def test_a_pre_release_is_named_exactly_in_the_block_that_uses_it(terracrew: Terracrew, server: ScriptedServer) -> None:
    """`version = "~> 2.0.0-rc"` and `version = ">= 0.1.0"`, which no engine finds a version for."""
    versions = [answer(PublishedVersionView, **{**VERSION, "version": "2.0.0-rc.1", "is_withdrawn": False})]
    server.then(lambda request: request.answer(200, {**VIEW, "latest": "", "versions": versions}))
    assert 'version = "2.0.0-rc.1"' in terracrew("registry", "show", "shop/vpc/aws")


@pytest.mark.feature("P7.uses")
def test_who_uses_it_is_listed(terracrew: Terracrew, server: ScriptedServer) -> None:
    use = answer(PublishedModuleUse, module="shop/prod", version="1.2.0", is_withdrawn=True, job_id="job_1")
    server.on(f"GET {HERE}/uses?version=1.2.0", {"items": [use], "next": None})
    shown = terracrew("registry", "uses", "shop/vpc/aws", "--version", "1.2.0")
    assert shown.split("\n")[1].split()[:3] == ["shop/prod", "1.2.0", "(withdrawn)"]
    server.on(f"GET {HERE}/uses", {"items": [], "next": None})
    assert terracrew("registry", "uses", "shop/vpc/aws") == ""
    assert "has fetched a version" in terracrew.err
