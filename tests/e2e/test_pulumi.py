"""Pulumi, from the API to the state and back, with a real server, runner and executor."""

import contextlib
import json
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from terracrew.source_rules import archive
from terracrew.system import procfs
from tests.contracts.pulumi_programs import file, program
from tests.e2e.system import System, eventually
from tests.machine import engines, pulumi_provider

pytestmark = [
    pytest.mark.engine,
    pytest.mark.other_engine,
    pytest.mark.timeout(240),
    pytest.mark.feature("J4.pulumi", "J15.pulumi"),
]
SECRET = "a value that nobody may read"
OUTPUTS = {"answer": "42", "size": "${size}", "token": {"fn::secret": SECRET}}


@pytest.fixture
def pulumi(system: System) -> System:
    """A system whose runner has Pulumi and the provider of the tests."""
    found = engines.tested_version("pulumi")
    path = (os.path.dirname(found.path), str(pulumi_provider.required()), os.environ["PATH"])
    system.env["PATH"] = os.pathsep.join(path)
    system.start_server(runner=True)
    return system


def make(system: System, path: str, files: dict[str, str], **fields: Any) -> None:
    folder = system.directory / "source" / path
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    uploaded = system.api.upload("/archives", archive.pack(folder), "application/gzip")
    source = {"kind": "archive", "archive_id": uploaded["id"]}
    system.api.post("/modules", {"path": path, "engine": "pulumi", "source": source, **fields})


def made_in(system: System) -> Path:
    folder = system.directory / "made"
    folder.mkdir(exist_ok=True)
    return folder


def names_in(folder: Path) -> list[str]:
    return sorted(json.loads(each.read_text())["name"] for each in folder.iterdir())


def pending_in(system: System) -> list[str]:
    """Return the names of the resources that the recorded state of `app` says are being changed."""
    latest = system.state("app")["checkpoint"]["latest"]
    return [each["resource"]["urn"].rpartition("::")[2] for each in latest.get("pending_operations") or ()]


@pytest.mark.feature("J6.inputs", "J11.numbers", "J12.sensitive", "J15.encrypted")
def test_a_program_is_planned_applied_and_destroyed(pulumi: System) -> None:
    made = made_in(pulumi)
    resources = {"web": file("web", directory=str(made), content="${size}", secret={"fn::secret": SECRET})}
    config = {"size": {"type": "string", "default": "small"}}
    make(pulumi, "app", program(resources, OUTPUTS, config), inputs={"size": "large"})
    planned = pulumi.wait(pulumi.run("app"))
    assert planned["status"] == "SUCCEEDED", pulumi.log(planned["id"])
    assert (planned["plan"]["add"], planned["plan"]["resources"][0]["address"]) == (1, "testing:index:File::web")
    diff = pulumi.api.get(f"/jobs/{planned['id']}/diff")
    assert diff["counts"] == {"create": 1}
    shown = {each["name"]: each for each in diff["items"][0]["attributes"]}
    assert (shown["content"]["after"], shown["secret"]["is_sensitive"]) == ('"large"', True)
    assert SECRET not in json.dumps(diff)
    assert names_in(made) == []
    applied = pulumi.wait(pulumi.run("app", "APPLY"))
    assert applied["status"] == "SUCCEEDED", pulumi.log(applied["id"])
    [web] = made.iterdir()
    assert json.loads(web.read_text()) == {"name": "web", "content": "large", "secret": SECRET}
    outputs = pulumi.api.get("/modules/app/outputs")["outputs"]
    assert (outputs["answer"]["value"], outputs["size"]["value"]) == ("42", "large")
    assert outputs["token"]["sensitive"]
    log = pulumi.log(applied["id"])
    assert SECRET not in log
    state = json.dumps(pulumi.state("app"))
    assert "testing:index:File" in state
    assert SECRET not in state, "Pulumi encrypts it under the key of the module"
    again = pulumi.wait(pulumi.run("app"))
    assert {again["plan"][name] for name in ("add", "change", "destroy", "replace")} == {0}, again["plan"]
    destroyed = pulumi.wait(pulumi.run("app", "DESTROY"))
    assert destroyed["status"] == "SUCCEEDED", pulumi.log(destroyed["id"])
    assert names_in(made) == []


