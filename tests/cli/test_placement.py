"""Where and in which order jobs run, on the command line: pins, tags, priorities and limits of running jobs."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Terracrew
from tests.cli.job_views import JOB, view
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("E1.commands")
VPC = "/api/v1/modules/vpc"
THEN = "2024-01-02T03:04:05Z"
MODULE: dict[str, Any] = {
    "id": "mod_1",
    "path": "platform/vpc",
    "engine": "tofu",
    "description": "",
    "inputs": {},
    "environment": {},
    "source": {"kind": "local", "path": "/srv/x"},
    "created_at": THEN,
    "approval_seconds": 604_800,
    "backend": "terracrew",
}
PLACEMENT: dict[str, Any] = {
    "runner_path": "edge",
    "runner_instance_name": "one",
    "tags": ["gpu", "zone:eu"],
    "limits": [{"group": "platform", "max_running_jobs": 5}, {"group": "", "max_running_jobs": 20}],
}


@pytest.mark.feature("S4.instance")
@pytest.mark.parametrize(
    ("options", "sent"),
    [
        (["--runner", "edge"], {"runner": "edge"}),
        (["--no-runner"], {"runner": None}),
        (["--instance", "one"], {"runner_instance_name": "one"}),
        (["--no-instance"], {"runner_instance_name": None}),
        (["--tag", "gpu", "--tag", "zone:eu"], {"tags": ["gpu", "zone:eu"]}),
        (["--no-tags"], {"tags": []}),
        (["--priority", "-3"], {"priority": -3}),
        (["--priority", "0"], {"priority": 0}),
        (["--engine", "terraform"], {"engine": "terraform"}),
        (["--engine-version", "~> 1.12"], {"engine_version": "~> 1.12"}),
        (["--engine-version", ""], {"engine_version": ""}),
        (["--own-backend", "--yes"], {"backend": "own"}),
        (["--no-own-backend", "--yes"], {"backend": "terracrew"}),
        (["--no-runner", "--instance", "two"], {"runner": None, "runner_instance_name": "two"}),
    ],
)
def test_an_update_changes_where_the_jobs_of_a_module_run(
    terracrew: Terracrew, server: ScriptedServer, options: list[str], sent: dict[str, Any]
) -> None:
    server.on(f"GET {VPC}", MODULE)
    server.on(f"PATCH {VPC}", MODULE)
    terracrew("module", "update", "vpc", *options)
    assert terracrew.code == 0, terracrew.err
    assert server.asked[-1].json() == sent


def test_a_state_is_imported_with_the_backend_before_anything_else_changes(
    terracrew: Terracrew, server: ScriptedServer, tmp_path: Path
) -> None:
    """The backend changed first, and a job that began before the import had an empty state."""
    state = tmp_path / "state.json"
    state.write_text("{}")
    server.on(f"GET {VPC}", MODULE)
    server.on(f"PATCH {VPC}", MODULE)
    server.on(f"POST {VPC}/states?change_backend=true", {"serial": 3, "version": 1}, 201)
    terracrew("module", "update", "vpc", "--no-own-backend", "--state", str(state))
    assert terracrew.code == 0, terracrew.err
    assert server.asked[-2:] == [f"POST {VPC}/states?change_backend=true", f"PATCH {VPC}"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--runner", "edge", "--no-runner"], "exclude each other"),
        (["--tag", "gpu", "--no-tags"], "exclude each other"),
        (["--priority", "101"], "101"),
        (["--priority", "high"], "high"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_before_anything_is_asked(
    terracrew: Terracrew, server: ScriptedServer, options: list[str], words: str
) -> None:
    terracrew("module", "update", "vpc", *options)
    assert (terracrew.code, words in terracrew.err) == (2, True), terracrew.err
    assert server.asked == []


@pytest.mark.feature("S4.instance")
def test_a_module_is_created_with_pins_tags_and_a_priority(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("POST /api/v1/modules", MODULE, 201)
    options = ["--instance", "one", "--tag", "gpu", "--priority", "5"]
    terracrew("module", "create", "platform/vpc", "--path", "/srv/x", *options)
    sent = server.asked[-1].json()
    assert (sent["runner_instance_name"], sent["tags"], sent["priority"]) == ("one", ["gpu"], 5)
    assert "runner" not in sent


def test_a_module_and_a_job_show_where_their_jobs_run(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(f"GET {VPC}", MODULE | {"placement": PLACEMENT, "priority": 7})
    shown = terracrew("module", "show", "vpc")
    for words in ("the runner edge, the instance one only", "gpu, zone:eu", "5 in platform, 20 in the organization"):
        assert words in shown
    assert "priority of its jobs  7" in shown
    server.on("GET /api/v1/jobs/7", view("QUEUED", placement=PLACEMENT, priority=7))
    shown = terracrew("job", "show", "7")
    assert "the runner edge, the instance one only" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    ("options", "sent"),
    [(["--max-running-jobs", "5"], {"max_running_jobs": 5}), (["--no-max-running-jobs"], {"max_running_jobs": None})],
)
def test_a_group_and_the_organization_get_a_limit_of_running_jobs(
    terracrew: Terracrew, server: ScriptedServer, options: list[str], sent: dict[str, Any]
) -> None:
    group = {"path": "a", "id": "grp_1", "description": "", "created_at": THEN, "max_running_jobs": 5}
    server.on("PATCH /api/v1/groups/a", group)
    server.on("PATCH /api/v1/groups/%2F", group | {"path": ""})
    server.on("GET /api/v1/groups/a", group)
    assert terracrew("group", "update", "a", *options) == "updated group a: max_running_jobs\n"
    assert server.asked[-1].json() == sent
    assert terracrew("group", "update", "/", *options) == "updated the organization: max_running_jobs\n"
    assert server.asked[-1].json() == sent
    assert "jobs at once  5" in terracrew("group", "show", "a")
    terracrew("group", "update", "a", "--max-running-jobs", "0")
    assert (terracrew.code, "0 is not in the range" in terracrew.err) == (2, True)


@pytest.mark.feature("J10.priority")
def test_the_priority_of_a_job_that_waits_is_changed(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("PATCH /api/v1/jobs/7", JOB | {"priority": 9})
    assert terracrew("job", "update", "7", "--priority", "9") == "job 7 has the priority 9\n"
    assert server.asked[-1].json() == {"priority": 9}
    assert '"priority": 9' in terracrew("job", "update", "7", "--priority", "9", "--json")
    terracrew("job", "update", "7")
    assert (terracrew.code, "--priority" in terracrew.err) == (2, True)
