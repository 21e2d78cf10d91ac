"""What each command asks the server, and how it shows the answer."""

import io
import json
import re
import tarfile
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from terracrew.api.access import CreatedToken
from terracrew.api.runners import Instance, Registered, Registration, RunnerView
from terracrew.cli.printing import output
from tests.cli.answers import answer
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("E1.commands")
THEN = "2024-01-02T03:04:05Z"
MODULE: dict[str, Any] = {
    "id": "mod_1",
    "path": "platform/vpc",
    "engine": "tofu",
    "description": "",
    "inputs": {"a": 1},
    "environment": {"K": "v"},
    "state_version": 3,
    "approval_seconds": 604_800,
    "source": {"kind": "archive", "archive_id": "arc_1", "sha256": "ab" * 32, "subdirectory": ""},
    "created_at": THEN,
}


def page(*items: Any) -> dict[str, Any]:
    return {"items": list(items), "next": None}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "vpc"
    (folder / ".terraform").mkdir(parents=True)
    (folder / "main.tf").write_text('output "x" { value = 1 }')
    (folder / ".terraform" / "cache").write_text("not yours")
    return folder


@pytest.mark.feature("E1.json")
def test_lists_are_aligned_in_a_pipe_and_json_for_programs(terracrew: Terracrew, server: ScriptedServer) -> None:
    job = {"id": "job_1", "number": 7, "type": "APPLY", "status": "FAILED", "at": THEN}
    applied = MODULE | {"path": "a", "newest_job": job, "is_in_doubt": True}
    server.on("GET /api/v1/modules?recursive=true", page(MODULE, applied))
    lines = terracrew("module", "list").splitlines()
    assert lines[0].split("  ")[0] == "PATH"
    assert lines[0].split() == ["PATH", "STATUS", "NEWEST", "JOB", "STATE", "ENGINE", "SOURCE"]
    assert re.match(r"platform/vpc +— +— +3 +tofu +uploaded archive abababababab", lines[1])
    assert re.match(r"a +FAILED, in doubt +APPLY #7, .* 3 +tofu +uploaded archive abababababab", lines[2])
    assert MODULE["inputs"] == json.loads(terracrew("module", "list", "--json"))[0]["inputs"]


def test_lists_are_limited_by_the_filters_of_their_pages(terracrew: Terracrew, server: ScriptedServer) -> None:
    filters = "search=net+eu&status=FAILED&engine=tofu&runner=platform%2Frunner&attention=true"
    server.on(f"GET /api/v1/modules?group=platform&recursive=true&{filters}", page())
    options = ["--search", "net eu", "--status", "failed", "--engine", "tofu", "--runner", "platform/runner"]
    assert terracrew("module", "list", "platform", *options, "--attention") == ""
    assert "no module matches" in terracrew.err
    server.on("GET /api/v1/runners?search=fast", page())
    assert terracrew("runner", "list", "--search", "fast") == ""
    assert "no runner matches" in terracrew.err


