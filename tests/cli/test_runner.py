"""The commands that manage runners: what they ask, what they show while they wait, and what they say first."""

import json
from typing import Any

import msgspec
import pytest

from terracrew.api.access import ServiceAccount
from terracrew.api.deployments import DeployedRunner, DeploymentSettings, NewCloudRunner
from terracrew.api.runners import Dependents, Instance, Registered, Remaining, RemainingJob, RunnerView
from terracrew.cli.commands.runner import drain
from tests.cli.answers import THEN, answer
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import Asked, ScriptedServer

pytestmark = pytest.mark.feature("E1.commands")
R = "/api/v1/runners/a%2Fr"
RUNNER = answer(
    RunnerView,
    id="rnr_1",
    path="a/r",
    group="a",
    type="self-hosted",
    status="ONLINE",
    version="0.1.0",
    jobs=2,
    capacity=4,
    max_jobs=4,
    tags=["gpu"],
    is_disabled=False,
    is_draining=False,
    removing_since=None,
    has_worker_token=False,
    service_account_id="sac_1",
    created_at=THEN,
    instances=[
        answer(Instance, name="one", is_connected=True, status="ONLINE", capacity=9, jobs=2),
        answer(Instance, name="two", capacity=9),
    ],
)
NOTHING = answer(Remaining, id="rnr_1", path="a/r", is_draining=True, is_drained=True)
BUSY = NOTHING | {
    "is_drained": False,
    "job_count": 2,
    "jobs": [answer(RemainingJob, number=17), answer(RemainingJob, number=18)],
}
ALONE = answer(Dependents, module_count=2, modules=["a/m", "a/n"], waiting_plans=1)
NOBODY = answer(Dependents)
REGISTERED = answer(
    Registered,
    path="a/r",
    environment={"TERRACREW_API_URL": "http://x", "TOKEN": "s3cret"},
    command="terracrew runner start",
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "POLL_SECONDS", 0.01)


def answers(server: ScriptedServer, request: str, *bodies: Any) -> None:
    """Let the server answer a request with one body after the other; the last one stays."""
    left = list(bodies)
    server.routes[request] = lambda asked: asked.answer(200, left.pop(0) if len(left) > 1 else left[0])


