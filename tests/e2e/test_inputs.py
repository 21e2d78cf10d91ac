"""Inputs and secrets of groups reach the real engine, and nothing that anybody can read contains a secret."""

import base64
import os
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.e2e.command_line import terracrew
from tests.e2e.system import System, eventually

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]

SECRET = "quiet-river-under-the-bridge-77"
ENVIRONMENT_SECRET = "loud-river-over-the-bridge-78"
MAIN = """
variable "zones" { type = list(string) }
variable "size" { type = number }
variable "connection" { type = string }
resource "terraform_data" "all" {
  input = "${join("+", var.zones)} ${var.size * 2} ${nonsensitive(var.connection)}"
  provisioner "local-exec" { command = "echo $CONNECTION; echo ${base64encode(nonsensitive(var.connection))}; echo region $REGION" }
}
output "zones" { value = var.zones }
output "connection" { value = var.connection }
"""


@pytest.mark.feature("J6.inputs", "J6.secrets", "L5.executor")
def test_inputs_from_every_place_reach_the_engine_and_secrets_reach_nobody_else(system: System) -> None:
    server = system.start_server(runner=True)
    system.module("platform/network/vpc", MAIN, inputs={"size": 21})
    for place, name, value in (
        ("/", "zones", ["a"]),
        ("platform", "zones", ["b", "c"]),
        ("/", "unused", "not declared"),
    ):
        system.api.post("/inputs", {"place": place, "name": name, "value": value})
    system.api.post("/inputs", {"place": "/", "name": "REGION", "value": "north", "target": "environment"})
    system.api.post("/inputs", {"place": "platform", "name": "connection", "secret": SECRET})
    system.api.post(
        "/inputs",
        {"place": "platform/network", "name": "CONNECTION", "secret": ENVIRONMENT_SECRET, "target": "environment"},
    )
    applied = system.wait(system.run("platform/network/vpc", "APPLY"))
    log = system.log(applied["id"])
    assert applied["status"] == "SUCCEEDED", log
    assert "region north" in log
    assert "undeclared" not in log, "an input of the organization that the source does not declare is no warning"
    outputs = system.api.get("/modules/platform%2Fnetwork%2Fvpc/outputs")["outputs"]
    assert outputs["zones"]["value"] == ["b", "c"]
    assert outputs["connection"]["sensitive"], "an output that holds a secret is not shown"
    used = {each["name"]: each for each in system.api.get(f"/jobs/{applied['id']}/inputs")["items"]}
    assert (used["zones"]["path"], used["connection"]["kind"], used["size"]["place_kind"]) == (
        "platform",
        "secret",
        "module",
    )
    assert system.state("platform/network/vpc")["resources"][0]["instances"][0]["attributes"]["input"]["value"] == (
        f"b+c 42 {SECRET}"
    ), "the engine itself got the secret"
    _assert_nowhere(system, server.log, log)


def _assert_nowhere(system: System, server_log: Path, log: str) -> None:
    """Search what was printed, logged and stored for the secrets, as they are and in base64.

    While an attempt runs, its inputs and the output of its engine are on the runner's disk. A job ends a moment before they are
    removed."""
    runner = system.data / "runner"
    eventually(
        lambda: not [*runner.glob("attempts/*"), *runner.glob("workspaces/*")],
        what="the removal of the attempt and its workspace",
    )
    for secret in (SECRET, ENVIRONMENT_SECRET):
        forms = [secret.encode(), base64.b64encode(secret.encode())]
        assert not any(form in log.encode() for form in forms)
        files = [path for path in system.directory.rglob("*") if path.is_file() and not path.is_symlink()]
        assert server_log in files or server_log.exists()
        for path in [*files, server_log]:
            content = path.read_bytes() if os.access(path, os.R_OK) else b""
            assert not any(form in content for form in forms), path
    audit = str(system.api.get("/audit", limit=200))
    assert SECRET not in audit
    assert ENVIRONMENT_SECRET not in audit


@pytest.mark.feature("J6.definitions", "J6.inputs", "J10.rerun")
def test_a_job_with_inputs_of_its_own_leaves_the_module_as_it_is(system: System) -> None:
    system.start_server(runner=True)
    main = 'variable "name" {}\nvariable "where" {}\noutput "hello" { value = var.name }\noutput "where" { value = var.where }'
    system.module("hello", main, inputs={"name": "module"})
    system.api.post("/inputs", {"place": "/", "name": "where", "definition": "module_path"})
    made = system.api.post("/modules/hello/jobs", {"type": "APPLY", "inputs": {"name": "job"}})
    assert system.wait(made["id"])["status"] == "SUCCEEDED", system.log(made["id"])
    assert system.api.get("/modules/hello/outputs")["outputs"]["hello"]["value"] == "job"
    assert system.api.get("/modules/hello/outputs")["outputs"]["where"]["value"] == "hello", "the path of the module"
    again = system.api.post(f"/jobs/{made['id']}/rerun")
    assert system.wait(again["id"])["status"] == "SUCCEEDED"
    assert system.api.get("/modules/hello/outputs")["outputs"]["hello"]["value"] == "job"
    assert system.api.get("/modules/hello")["inputs"] == {"name": "module"}


