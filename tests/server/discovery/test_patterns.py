"""Patterns of folders, the paths of modules that are made of folders, and which folders are roots."""

import time
from typing import Any

import pytest

from terracrew.errors import Invalid, TooLarge
from terracrew.server.discovery import finding, naming, patterns
from terracrew.server.git.configured_commits import ConfigurationFile, ConfiguredCommit
from terracrew.server.git.source_graph import has_local_sources, has_root_block, local_sources
from terracrew.server.git.trees import TreeEntry


@pytest.mark.parametrize(
    ("pattern", "meant", "others"),
    [
        ("**", ["", "a", "a/b/c"], []),
        (".", [""], ["a"]),
        ("prod", ["prod"], ["", "prod/a", "a/prod", "production"]),
        ("prod/*", ["prod/a"], ["prod", "prod/a/b"]),
        ("prod/**", ["prod", "prod/a", "prod/a/b"], ["a/prod"]),
        ("**/network", ["network", "a/network", "a/b/network"], ["network/a", "anetwork"]),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/y/z/c"], ["a/c", "a/b"]),
        ("prod-[ab]*", ["prod-a", "prod-bc"], ["prod-c", "prod-a/b"]),
        ("?", ["a"], ["ab", ""]),
        ("Prod", ["Prod"], ["prod"]),
    ],
)
def test_a_pattern_means_the_folder_itself(pattern: str, meant: list[str], others: list[str]) -> None:
    assert patterns.problem(pattern) == ""
    assert [each for each in [*meant, *others] if patterns.matches(pattern, each)] == meant


@pytest.mark.parametrize("pattern", ["", "/a", "a/", "a//b", "../a", "a/./b", "a\\b", "a\nb", "a**", "**a/b", "\x00"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    assert patterns.problem(pattern)


def test_no_pattern_takes_long() -> None:
    began = time.process_time()
    folder = "/".join(["a" * 30] * 30)
    for _ in range(100):
        patterns.matches("/".join(["**", "*a*a*a*a*b"] * 12), folder)
    assert time.process_time() - began < 5, "an exponential search would take years"


@pytest.mark.parametrize(
    ("template", "folder", "path"),
    [
        ("{path}", "prod/network", "team/prod/network"),
        ("{flat}", "prod/network", "team/prod-network"),
        ("{dir}", "prod/network", "team/network"),
        ("infra/{flat}-x", "a/b", "team/infra/a-b-x"),
        ("{path}", "Prod/My_Network 1.2", "team/prod/my-network-1-2"),
        ("{path}", "", "team/infra"),
    ],
)
def test_a_module_is_called_after_its_folder(template: str, folder: str, path: str) -> None:
    assert naming.template_problem(template) == ""
    assert naming.module_path(template, "team", folder, "acme/infra") == path


@pytest.mark.feature("F6.hostile")
@pytest.mark.parametrize(
    "folder",
    [
        "..",
        "a/../../b",
        ".",
        "a//b",
        "größe",
        "a\nb",
        "a\x00b",
        "-",
        "___",
        "a" * 64,
        "/".join("a" * 30),
        "{path}",
        "a\udc80",
    ],
)
def test_a_folder_that_cannot_be_a_path_is_refused(folder: str) -> None:
    for template in ("{path}", "{dir}"):
        try:
            path = naming.module_path(template, "team", folder, "infra")
        except Invalid:
            continue
        assert path.startswith("team/")
        assert ".." not in path
    with pytest.raises(Invalid):
        naming.module_path("{path}", "team", folder, "infra")


@pytest.mark.parametrize("template", ["fixed", "{name}", "{path}/..", "/{path}", "{path}/", "{path", "A{path}", "{}"])
def test_a_template_that_is_none_is_refused(template: str) -> None:
    assert naming.template_problem(template)


def commit(files: dict[str, str], **modes: str) -> ConfiguredCommit:
    entries = [TreeEntry(path, modes.get(path, "100644"), "0" * 40) for path in files]
    read = {
        path: ConfigurationFile("0" * 40, local_sources(path, text), has_root_block(path, text))
        for path, text in files.items()
        if has_local_sources(path) and modes.get(path, "100644") == "100644"
    }
    return ConfiguredCommit(entries, read)


USING = 'module "a" { source = "../lib" }\n'


@pytest.mark.feature("F6.roots")
@pytest.mark.parametrize(
    ("files", "roots"),
    [
        ({"app/main.tf": USING, "lib/main.tf": ""}, ["app"]),
        ({"app/main.tf": USING, "lib/main.tf": 'terraform {\n backend "s3" {}\n}\n'}, ["app", "lib"]),
        ({"app/main.tf": USING, "lib/main.tf": 'provider "aws" {}\n'}, ["app", "lib"]),
        ({"main.tf": 'module "a" { source = "./lib" }\n', "lib/a.tf": ""}, [""]),
        ({"main.tf": 'module "a" { source = "." }\n'}, [""]),
        ({"app/main.tf.json": '{"module": {"a": {"source": "../lib"}}}', "lib/main.tf.json": "{}"}, ["app"]),
        ({"app/README.md": "", "app/values.yaml": ""}, []),
        ({".hidden/main.tf": "", "app/.cache/main.tf": "", "app/.main.tf": ""}, []),
        ({"app/main.tofu": ""}, ["app"]),
        ({"program/Pulumi.yaml": ""}, []),
    ],
)
def test_a_root_has_a_block_of_a_root_or_is_used_by_nobody(files: dict[str, str], roots: list[str]) -> None:
    assert finding.folders(commit(files), "tofu").roots == roots


@pytest.mark.feature("F6.roots")
def test_each_engine_has_its_own_roots() -> None:
    files = {"a/main.tofu": "", "b/main.tf": "", "c/Pulumi.yaml": "", "c/Pulumi.dev.yaml": "", "d/Pulumi.dev.yaml": ""}
    found: dict[Any, list[str]] = {}
    for engine in ("tofu", "terraform", "pulumi"):
        found[engine] = finding.folders(commit(files), engine).roots
    assert found == {"tofu": ["a", "b"], "terraform": ["b"], "pulumi": ["c"]}


@pytest.mark.feature("F6.hostile")
def test_links_submodules_and_names_that_nobody_can_read_are_left_out() -> None:
    files = {"link/main.tf": "", "sub": "", "a\nb/main.tf": "", "a\udc80/main.tf": "", f"{'a/' * 40}main.tf": ""}
    found = finding.folders(commit(files, **{"link/main.tf": "120000", "sub": "160000"}), "tofu")
    assert found.roots == []


def test_too_many_folders_are_refused() -> None:
    files = {f"a{number}/main.tf": "" for number in range(finding.MAX_FOLDERS + 1)}
    found = finding.folders(commit(files), "tofu")
    with pytest.raises(TooLarge, match="5,001 folders match"):
        found.meant(["**"], [])
    assert len(found.meant(["a1*"], [])) > 0
    many = {f"a{number}/main.tf": "" for number in range(finding.MAX_CONFIGURED + 1)}
    with pytest.raises(TooLarge, match="20,001 folders"):
        finding.folders(commit(many), "tofu")