@pytest.mark.feature("E1.json")
def test_an_empty_list_is_a_sentence_for_people_and_nothing_in_a_pipe(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    server.on("GET /api/v1/groups", page())
    assert terracrew("group", "list") == ""
    assert "no groups yet" in terracrew.err
    assert json.loads(terracrew("group", "list", "--json")) == []


def test_a_name_cannot_move_the_cursor(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/groups", page({"path": "a\x1b[2J\nb", "description": "", "created_at": THEN}))
    assert "a�[2J�b" in terracrew("group", "list")


def test_a_module_is_made_from_a_folder(terracrew: Terracrew, server: ScriptedServer, folder: Path) -> None:
    server.on("POST /api/v1/archives", {"id": "arc_9"}, 201)
    server.on("POST /api/v1/modules", MODULE, 201)
    server.on("POST /api/v1/groups?parents=true", {"path": "platform"}, 201)
    options = ["--var", "count=3", "--var", "name=vpc", "--var", 'zones=["a"]', "--env", "REGION=eu=1", "-p"]
    terracrew("module", "create", "platform/vpc", "--from", str(folder), *options)
    assert terracrew.code == 0
    uploaded = next(asked for asked in server.asked if asked == "POST /api/v1/archives")
    assert uploaded.headers["Content-Type"] == "application/gzip"
    with tarfile.open(fileobj=io.BytesIO(uploaded.body)) as tar:
        assert tar.getnames() == ["main.tf"]
    body = server.asked[-1].json()
    assert body["source"] == {"kind": "archive", "archive_id": "arc_9", "subdirectory": "", "sha256": "", "size": 0}
    assert body["inputs"] == {"count": 3, "name": "vpc", "zones": ["a"]}
    assert body["environment"] == {"REGION": "eu=1"}
    assert "POST /api/v1/groups?parents=true" in server.asked


@pytest.mark.feature("X4.cloud")
def test_a_modules_audiences_are_given_replaced_and_removed(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("POST /api/v1/modules", MODULE, 201)
    clouds = ["--oidc-audience", "sts.amazonaws.com", "--oidc-audience", "api://azure"]
    terracrew("module", "create", "vpc", "--path", "/srv/x", *clouds)
    assert server.asked[-1].json()["oidc_audiences"] == ["sts.amazonaws.com", "api://azure"]
    server.on("GET /api/v1/modules/vpc", MODULE)
    server.on("PATCH /api/v1/modules/vpc", MODULE)
    terracrew("module", "update", "vpc", "--oidc-audience", "")
    assert server.asked[-1].json() == {"oidc_audiences": []}


@pytest.mark.feature("X4.identity")
def test_a_modules_cloud_identities_are_read_from_a_file_and_removed(
    terracrew: Terracrew, server: ScriptedServer, tmp_path: Path
) -> None:
    role = "arn:aws:iam::111122223333:role"
    cloud = {"aws": {"plan_role": f"{role}/plan", "apply_role": f"{role}/apply"}}
    (tmp_path / "cloud.json").write_text(json.dumps(cloud))
    server.on("GET /api/v1/modules/vpc", MODULE | {"cloud": cloud})
    server.on("PATCH /api/v1/modules/vpc", MODULE)
    terracrew("module", "update", "vpc", "--cloud", str(tmp_path / "cloud.json"), "--no-cloud", "vault")
    assert server.asked[-1].json() == {"cloud": cloud | {"vault": None}}
    assert f"plan as {role}/plan" in terracrew("module", "show", "vpc")


@pytest.mark.feature("D1.asked")
def test_a_module_asks_for_a_dispatcher_with_an_image_and_resources(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    dispatcher = {"name": "kubernetes", "image": "team/a:1", "memory_mb": 2048, "cpu": 1.5}
    server.on("GET /api/v1/modules/vpc", MODULE | {"dispatcher": dispatcher, "applying_dispatcher": dispatcher})
    server.on("PATCH /api/v1/modules/vpc", MODULE)
    options = ["--executor-image", "team/a:1", "--executor-memory", "2GB", "--executor-cpu", "1.5"]
    terracrew("module", "update", "vpc", "--dispatcher", "kubernetes", *options, "--executor-service-account", "none")
    assert server.asked[-1].json() == {"dispatcher": dispatcher | {"service_account": None}}
    shown = terracrew("module", "show", "vpc")
    assert "kubernetes, image team/a:1, 2,048 MB of memory, 1.5 processors" in shown
    applying = {"applying_dispatcher": {"name": "docker", "image": "team/a:1"}, "dispatcher_from": {"image": ""}}
    server.on("GET /api/v1/modules/vpc", MODULE | {"dispatcher": {"name": "docker"}} | applying)
    assert "docker, image team/a:1 (from the organization)" in terracrew("module", "show", "vpc")
    terracrew("module", "update", "vpc", "--no-inherit-dispatcher")
    assert server.asked[-1].json() == {"dispatcher": {"inherits": False}}


def test_a_module_needs_a_source(terracrew: Terracrew, server: ScriptedServer) -> None:
    terracrew("module", "create", "platform/vpc")
    assert terracrew.code == 2
    assert "hint: --from" in terracrew.err
    assert server.asked == []


def test_an_input_without_a_value_is_refused_and_not_quoted(terracrew: Terracrew, server: ScriptedServer) -> None:
    terracrew("module", "create", "platform/vpc", "--path", "/srv/x", "--var", "=s3cret")
    assert terracrew.code == 2
    assert "s3cret" not in terracrew.err


def test_an_update_changes_only_what_is_given(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/modules/platform%2Fvpc", MODULE)
    server.on("PATCH /api/v1/modules/platform%2Fvpc", MODULE)
    terracrew("module", "update", "platform/vpc", "--var", "b=2")
    assert server.asked[-1].json() == {"inputs": {"a": 1, "b": 2}}


def test_everything_that_a_module_was_made_with_can_be_changed_or_removed(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    """`module update` had no --runner, --instance and --engine, and no way to remove an input."""
    place = "/api/v1/modules/platform%2Fvpc"
    server.on(f"GET {place}", MODULE | {"inputs": {"a": 1, "b": 2}})
    server.on(f"PATCH {place}", MODULE)
    terracrew("module", "update", "platform/vpc", "--runner", "edge", "--instance", "one", "--engine", "tofu")
    assert server.asked[-1].json() == {"runner": "edge", "runner_instance_name": "one", "engine": "tofu"}
    terracrew("module", "update", "platform/vpc", "--runner", "", "--instance", "")
    assert server.asked[-1].json() == {"runner": None, "runner_instance_name": None}
    terracrew("module", "update", "platform/vpc", "--unset-var", "a", "--var", "c=3", "--unset-env", "K")
    assert server.asked[-1].json() == {"inputs": {"b": 2, "c": 3}, "environment": {}}
    terracrew("module", "update", "platform/vpc", "--unset-var", "zones")
    assert (terracrew.code, "platform/vpc has no input zones" in terracrew.err) == (2, True)
    assert "it has: a, b" in terracrew.err


def test_the_jobs_of_a_runner_are_shown_beside_what_it_can_have(terracrew: Terracrew, server: ScriptedServer) -> None:
    """A registered runner showed 0/100 while its only instance takes 4."""
    runner = answer(RunnerView, path="edge", status="ONLINE", jobs=0, max_jobs=100, capacity=4)
    server.on("GET /api/v1/runners", page(runner, runner | {"path": "gone", "capacity": 0, "status": "OFFLINE"}))
    lines = [line.split() for line in terracrew("runner", "list").splitlines()]
    assert (lines[1][4], lines[2][4]) == ("0/4", "0")


def test_the_limit_of_a_runner_that_has_never_connected_is_not_shown_as_what_it_can_have(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    """It said "100 jobs on each instance", whatever the settings of the machine would allow."""
    runner = answer(RunnerView, id="rnr_1", path="edge", status="OFFLINE", max_jobs=100)
    server.on("GET /api/v1/runners/edge", runner)
    server.on("GET /api/v1/runners/edge/assignments", page())
    shown = terracrew("runner", "show", "edge")
    assert "each instance runs at most 100 jobs, or fewer by its own settings" in shown


def test_a_state_is_printed_byte_by_byte(terracrew: Terracrew, server: ScriptedServer) -> None:
    state = b'{"version": 4,\n  "serial": 2}\n'
    server.then(lambda asked: asked.answer(200, state))
    assert terracrew("module", "state", "platform/vpc") == state.decode()


HOSTILE = b'{"a": "\x1b]0;owned\x07\x1b[2J\xc2\x9b2Jb"}\n'


@pytest.mark.parametrize("command", [("module", "state", "platform/vpc"), ("state", "show", "sta_1")])
def test_a_state_moves_no_cursor_on_a_terminal_and_is_unchanged_in_a_pipe(
    terracrew: Terracrew, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """A state that an engine had left cleared the operator's screen and set the title of the window."""
    for is_terminal, printed in ((False, HOSTILE.decode()), (True, '{"a": "b"}\n')):
        monkeypatch.setattr("sys.stdout.isatty", lambda is_terminal=is_terminal: is_terminal)
        server.then(lambda asked: asked.answer(200, HOSTILE))
        assert terracrew(*command) == printed


def test_the_problem_of_a_state_is_shown_without_control_characters(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    """What made a state unreadable is quoted from it, and was printed with its control sequences."""
    item = {
        "id": "sta_1",
        "version": None,
        "status": "quarantined",
        "serial": 1,
        "lineage": "a",
        "job_id": "job_1",
        "attempt": 1,
        "created_at": "2024-01-02T03:04:05Z",
        "problem": "this is not a state: \x1b[2J",
    }
    server.on("GET /api/v1/modules/a%2Fm/states", {"items": [item], "next": None})
    terracrew("state", "list", "a/m")
    assert "this is not a state: \ufffd[2J" in terracrew.err


def test_sensitive_outputs_are_named_and_not_shown(terracrew: Terracrew, server: ScriptedServer) -> None:
    plain = {"url": {"value": "http://x", "sensitive": False}, "ids": {"value": [1, 2], "sensitive": False}}
    outputs = plain | {"password": {"value": None, "sensitive": True}}
    server.on("GET /api/v1/modules/platform%2Fvpc/outputs", {"outputs": outputs})
    assert [line.split() for line in terracrew("module", "outputs", "platform/vpc").splitlines()[1:]] == [
        ["url", "http://x"],
        ["ids", "1,", "2"],
        ["password", "(sensitive)"],
    ]
    assert terracrew("module", "outputs", "platform/vpc", "url") == "http://x\n"
    terracrew("module", "outputs", "platform/vpc", "password")
    assert (terracrew.code, terracrew.out) == (2, "")
    shown = plain | {"password": {"value": "s3cret", "sensitive": True}}
    server.on("GET /api/v1/modules/platform%2Fvpc/outputs?sensitive=true", {"outputs": shown})
    assert terracrew("module", "outputs", "platform/vpc", "password", "--sensitive") == "s3cret\n"
    terracrew("module", "outputs", "platform/vpc", "nothing")
    assert terracrew.code == 4
    assert "it has: url, ids, password" in terracrew.err


@pytest.mark.feature("J12.stored")
def test_the_outputs_of_a_job_are_printed_with_their_checksum(terracrew: Terracrew, server: ScriptedServer) -> None:
    outputs = {"url": {"value": "http://x", "sensitive": False}, "password": {"value": None, "sensitive": True}}
    server.on("GET /api/v1/jobs/7/outputs", {"job_id": "job_1", "checksum": "ab" * 32, "outputs": outputs})
    assert [line.split() for line in terracrew("job", "outputs", "7").splitlines()[1:]] == [
        ["url", "http://x"],
        ["password", "(sensitive)"],
    ]
    assert f"checksum {'ab' * 32}, read by job_1" in terracrew.err
    assert terracrew("job", "outputs", "7", "url") == "http://x\n"
    server.on("GET /api/v1/jobs/8/outputs", {"job_id": "job_2", "checksum": None, "outputs": {}})
    terracrew("job", "outputs", "8")
    assert "job 8 has no outputs" in terracrew.err
    assert "checksum" not in terracrew.err


@pytest.mark.feature("O3.fenced")
def test_a_module_says_that_it_is_in_doubt_or_has_a_state_in_quarantine_and_why(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    """`module show` did not say that a module was in doubt."""
    doubt = {
        "number": 7,
        "attempt": 2,
        "runner_path": "platform/net",
        "instance_name": "net-a",
        "begun_at": "2024-01-02T03:04:05Z",
        "ended_at": "2024-01-02T03:34:05Z",
        "reason": "lost in the middle of a change",
    }
    state = {"id": "sta_1", "number": 7, "attempt": 2, "serial": 9, "created_at": "2024-01-02T03:04:05Z"}
    module = {
        "path": "platform/vpc",
        "id": "mod_1",
        "description": "",
        "engine": "tofu",
        "source": {"kind": "local", "path": "/s"},
        "inputs": {},
        "environment": {},
        "state_version": 3,
        "approval_seconds": 604_800,
        "created_at": "2024-01-02T03:04:05Z",
        "doubts": [doubt],
        "quarantined": [state],
        "lock": None,
    }
    server.on("GET /api/v1/modules/platform%2Fvpc", module)
    out = terracrew("module", "show", "platform/vpc")
    assert "attempt 2 of job #7 on platform/net · net-a" in out
    assert "lost in the middle of a change" in out
    assert "every plan waits for approval" in out
    assert "sta_1, serial 9, of attempt 2 of job #7" in out
    assert "terracrew state list platform/vpc --quarantined" in out
    server.on("GET /api/v1/modules/platform%2Fvpc", module | {"doubts": [], "quarantined": []})
    assert "in doubt" not in terracrew("module", "show", "platform/vpc")


def test_a_new_link_says_that_it_ends_an_earlier_one(terracrew: Terracrew, server: ScriptedServer) -> None:
    """`login --link` made the link of the first start invalid without a word."""
    server.on("POST /api/v1/me/link", {"link": "http://x/login/link/1", "replaces_earlier_link": True}, 201)
    assert terracrew("login", "--link") == "http://x/login/link/1\n"
    assert "no longer work" in terracrew.err


def test_a_token_is_printed_alone(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("POST /api/v1/tokens", answer(CreatedToken, name="ci", token="tcu_once"), 201)
    assert terracrew("token", "create", "ci", "--expires-in-days", "3") == "tcu_once\n"
    assert server.asked[-1].json() == {"name": "ci", "expires_in_days": 3}
    terracrew("token", "create", "ci")
    assert server.asked[-1].json() == {"name": "ci"}, "the server decides, and says when it ends"
    terracrew("token", "create", "ci", "--no-end")
    assert server.asked[-1].json() == {"name": "ci", "expires_in_days": None}
    assert "it never ends by itself" in terracrew.err
    terracrew("token", "create", "ci", "--no-end", "--expires-in-days", "3")
    assert (terracrew.code, "exclude each other" in terracrew.err) == (2, True)


@pytest.mark.feature("R3.users", "R5.paste")
def test_registering_a_runner_prints_what_can_be_pasted(terracrew: Terracrew, server: ScriptedServer) -> None:
    made = answer(
        Registered,
        path="a/fast",
        environment={"TERRACREW_API_URL": "http://x", "TOKEN": "a b"},
        command="terracrew runner start",
    )
    server.on("POST /api/v1/runners/register", made, 201)
    out = terracrew("runner", "register", "fast", "--group", "a", "--tag", "gpu")
    assert out == "export TERRACREW_API_URL=http://x\nexport TOKEN='a b'\nterracrew runner start\n"
    assert server.asked[-1].json() == msgspec.to_builtins(Registration(name="fast", group="a", tags=["gpu"]))


def test_assignments_are_made_and_taken_away(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("POST /api/v1/runners/a%2Ffast/assignments", page(), 201)
    server.on("DELETE /api/v1/runners/a%2Ffast/assignments", None, 204)
    assert terracrew("runner", "assign", "a/fast", "--group", "a/b") == "a/fast serves group a/b\n"
    assert server.asked[-1].json() == {"place": "a/b", "kind": "group"}
    assert terracrew("runner", "unassign", "a/fast", "--module", "a/m") == "a/fast no longer serves module a/m\n"
    terracrew("runner", "assign", "a/fast")
    assert terracrew.code == 2


def test_draining_and_back(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("POST /api/v1/runners/fast/drain", answer(RunnerView))
    terracrew("runner", "drain", "fast")
    terracrew("runner", "undrain", "fast")
    assert [asked.json() for asked in server.asked] == [{"on": True}, {"on": False}]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (3, "3s ago"),
        (59.9, "59s ago"),
        (61, "1m ago"),
        (7200, "2h ago"),
        (200000, "2d ago"),
        (-0.5, "0s ago"),
        (-300, "in 5m"),
    ],
)
def test_ages_are_told_in_one_unit(seconds: float, words: str) -> None:
    from datetime import UTC, timedelta

    now = datetime(2024, 1, 2, tzinfo=UTC)
    assert output.age(now - timedelta(seconds=seconds), now) == words


def test_a_duration_is_never_negative() -> None:
    """After a clock jump `job show` said "took -7159.6s"."""
    assert output.duration(datetime(2026, 1, 1, 12), datetime(2026, 1, 1, 10, 0, 40)) == "<0.1s"


def test_a_runner_whose_disk_is_full_is_listed_with_that_reason(terracrew: Terracrew, server: ScriptedServer) -> None:
    """It was listed as "DRAINING", as if somebody had asked for that."""
    instance = answer(Instance, name="one", status="DRAINING", is_connected=True, is_disk_full=True)
    runner = answer(RunnerView, path="crew", status="DRAINING", instances=[instance])
    server.on("GET /api/v1/runners", page(runner, runner | {"path": "other", "is_draining": True}))
    lines = terracrew("runner", "list").splitlines()
    assert "DRAINING (disk full)" in lines[1]
    assert "disk full" not in lines[2]


@pytest.mark.parametrize(
    ("now", "words"),
    [
        ("2024-01-02T03:14:00Z", "20m left"),
        ("2024-01-01T23:04:00Z", "30m left"),
        ("2024-01-02T04:00:00Z", "the time is up"),
    ],
)
def test_no_more_is_left_of_a_time_than_the_whole(now: str, words: str) -> None:
    """A lease of 30 minutes had `4h left` after the clock of a machine had been set."""
    start, end = map(datetime.fromisoformat, ("2024-01-02T03:04:00Z", "2024-01-02T03:34:00Z"))
    assert output.left(end, datetime.fromisoformat(now), since=start) == words