@pytest.mark.feature("E1.json", "E1.progress", "R7.drain")
def test_a_drain_is_waited_for_and_shows_what_is_left(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(f"POST {R}/drain", RUNNER)
    answers(server, "GET /api/v1/runners/rnr_1/remaining", BUSY, BUSY, BUSY | {"job_count": 1}, NOTHING)
    assert terracrew("runner", "drain", "a/r", "--wait") == "a/r is drained: it has no jobs\n"
    assert terracrew.err.splitlines()[0] == "draining a/r: 2 jobs (#17, #18) left"
    assert terracrew.err.count("draining a/r: 2 jobs") == 1, "the same line is not printed again"
    assert json.loads(terracrew("runner", "drain", "a/r", "--wait", "--json"))["is_drained"] is True


def test_a_drain_that_takes_too_long_ends_with_its_own_exit_code(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(f"POST {R}/drain", RUNNER)
    server.on("GET /api/v1/runners/rnr_1/remaining", BUSY)
    terracrew("runner", "drain", "a/r", "--timeout", "1s")
    assert terracrew.code == 13
    assert "the drain of a/r has not ended within 1 s; it continues" in terracrew.err
    terracrew("runner", "drain", "a/r", "--timeout", "soon")
    assert terracrew.code == 2


def test_a_wait_ends_when_somebody_ends_the_drain(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(f"POST {R}/drain", RUNNER)
    server.on("GET /api/v1/runners/rnr_1/remaining", BUSY | {"is_draining": False})
    terracrew("runner", "drain", "a/r", "--wait")
    assert (terracrew.code, "somebody has ended the drain" in terracrew.err) == (5, True)


@pytest.mark.feature("R7.remove")
def test_a_removal_says_what_it_does_first_and_then_waits(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(f"GET {R}/remaining", BUSY)
    server.on(f"GET {R}/dependents", ALONE)
    removing = BUSY | {"removing_since": THEN}
    server.on(f"DELETE {R}", {"path": "a/r", "is_removed": False, "remaining": removing})

    def once(asked: Asked) -> None:
        """Answer, and know nothing of the runner from then on."""
        del server.routes["GET /api/v1/runners/rnr_1/remaining"]
        asked.answer(200, removing)

    server.routes["GET /api/v1/runners/rnr_1/remaining"] = once
    assert terracrew("runner", "remove", "a/r", stdin="y\n") == "removed a/r\n"
    words = " ".join(terracrew.err.split())
    assert "Remove the runner a/r? It finishes 2 jobs (#17, #18) first and takes no new ones." in words
    assert "2 modules (a/m, a/n) have no other runner: new jobs wait there." in words
    assert "1 job waits with a plan of this runner and must plan again elsewhere." in words
    assert "removing a/r: 2 jobs (#17, #18) left" in words


def test_a_removal_that_nobody_confirms_does_not_happen(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(f"GET {R}/remaining", NOTHING)
    server.on(f"GET {R}/dependents", NOBODY)
    for typed, code in (("n\n", 1), ("", 130)):
        terracrew("runner", "remove", "a/r", stdin=typed)
        assert (terracrew.code, "Not removed." in terracrew.err) == (code, True)
    assert not any(asked.method == "DELETE" for asked in server.asked)


@pytest.mark.feature("E1.json", "R7.force")
def test_a_forced_removal_says_what_happens_to_running_jobs(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(f"GET {R}/remaining", BUSY)
    server.on(f"GET {R}/dependents", NOBODY | {"pinned_count": 3, "pinned": ["a/m"]})
    server.on(f"DELETE {R}?force=true", {"path": "a/r", "is_removed": True, "remaining": None})
    terracrew("runner", "remove", "a/r", "--force", stdin="y\n")
    words = " ".join(terracrew.err.split())
    assert "Remove the runner a/r at once? It loses its right to 2 jobs (#17, #18) now" in words
    assert "the module of any other job is in doubt until somebody has looked" in words
    assert "3 modules (a/m, …) may use only this runner." in words
    assert json.loads(terracrew("runner", "remove", "a/r", "--force", "--yes", "--json"))["is_removed"] is True


def test_a_removal_need_not_be_waited_for(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(f"DELETE {R}", {"path": "a/r", "is_removed": False, "remaining": BUSY})
    out = terracrew("runner", "remove", "a/r", "--yes", "--no-wait")
    assert out == "removing a/r: 2 jobs (#17, #18) left\n"
    assert "`terracrew runner undrain a/r` stops the removal" in terracrew.err


@pytest.mark.feature("E1.json", "R5.paste", "R5.replace")
def test_a_runner_is_registered_again_after_a_question(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(f"GET {R}", RUNNER)
    server.on(f"POST {R}/reregister", REGISTERED)
    out = terracrew("runner", "reregister", "a/r", stdin="y\n")
    assert out == "export TERRACREW_API_URL=http://x\nexport TOKEN=s3cret\nterracrew runner start\n"
    words = " ".join(terracrew.err.split())
    assert "Give a/r a new token? The old one ends. Its connected instance loses its connection within seconds" in words
    assert "Running jobs continue." in words
    assert "a/r has a new token. The old one has ended" in words
    assert "Stop its processes and start each of them again with this; the token is shown only once:" in words
    assert "registered" not in words
    terracrew("runner", "reregister", "a/r", stdin="n\n")
    assert (terracrew.code, "The token stays as it is." in terracrew.err) == (1, True)
    assert REGISTERED.items() <= json.loads(terracrew("runner", "reregister", "a/r", "--yes", "--json")).items()


@pytest.mark.parametrize(
    ("arguments", "body", "words"),
    [
        (["disable", "a/r"], {"is_disabled": True}, "disabled a/r: it gets no new jobs; it finishes its 2 jobs"),
        (["enable", "a/r"], {"is_disabled": False}, "enabled a/r"),
        (["assign", "a/r", "--all"], {"is_assigned_to_all_modules": True}, "a/r serves all modules of its group"),
        (["unassign", "a/r", "--all"], {"is_assigned_to_all_modules": False}, "a/r no longer serves all modules"),
        (["update", "a/r", "--max-jobs", "3", "--not-all-modules"], None, "updated runner a/r"),
    ],
)
@pytest.mark.feature("E1.json", "R7.update")
def test_a_runner_is_changed(
    terracrew: Terracrew, server: ScriptedServer, arguments: list[str], body: Any, words: str
) -> None:
    server.on(f"PATCH {R}", RUNNER)
    assert words in terracrew("runner", *arguments)
    assert server.asked[-1].json() == (body or {"max_jobs": 3, "is_assigned_to_all_modules": False})
    assert json.loads(terracrew("runner", *arguments, "--json"))["path"] == RUNNER["path"]


def test_exactly_one_place_is_assigned(terracrew: Terracrew, server: ScriptedServer) -> None:
    for options in ([], ["--all", "--group", "a"], ["--module", "a/m", "--group", "a"]):
        terracrew("runner", "assign", "a/r", *options)
        assert (terracrew.code, "give one of --group, --module and --all" in terracrew.err) == (2, True)
    assert server.asked == []


@pytest.mark.feature("R6.place")
def test_a_service_account_is_assigned_and_unassigned_by_names(terracrew: Terracrew, server: ScriptedServer) -> None:
    accounts = [
        answer(ServiceAccount, id="sac_1", name="ci", group="a"),
        answer(ServiceAccount, id="sac_2", name="other"),
    ]
    server.on("GET /api/v1/service-accounts", {"items": accounts, "next": None})
    server.on("GET /api/v1/service-accounts?group=a", {"items": accounts[:1], "next": None})
    server.on(f"PATCH {R}", RUNNER)
    server.on(f"GET {R}", RUNNER)
    assert terracrew("service-account", "assign", "a/ci", "a/r") == "a/r authenticates with a/ci\n"
    assert server.asked[-1].json() == {"service_account": "sac_1"}
    assert "GET /api/v1/service-accounts" not in server.asked, "an owner of the group may not list all accounts"
    terracrew("service-account", "unassign", "ci", "a/r", stdin="y\n")
    assert server.asked[-1].json() == {"service_account": None}
    assert "It has no token of its own, so none of its processes can connect." in " ".join(terracrew.err.split())
    terracrew("service-account", "unassign", "other", "a/r", "--yes")
    assert (terracrew.code, "a/r does not authenticate with other" in terracrew.err) == (5, True)


@pytest.mark.feature("R1.created", "R1.fields")
def test_the_limit_of_jobs_is_shown_for_each_instance(terracrew: Terracrew, server: ScriptedServer) -> None:
    """`max_jobs` was enforced for each instance and shown as the total of the runner."""
    removing = RUNNER | {"path": "b", "status": "DRAINING", "is_disabled": True, "removing_since": THEN}
    server.on("GET /api/v1/runners", {"items": [RUNNER, removing], "next": None})
    lines = terracrew("runner", "list").splitlines()
    assert lines[0].split() == ["PATH", "TYPE", "STATUS", "VERSION", "JOBS", "CREATED"]
    assert lines[1].split()[-4:-2] == ["0.1.0", "2/4"]
    assert "DRAINING (removing, disabled)" in lines[2]
    server.on(f"GET {R}", RUNNER | {"status": "OFFLINE", "is_draining": True})
    server.on(f"GET {R}/assignments", {"items": [], "next": None})
    assert "OFFLINE (draining)" in terracrew("runner", "show", "a/r"), "its processes get no jobs when they are back"
    server.on(f"GET {R}", RUNNER)
    shown = terracrew("runner", "show", "a/r")
    assert "each instance runs at most 4 jobs" in shown
    assert [line.split()[-3] for line in shown.splitlines() if line.startswith(("one", "two"))] == ["2/4", "0"]
    assert max(map(len, [*lines, *shown.splitlines()])) <= 80


@pytest.mark.feature("J4.version")
def test_the_engines_of_each_connected_instance_are_shown(terracrew: Terracrew, server: ScriptedServer) -> None:
    """The API told which engines and versions an instance has, and the command line did not."""
    engines = {"tofu": ["1.12.6", "1.13.0"], "pulumi": ["3.255.0"]}
    instances = [
        answer(Instance, name="one", is_connected=True, capacity=4, engine_versions=engines),
        answer(Instance, name="gone", engine_versions={"tofu": ["1.12.1"]}),
    ]
    server.on(f"GET {R}", RUNNER | {"instances": instances})
    server.on(f"GET {R}/assignments", {"items": [], "next": None})
    lines = [line.split() for line in terracrew("runner", "show", "a/r").splitlines()]
    assert ["one", "tofu", "1.12.6,", "1.13.0"] in lines
    assert ["one", "pulumi", "3.255.0"] in lines
    assert not any("1.12.1" in line for line in lines)


@pytest.mark.feature("W2.deploy")
def test_a_deployment_is_asked_for_by_the_fields_of_its_request(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("POST /api/v1/runners/deploy", answer(DeployedRunner))
    server.on(f"POST {R}/deploy", answer(DeployedRunner))
    terracrew(
        "runner", "deploy", "burst", "--identity", "aws", "--cpu", "2", "--memory", "4GB", "--idle", "10m", "--no-wait"
    )
    settings = DeploymentSettings(cpu_units=2048, memory_mb=4096, idle_seconds=600)
    wanted = NewCloudRunner(name="burst", identity="aws", settings=settings)
    assert server.asked[-1].json() == msgspec.to_builtins(wanted)
    assert wanted.assign
    terracrew("runner", "deploy", "burst", "--identity", "aws", "--no-assign", "--tag", "gpu", "--no-wait")
    asked = server.asked[-1].json()
    assert (asked["assign"], asked["tags"]) == (False, ["gpu"])
    terracrew("runner", "redeploy", "a/r", "--no-spot", "--no-wait")
    assert server.asked[-1].json() == {"is_spot": False, "new_token": False}
