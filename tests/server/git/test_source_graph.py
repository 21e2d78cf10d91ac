"""A module is touched by what it reads: its own folder, and the local modules that it uses, without any configuration."""

import hashlib
import time
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from terracrew.server.git.source_graph import Root, SourceGraph, has_local_sources, has_root_block, local_sources


class File(NamedTuple):
    path: str
    object_id: str
    mode: str = "100644"


def graph(files: Mapping[str, str], *roots: str) -> SourceGraph:
    entries = [File(path, hashlib.sha1(text.encode()).hexdigest()) for path, text in files.items()]
    uses = {path: local_sources(path, text) for path, text in files.items() if has_local_sources(path)}
    return SourceGraph(entries, uses, roots)


FILES = {
    "prod/main.tf": 'module "vpc" {\n  source = "../modules/vpc"\n}\n',
    "prod/templates/user-data.sh": "#!/bin/sh\n",
    "prod/.terraform.lock.hcl": "lock",
    "stage/main.tf": "terraform {}\n",
    "modules/vpc/main.tf": 'module "subnet" {\n  source   =   "./subnet"\n}\n',
    "modules/vpc/subnet/main.tf": 'resource "terraform_data" "a" {}\n',
    "modules/other/main.tf": "",
    "README.md": "# Words\n",
    "prod/README.md": "more words\n",
    ".github/workflows/ci.yml": "on: push\n",
}


@pytest.mark.parametrize(
    ("changed", "touched"),
    [
        ("prod/main.tf", {"prod"}),
        ("prod/templates/user-data.sh", {"prod"}),
        ("prod/.terraform.lock.hcl", {"prod"}),
        ("prod/new.tf", {"prod"}),
        ("modules/vpc/main.tf", {"prod"}),
        ("modules/vpc/subnet/main.tf", {"prod"}),
        ("modules/other/main.tf", set[str]()),
        ("stage/main.tf", {"stage"}),
        ("README.md", set[str]()),
        ("prod/README.md", set[str]()),
        (".github/workflows/ci.yml", set[str]()),
    ],
)
def test_a_change_touches_the_modules_that_read_it(changed: str, touched: set[str]) -> None:
    before, after = graph(FILES), graph(FILES | {changed: "something else"})
    assert {each for each in ("prod", "stage") if before.digest(Root(each)) != after.digest(Root(each))} == touched


def test_a_removed_file_and_a_changed_mode_count() -> None:
    before = graph(FILES)
    less = {path: text for path, text in FILES.items() if path != "modules/vpc/subnet/main.tf"}
    assert graph(less).digest(Root("prod")) != before.digest(Root("prod"))
    plain, executable = File("a/main.tf", "1"), File("a/main.tf", "1", "100755")
    assert SourceGraph([plain], {}).digest(Root("a")) != SourceGraph([executable], {}).digest(Root("a"))


def test_a_folder_that_is_gone_has_no_digest() -> None:
    assert graph(FILES).digest(Root("gone")) == ""
    assert graph({}).digest(Root("")) == ""


def test_patterns_count_instead_of_the_graph() -> None:
    root = Root("prod", ["policies/**", "!policies/*.md"])
    before = graph(FILES | {"policies/a.json": "1", "policies/b.md": "1"})
    assert before.digest(root) == graph(FILES | {"policies/a.json": "1", "policies/b.md": "2"}).digest(root)
    assert before.digest(root) != graph(FILES | {"policies/a.json": "2", "policies/b.md": "1"}).digest(root)


def test_a_module_at_the_top_is_not_touched_by_the_folders_of_others() -> None:
    files = {"main.tf": "", "envs/prod/main.tf": "", "files/a.txt": ""}
    before = graph(files).digest(Root(""))
    assert before == graph(files | {"envs/prod/main.tf": "x"}).digest(Root(""))
    assert before != graph(files | {"files/a.txt": "x"}).digest(Root(""))


def test_modules_that_use_each_other_end() -> None:
    files = {"a/main.tf": 'module "b" { source = "../b" }', "b/main.tf": 'module "a" { source = "../a" }'}
    assert graph(files).closure("a") == {"a", "b"}


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ('source = "../x"', {"x"}),
        ('# source = "../x"\n', set[str]()),
        ('/* source = "../x" */ source = "./y"', {"here/y"}),
        ('// source = "../x"\nsource="../../out"', set[str]()),
        ('source = "git::https://example.com/x.git"', set[str]()),
        ('description = "the source = ../x"\n', set[str]()),
        ('source = "..//x"', {"x"}),
        ('url = "https://x" \n source = "../z" # why', {"z"}),
        ('source = "', set[str]()),
    ],
)
def test_local_modules_are_read_from_a_configuration(content: str, found: set[str]) -> None:
    assert local_sources("here/main.tf", content) == found


def test_local_modules_are_read_from_json() -> None:
    assert local_sources("here/main.tf.json", '{"module": {"a": {"source": "../x", "b": "./no"}}}') == {"x"}


def test_a_hostile_configuration_is_read_quickly() -> None:
    assert local_sources("main.tf", "/*" * 200_000 + '"' * 200_000 + "source = " * 20_000) == frozenset()


@pytest.mark.parametrize(
    ("text", "is_root"),
    [
        ('terraform {\n  backend "s3" {\n    bucket = "a"\n  }\n}\n', True),
        ('terraform { backend "s3" {} }\n', True),
        ('terraform {\n  cloud {\n    organization = "a"\n  }\n}\n', True),
        ('provider "aws" {\n  region = "eu-central-1"\n}\n', True),
        ("", False),
        ('terraform {\n  required_providers {\n    aws = { source = "hashicorp/aws" }\n  }\n}\n', False),
        ('# provider "aws" {\n/* cloud { */\n// backend "s3" {\n', False),
        ('locals { words = "cloud { provider \\"aws\\" {" }\n', False),
        ('resource "aws_instance" "provider" {\n  provider = aws.west\n}\n', False),
        ('locals { cloud = { a = 1 } }\nvariable "cloud" {}\n', False),
        ('dynamic "cloud" {}\nlocals { my_cloud = 1 }\n', False),
    ],
)
def test_a_backend_a_cloud_or_a_provider_makes_a_root(text: str, is_root: bool) -> None:
    assert has_root_block("main.tf", text) is is_root


def test_the_same_blocks_make_a_root_in_json() -> None:
    assert has_root_block("main.tf.json", '{"provider": {"aws": {}}}')
    assert has_root_block("main.tf.json", '{"terraform": {"backend": {"s3": {}}}}')
    assert not has_root_block("main.tf.json", '{"resource": {"aws_instance": {"a": {"provider": "aws.west"}}}}')


@pytest.mark.parametrize(
    "part", ["/* ", '\\"', '"\\', "source ", 'provider "', "cloud ", '"', "#", "/*/", '"source":"']
)
def test_no_file_takes_longer_than_its_length(part: str) -> None:
    """A repository may be of strangers: comments and texts that are not closed took the square of their length."""
    content = '"' + part * ((1 << 20) // len(part)) + "\\"
    began = time.process_time()
    for path in ("main.tf", "main.tf.json"):
        local_sources(path, content)
        has_root_block(path, content)
    assert time.process_time() - began < 5, "the square of the length would take hours"
