"""Test files stand alone: what two of them use is in a module of its own, and none is too long to read."""

import ast
from pathlib import Path

FILES = sorted(Path(__file__).parent.rglob("*.py"))
MAX_LINES = 440
"""A file of more than 400 lines holds two concepts; a little room is left, so that a formatted line breaks no build."""


def imported(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    found = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return found | {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}


def test_no_file_imports_a_test_file() -> None:
    """Twenty test files imported helpers from another one, so that a rename in one broke the other."""
    found = {file.name: {name for name in imported(file) if ".test_" in name} for file in FILES}
    assert {file: others for file, others in found.items() if others} == {}


def test_no_file_is_so_long_that_it_has_two_concepts() -> None:
    assert [file.name for file in FILES if len(file.read_text().splitlines()) > MAX_LINES] == []
