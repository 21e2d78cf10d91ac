"""What a version needs and gives is read from its files when it is published."""

import io
import tarfile
import time
from typing import Any

import pytest

from terracrew.server.registry import documentation
from tests.server.application import Application, on_one
from tests.server.registry.publisher import address, group, publish, published
from tests.server.registry.publisher import create as make
from tests.server.tree.modules.packed_modules import packed

pytestmark = pytest.mark.feature("P7.documentation")
PATH = "team/vpc/aws"
MAIN = b"""
terraform {
  required_version = ">= 1.6"
  required_providers {
    aws = { source = "hashicorp/aws", version = "~> 5.0" }
  }
}
variable "name" {
  type        = string
  description = "What it is called"
}
variable "size" {
  type    = number
  default = 3
}
variable "password" {
  type      = string
  default   = "hunter2-hunter2"
  sensitive = true
}
output "id" {
  value       = aws_vpc.this.id
  description = "Its id"
}
resource "aws_vpc" "this" {}
module "subnets" { source = "./modules/subnets" }
"""


async def shown(app: Application, version: str = "1.0.0") -> Any:
    return (await app.admin.get(f"{address(PATH)}/versions/{version}")).json()["documentation"]


async def test_inputs_outputs_requirements_and_examples_are_read(application: Application) -> None:
    await group(application, "team")
    await make(application.admin, PATH)
    others = (
        ("README.md", b"# A network\n"),
        ("modules/subnets/main.tf", b'variable "zones" {}'),
        ("modules/subnets/README.md", b"Subnets"),
        ("examples/simple/main.tf", b'module "vpc" { source = "../.." }'),
        ("examples/simple/README.md", b"The simplest"),
        ("test/main.tf", b'variable "of_a_test" {}'),
        ("more.tf.json", b'{"variable": {"tags": {"type": "map(string)", "default": {}}}}'),
        ("override.tf", b'variable "override" {}'),
        ("broken.tf", b'variable "x" {'),
    )
    assert (await publish(application.admin, PATH, "1.0.0", MAIN, *others)).status_code == 201
    found = await shown(application)
    main = found["main"]
    assert [(each["name"], each["type"], each["default"]) for each in main["inputs"]] == [
        ("name", "string", None),
        ("password", "string", "(sensitive)"),
        ("size", "number", "3"),
        ("tags", "map(string)", "{  }"),
    ]
    assert [(each["name"], each["description"]) for each in main["outputs"]] == [("id", "Its id")]
    assert main["providers"] == [{"name": "aws", "source": "hashicorp/aws", "version": "~> 5.0"}]
    assert main["resources"] == ["aws_vpc.this"]
    assert main["modules"] == [{"name": "subnets", "source": "./modules/subnets", "version": ""}]
    assert (main["engine_version"], main["readme"]) == (">= 1.6", "# A network\n")
    assert main["problems"] == ["broken.tf: line 1: a block has no end"]
    assert [(each["folder"], each["readme"]) for each in found["submodules"]] == [("modules/subnets", "Subnets")]
    assert found["examples"] == [
        {"name": "simple", "readme": "The simplest", "main": 'module "vpc" { source = "../.." }'}
    ]


async def test_a_version_whose_local_modules_lie_outside_is_not_published(application: Application) -> None:
    await published(application, PATH)
    for main in (b'module "x" { source = "../x" }', b'module "x" { source = "./modules/../../x" }'):
        answer = await publish(application.admin, PATH, "1.0.0", main)
        assert answer.status_code == (400 if main.count(b"./") == 1 else 201), answer.text
    refused = await publish(
        application.admin, PATH, "2.0.0", b"", ("modules/a/main.tf", b'module "x" { source = "../../../x" }')
    )
    assert refused.status_code == 400
    assert "not among the files" in refused.json()["detail"]


