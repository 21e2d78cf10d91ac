"""Values of variables arrive as literals of HCL, as the clients write them."""

import time
from typing import Any

import pytest

from terracrew.engine_rules import hcl_literals
from terracrew.errors import Invalid
from terracrew.server.terminals import names


@pytest.mark.feature("K2.options")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"a"', "a"),
        ('"a\\"b\\\\\\n\\u00e9"', 'a"b\\\né'),
        ('"$${x} %%{y} $ %"', "${x} %{y} $ %"),
        ("12", 12),
        ("-1.5e3", -1500.0),
        ("true", True),
        ("null", None),
        ("[]", []),
        ('[1, "b", [true]]', [1, "b", [True]]),
        ("{}", {}),
        ('{ a = 1, "b c" = [2] }', {"a": 1, "b c": [2]}),
        ('{\n  a = 1\n  b = { c = "d" }\n}', {"a": 1, "b": {"c": "d"}}),
        ('{ ("a.b") = 1 }', {"a.b": 1}),
    ],
)
def test_a_literal_is_read(text: str, value: Any) -> None:
    assert hcl_literals.read("it", text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        '"${file("/etc/passwd")}"',
        "[1",
        "{ a }",
        "f(1)",
        '"a',
        "1 2",
        "[" * 100,
        "9" * 5_000,
        "1e999",
        '"\\UFFFFFFFF"',
        '"\\ud800"',
        "{(" * 500,
    ],
)
def test_anything_else_is_refused_with_the_name_of_the_variable(text: str) -> None:
    with pytest.raises(Invalid, match="variable it"):
        hcl_literals.read("it", text)


def test_a_long_hostile_text_costs_little() -> None:
    started = time.thread_time()
    for text in ('"' + "\\" * 500_000, "[" * 500_000, "{ a = " * 100_000, '"' + "$" * 500_000, " " * 500_000):
        with pytest.raises(Invalid):
            hcl_literals.read("it", text)
    assert time.thread_time() - started < 2


@pytest.mark.parametrize(
    ("name", "project", "path"),
    [
        ("app", "", "app"),
        ("platform.network", "", "platform/network"),
        ("platform.network", "platform", "platform/network"),
    ],
)
def test_a_workspace_is_a_path_with_dots(name: str, project: str, path: str) -> None:
    assert names.new_module_path(name, project) == path
    assert names.module_path(names.workspace(path)) == path


def test_a_name_outside_of_its_project_is_refused_with_the_right_one() -> None:
    """Only the first command would find the module: later ones ask for the name without its project."""
    with pytest.raises(Invalid, match=r"call it platform\.network"):
        names.new_module_path("network", "platform")


@pytest.mark.parametrize("name", ["", ".", "a..b", "a/b", "a b", "A", "a_b", ".a", "a."])
def test_another_name_is_refused_with_what_is_possible(name: str) -> None:
    with pytest.raises(Invalid, match="lowercase letters"):
        names.new_module_path(name)