@pytest.mark.feature("J6.secrets")
def test_a_secret_input_arrives_in_the_program_and_is_in_no_file_of_the_job(pulumi: System) -> None:
    made, gate = made_in(pulumi), pulumi.directory / "gate"
    first = file("first", directory=str(made), secret="${password}")
    second = file("second", needs="first", directory=str(made), waitFor=str(gate))
    make(pulumi, "app", program({"first": first, "second": second}, config={"password": {"type": "string"}}))
    pulumi.api.post("/inputs", {"place": "app", "name": "password", "secret": SECRET})
    job = pulumi.run("app", "APPLY")
    eventually(lambda: names_in(made) == ["first"], what="the first file", within=60)
    eventually(lambda: pending_in(pulumi) == ["second"], what="the state with the pending operation")
    files = {path: content for path, content in _contents(pulumi.directory).items() if made not in path.parents}
    assert "Pulumi.terracrew.yaml" in {path.name for path in files}, "the workspace is there while the engine runs"
    assert [path for path, content in files.items() if SECRET.encode() in content] == []
    gate.touch()
    ended = pulumi.wait(job)
    assert ended["status"] == "SUCCEEDED", pulumi.log(job)
    assert SECRET in {json.loads(each.read_text()).get("secret") for each in made.iterdir()}
    assert SECRET not in pulumi.log(job)


@pytest.mark.feature("J15.kept")
def test_what_was_made_before_pulumi_was_killed_is_in_the_state(pulumi: System) -> None:
    made, gate = made_in(pulumi), pulumi.directory / "gate"
    first = file("first", directory=str(made))
    second = file("second", needs="first", directory=str(made), waitFor=str(gate))
    make(pulumi, "app", program({"first": first, "second": second}), interrupted="retry")
    job = pulumi.run("app", "APPLY")
    eventually(lambda: names_in(made) == ["first"], what="the first file", within=60)
    eventually(lambda: pending_in(pulumi) == ["second"], what="the state with the pending operation")
    os.kill(_engine(pulumi, job), signal.SIGKILL)
    ended = pulumi.wait(job)
    assert ended["status"] == "FAILED", ended
    latest = pulumi.state("app")["checkpoint"]["latest"]
    assert "first" in {each["urn"].rpartition("::")[2] for each in latest["resources"]}
    assert [each["type"] for each in latest["pending_operations"]] == ["creating"]
    gate.touch()
    again = pulumi.wait(pulumi.run("app", "APPLY"))
    assert again["status"] == "SUCCEEDED", pulumi.log(again["id"])
    assert "cut short while it was creating testing:index:File::second" in pulumi.log(again["id"])
    assert names_in(made) == ["first", "second"], "each exists once"


@pytest.mark.feature("O3.doubt", "O4.salvaged")
def test_a_state_that_pulumi_wrote_after_its_executor_was_gone_does_not_say_that_the_change_ended(
    pulumi: System,
) -> None:
    """The last state was delivered as one of an engine that had ended: the file was made a second time, and nobody was asked."""
    made, first_gate, second_gate = made_in(pulumi), pulumi.directory / "first", pulumi.directory / "second"
    first = file("first", directory=str(made), waitFor=str(first_gate))
    second = file("second", needs="first", directory=str(made), waitFor=str(second_gate))
    make(pulumi, "app", program({"first": first, "second": second}))
    job = pulumi.run("app", "APPLY")
    eventually(lambda: pending_in(pulumi) == ["first"], what="the state with the pending operation", within=60)
    executor = pulumi.executor(job)
    os.kill(executor, signal.SIGSTOP)
    first_gate.touch()
    eventually(lambda: _is_pending("second", pulumi.directory), what="a state that the executor has not seen")
    for pid in (executor, *(each.pid for each in procfs.descendants(executor))):
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: pulumi.job(job)["attempt"] == 2, what="the next attempt")
    second_gate.touch()
    waiting = eventually(
        lambda: found if (found := pulumi.job(job))["status"] in ("AWAITING_APPROVAL", "SUCCEEDED") else None,
        what="the question",
        within=60,
    )
    assert waiting["status"] == "AWAITING_APPROVAL", pulumi.log(job)
    (doubt,) = waiting["doubts"]
    assert (doubt["attempt"], doubt["is_gone"], doubt["may_miss_state"]) == (1, True, True)
    assert pending_in(pulumi) == ["second"], "the salvage has delivered it"
    lost = list(pulumi.api.list(f"/jobs/{job}/lost-resources"))
    assert [(each["address"].rpartition("::")[2], each["action"]) for each in lost] == [("second", "creating")]
    assert names_in(made) == ["first"]