@on_one
async def test_those_who_may_not_use_it_do_not_read_its_documentation(application: Application) -> None:
    await published(application, PATH, "1.0.0")
    stranger = await application.person("eve", "owner", organization="elsewhere")
    await stranger.refused("GET", f"{address(PATH)}/versions/1.0.0", 404)
    await application.admin.refused("GET", f"{address(PATH)}/versions/9.9.9", 404)


def test_what_is_too_much_is_left_out_and_said() -> None:
    many = "\n".join(f'variable "v{number}" {{ description = "{"x" * 50}" }}' for number in range(900))
    found = documentation.of_files({"main.tf": many, "README.md": "x" * 200_000})
    assert len(found.main.inputs) == documentation.MAX_ITEMS
    assert len(found.main.readme) == documentation.MAX_README_CHARACTERS + 1
    files = {f"examples/e{number}/main.tf": "#" * 19_000 for number in range(60)}
    found = documentation.of_files({"main.tf": many, **files})
    assert found.examples == []
    assert "left out" in found.main.problems[-1]
    found = documentation.of_files({"main.tf": many.replace("x" * 50, "x" * 3_900)})
    assert (found.main.inputs, found.examples) == ([], [])
    assert "too much to describe" in found.main.problems[0]


def test_a_file_that_is_not_read_is_said() -> None:
    """A module whose `main.tf` has more than 256 KiB, or is a link, was described as one without inputs."""
    large = ("main.tf", b'variable "a" {}' + b" " * documentation.MAX_FILE_BYTES)
    found = documentation.of_archive(packed(large, ("other.tf", b'variable "b" {}')))
    assert [each.name for each in found.main.inputs] == ["b"]
    assert found.main.problems == ["main.tf: it is a link, or too large"]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        link = tarfile.TarInfo("main.tf")
        link.type, link.linkname = tarfile.SYMTYPE, "real.txt"
        tar.addfile(link)
    found = documentation.of_archive(buffer.getvalue())
    assert found.main.problems == ["main.tf: it is a link, or too large"]


def test_hostile_files_give_a_problem_each() -> None:
    files = {
        "a.tf": "x {" * 50_000,
        "b.tf": "\0" * 1_000,
        "c.tf.json": "[" * 100_000,
        "d.tf.json": '{"variable": [1, {"a": 1}, {"b": [{}, "x"]}], "terraform": 7, "module": {"m": {"source": 3}}}',
        "f.tf.json": '{"variable": {"deep": {"default": ' + '{"a":' * 900 + "1" + "}" * 900 + "}}}",
        "g.tf.json": '{"variable": {"deep": {"default": ' + "[" * 900 + "]" * 900 + "}}}",
        "h.tf.json": '{"variable": {"number": {"default": 1' + "0" * 60 + "}}}",
        "e.tf": 'variable "<script>" { description = "<b>x</b>" }',
    }
    found = documentation.of_files(files)
    problems = [each.partition(":")[0] for each in found.main.problems]
    assert problems == ["a.tf", "b.tf", "c.tf.json", "f.tf.json", "g.tf.json"]
    assert [each.name for each in found.main.inputs] == ["<script>", "b", "number"]


def test_thousands_of_marks_of_texts_are_read_in_a_moment() -> None:
    """An expression was compiled for each mark: a file of 256 KiB took seconds."""
    marks = [f"m{number:05}" for number in range(20_000)]
    text = "x = [\n" + "".join(f"<<{mark}\ntext\n {mark}\r\n,\n" for mark in marks) + "]\n"
    began = time.process_time()
    documentation.of_files({"main.tf": text + 'variable "last" {}'})
    assert time.process_time() - began < 0.7


def test_all_readmes_together_have_a_bound() -> None:
    files = {f"examples/e{number}/README.md": "x" * 10_000 for number in range(30)}
    found = documentation.of_files({"main.tf": "", "README.md": "y" * 50_000} | files)
    readmes = [found.main.readme, *(each.readme for each in found.examples)]
    assert (len(found.examples), sum(map(len, readmes))) == (30, documentation.MAX_READMES_CHARACTERS)