@pytest.mark.feature("J6.files")
def test_what_an_extra_file_replaced_is_there_again_when_it_is_no_longer_listed(system: System) -> None:
    system.start_server(runner=True)
    system.module("hello", 'output "text" { value = file("main.tf") }\noutput "new" { value = fileexists("a/b.txt") }')
    extra = {"place": "/", "target": "file"}
    system.api.post("/inputs", extra | {"name": "a/b.txt", "value": "new"})
    system.api.post("/inputs", extra | {"name": "main.tf", "value": 'output "text" { value = "replaced" }'})
    refused = system.wait(system.run("hello", "APPLY"))
    assert refused["status"] == "FAILED"
    assert "the source has a file main.tf already" in refused["message"]
    more = 'output "text" { value = "replaced" }\noutput "new" { value = fileexists("a/b.txt") }'
    system.api.post("/inputs", extra | {"name": "main.tf", "value": more, "overwrite": True})
    assert _outputs(system) == ("replaced", True)
    for name in ("main.tf", "a/b.txt"):
        system.api.delete(f"/inputs?target=file&name={quote(name)}")
    text, is_new = _outputs(system)
    assert text.startswith('output "text" { value = file("main.tf") }')
    assert not is_new


def _outputs(system: System) -> tuple[str, bool]:
    applied = system.wait(system.run("hello", "APPLY"))
    assert applied["status"] == "SUCCEEDED", system.log(applied["id"])
    outputs = system.api.get("/modules/hello/outputs")["outputs"]
    return outputs["text"]["value"], outputs["new"]["value"]


@pytest.mark.feature("J6.outputs", "S6.dependency")
def test_a_module_waits_for_the_output_of_another_one_and_uses_it(system: System) -> None:
    system.start_server(runner=True)
    system.module("network", 'output "id" { value = "vpc-1" }')
    system.module("app", 'variable "vpc_id" { type = string }\noutput "used" { value = "uses ${var.vpc_id}" }')
    system.api.post("/inputs", {"place": "app", "name": "vpc_id", "output": {"module": "network", "output": "id"}})
    waiting = system.run("app", "APPLY")
    eventually(lambda: "has no outputs yet" in str(system.job(waiting)["reason"]) or None)
    assert system.wait(system.run("network", "APPLY"))["status"] == "SUCCEEDED"
    assert system.wait(waiting)["status"] == "SUCCEEDED", system.log(waiting)
    assert system.api.get("/modules/app/outputs")["outputs"]["used"]["value"] == "uses vpc-1"
    system.api.post("/inputs", {"place": "app", "name": "vpc_id", "output": {"module": "network", "output": "gone"}})
    failed = system.wait(system.run("app", "APPLY"))
    assert failed["status"] == "FAILED"
    assert "module `network` has no output gone" in failed["message"]
    assert all(step["status"] in ("PENDING", "SKIPPED") for step in failed["steps"]), "nothing was started"
    system.api.post("/inputs", {"place": "app", "name": "vpc_id", "value": "vpc-2"})
    assert system.wait(system.run("app", "APPLY"))["status"] == "SUCCEEDED", "the runner takes the next job"


TYPED = """
variable "text" { type = string }
variable "exponent" { type = string }
variable "number" { type = number }
variable "zones" { type = list(string) }
variable "untyped" {}
output "all" { value = "${var.text} ${var.exponent} ${var.number * 2} ${join("+", var.zones)} ${var.untyped}" }
"""


@pytest.mark.feature("J6.inputs")
def test_a_number_reaches_a_variable_of_text_as_it_was_typed(system: System) -> None:
    """`--var k8s=1.30` arrived as 1.3, and `exp=1e3` as 1000, where `tofu -var` keeps both."""
    system.start_server(runner=True)
    folder = system.directory / "typed"
    folder.mkdir()
    (folder / "main.tf").write_text(TYPED)
    module = ["--var", "text=1.30", "--var", "exponent=1e3", "--var", 'zones=["a","b"]', "--var", "number=1.50"]
    terracrew(system, "module", "create", "typed", "--engine", "tofu", "--from", str(folder), *module)
    terracrew(system, "input", "set", "typed", "untyped", "0.10")
    terracrew(system, "job", "run", "typed", "--apply", "--wait")
    assert system.api.get("/modules/typed/outputs")["outputs"]["all"]["value"] == "1.30 1e3 3 a+b 0.10"
    terracrew(system, "job", "run", "typed", "--apply", "--wait", "--var", "text=2.0")
    assert system.api.get("/modules/typed/outputs")["outputs"]["all"]["value"] == "2.0 1e3 3 a+b 0.10"