def _contents(folder: Path) -> dict[Path, bytes]:
    """Read the files below a folder, except those that are removed meanwhile, sockets and named pipes."""
    found: dict[Path, bytes] = {}
    for place, _, names in os.walk(folder):
        for path in (Path(place) / name for name in names):
            with contextlib.suppress(OSError):
                if stat.S_ISREG(path.lstat().st_mode):
                    found[path] = path.read_bytes()
    return found


def _is_pending(name: str, folder: Path) -> bool:
    """Tell whether a file with a state, below this folder, says that Pulumi is making this resource."""
    operation = f'::{name}"'.encode()
    files = (content for path, content in _contents(folder).items() if path.name == "terracrew.json")
    return any(operation in content.partition(b'"pending_operations"')[2] for content in files)


def _engine(system: System, job: str) -> int:
    [found] = [
        each.pid
        for each in procfs.descendants(system.executor(job))
        if Path(f"/proc/{each.pid}/exe").resolve().name == "pulumi"
    ]
    return found


@pytest.mark.parametrize("has_hook", [False, True])
def test_init_does_not_run_for_a_program_that_needs_nothing_unless_it_has_hooks(pulumi: System, has_hook: bool) -> None:
    make(pulumi, "app", program({}, {"answer": "42"}))
    if has_hook:
        pulumi.api.replace("/modules/app/steps/init", {"before": {"script": "#!/bin/sh\n"}})
    planned = pulumi.wait(pulumi.run("app"))
    assert planned["status"] == "SUCCEEDED", pulumi.log(planned["id"])
    init = {step["name"]: step["status"] for step in planned["steps"]}["init"]
    assert init == ("SUCCEEDED" if has_hook else "SKIPPED")
    assert ("Init is skipped" in pulumi.log(planned["id"])) != has_hook


@pytest.mark.feature("H1.plan")
def test_hooks_read_the_preview_without_secrets_also_in_the_job_that_applies_it(pulumi: System) -> None:
    made, seen = made_in(pulumi), pulumi.directory / "seen"
    seen.mkdir()
    script = (
        f'#!/bin/sh\ncp "$TERRACREW_PLAN_JSON" {seen}/$TERRACREW_HOOK-$TERRACREW_STEP\ntest -s "$TERRACREW_PLAN_FILE"\n'
    )
    resources = {"web": file("web", directory=str(made), content="plain", secret={"fn::secret": SECRET})}
    make(pulumi, "app", program(resources, OUTPUTS | {"size": "1"}))
    for step, when in (("plan", "after"), ("apply", "before"), ("destroy", "before")):
        pulumi.api.replace(f"/modules/app/steps/{step}", {when: {"script": script}})
    planned = pulumi.wait(pulumi.run("app"))
    assert planned["is_plan_applicable"], pulumi.log(planned["id"])
    applied = pulumi.wait(pulumi.api.post(f"/jobs/{planned['id']}/apply", {})["id"])
    assert applied["status"] == "SUCCEEDED", pulumi.log(applied["id"])
    assert (seen / "before-apply").read_bytes() == (seen / "after-plan").read_bytes()
    preview = json.loads((seen / "before-apply").read_text())
    [web] = [each for each in preview["steps"] if each["urn"].endswith("testing:index:File::web")]
    assert (web["op"], web["newState"]["type"], web["newState"]["inputs"]["content"]) == (
        "create",
        "testing:index:File",
        "plain",
    )
    assert preview["changeSummary"]["create"] == 2, "the file and the stack"
    destroyed = pulumi.wait(pulumi.run("app", "DESTROY"))
    assert destroyed["status"] == "SUCCEEDED", pulumi.log(destroyed["id"])
    gone = json.loads((seen / "before-destroy").read_text())
    assert {each["op"] for each in gone["steps"]} == {"delete"}
    assert [each.name for each in seen.iterdir() if SECRET in each.read_text()] == []
