"""A module or a job gets a git repository as its source by options of the command line."""

from pathlib import Path

import pytest

from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("J5.git")
URL = "https://git.example.com/acme/network.git"
THEN = "2026-01-01T00:00:00Z"
SOURCE = {"kind": "git", "url": URL, "branch": "main", "tag": "", "commit": "", "version": "", "subdirectory": "vpc"}
SOURCE |= {"submodules": True}
MODULE = {
    "id": "mod_1",
    "path": "platform/vpc",
    "engine": "tofu",
    "source": SOURCE,
    "inputs": {},
    "environment": {},
    "description": "",
    "created_at": THEN,
    "approval_seconds": 604_800,
}
PLACE = "/api/v1/modules/platform%2Fvpc"


def test_a_module_is_made_from_a_repository(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("POST /api/v1/modules", MODULE, 201)
    options = ["--git", URL, "--git-tag", "v1.2.0", "--subdirectory", "vpc", "--tag", "gpu", "--no-submodules"]
    terracrew("module", "create", "platform/vpc", *options)
    assert terracrew.code == 0
    body = server.asked[-1].json()
    wanted = {"kind": "git", "url": URL, "tag": "v1.2.0", "subdirectory": "vpc", "submodules": False}
    assert (wanted.items() <= body["source"].items(), body["tags"]) == (True, ["gpu"])


@pytest.mark.feature("J5.registry")
def test_a_module_is_made_from_a_registry_and_its_version_changed_alone(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    server.on("POST /api/v1/modules", MODULE, 201)
    terracrew("module", "create", "platform/vpc", "--registry", "acme/network/aws", "--version", "~> 1.0")
    body = {"kind": "registry", "address": "acme/network/aws", "version": "~> 1.0", "subdirectory": ""}
    assert (terracrew.code, server.asked[-1].json()["source"]) == (0, body)
    server.on(f"GET {PLACE}", MODULE | {"source": body})
    server.on(f"PATCH {PLACE}", MODULE)
    terracrew("module", "update", "platform/vpc", "--version", "2.0.0")
    assert server.asked[-1].json() == {"source": body | {"version": "2.0.0"}}
    assert "acme/network/aws, version ~> 1.0" in terracrew("module", "show", "platform/vpc")
    terracrew("module", "update", "platform/vpc", "--branch", "main")
    assert (terracrew.code, "--branch is for a git repository" in terracrew.err) == (2, True)


def test_a_credential_and_the_host_keys_to_expect_are_given(
    terracrew: Terracrew, server: ScriptedServer, tmp_path: Path
) -> None:
    server.on("POST /api/v1/modules", MODULE, 201)
    (tmp_path / "hosts").write_text("git.example.com ssh-ed25519 AAAA\n")
    options = [
        "--git",
        "git@git.example.com:a/b",
        "--credential",
        "DEPLOY_KEY",
        "--known-hosts",
        str(tmp_path / "hosts"),
    ]
    terracrew("module", "create", "platform/vpc", *options)
    source = server.asked[-1].json()["source"]
    assert (source["credential"], source["known_hosts"]) == ("DEPLOY_KEY", "git.example.com ssh-ed25519 AAAA\n")


def test_an_update_can_change_the_revision_alone(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(f"GET {PLACE}", MODULE)
    server.on(f"PATCH {PLACE}", MODULE)
    terracrew("module", "update", "platform/vpc", "--version", "~> 1.2")
    changed = SOURCE | {"branch": "", "version": "~> 1.2"}
    assert changed.items() <= server.asked[-1].json()["source"].items()
    terracrew("module", "update", "platform/vpc", "--subdirectory", "subnet")
    assert (SOURCE | {"subdirectory": "subnet"}).items() <= server.asked[-1].json()["source"].items()


def test_a_job_can_run_another_revision_of_its_module(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(f"GET {PLACE}", MODULE)
    server.on(f"POST {PLACE}/jobs", {"id": "job_1", "number": 7, "status": "QUEUED"}, 201)
    terracrew("job", "run", "platform/vpc", "--commit", "a" * 40)
    assert terracrew.code == 0
    assert server.asked[-1].json()["source"]["commit"] == "a" * 40
    assert server.asked[-1].json()["source"]["url"] == URL


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--git", URL, "--branch", "a", "--git-tag", "b"], "--branch and --git-tag exclude each other"),
        (["--branch", "a"], "--branch is for a git repository: give its address with --git"),
        (["--no-submodules"], "--submodules is for a git repository"),
        (["--git", URL, "--path", "/srv/x"], "give only one of them"),
        (["--git", URL, "--registry", "a/b/c"], "--git and --registry exclude each other"),
        (["--registry", "a/b/c", "--commit", "a"], "--commit is for a git repository"),
        (["--version", "1"], "or that of a module of a registry with --registry"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    terracrew: Terracrew, server: ScriptedServer, options: list[str], words: str
) -> None:
    terracrew("module", "create", "platform/vpc", *options)
    assert (terracrew.code, words in terracrew.err) == (2, True), terracrew.err
    assert server.asked == []


def test_a_module_and_a_job_show_the_repository_and_the_commit(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(f"GET {PLACE}", MODULE)
    assert f"{URL}//vpc, branch main" in terracrew("module", "show", "platform/vpc")
    job = {"id": "job_1", "number": 7, "status": "SUCCEEDED", "type": "PLAN", "module_path": "platform/vpc"}
    job |= {"engine": "tofu", "created_at": THEN, "source_description": f"git {URL}, tag v1, commit {'a' * 12}"}
    job |= {"source_commit": "a" * 40, "source_revision": "tag v1", "source_moved_from": "b" * 40}
    server.on("GET /api/v1/jobs/7", job)
    shown = terracrew("job", "show", "7")
    assert "a" * 40 in shown
    assert f"the tag v1 has moved since an earlier job, where it was {'b' * 40}" in shown
