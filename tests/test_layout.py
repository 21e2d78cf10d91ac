"""Test files import no other test file, are short enough to read, and let time pass by a clock."""

import ast
import re
from pathlib import Path

import pytest

FILES = sorted(Path(__file__).parent.rglob("*.py"))
MAX_LINES = 440
"""A file of more than 400 lines holds two concepts; a little room is left, so that a formatted line breaks no build."""

SETS_A_TIME = re.compile(
    r"\bUPDATE\s+\w+\s+SET\b(?:(?!\bWHERE\b).)*?\b(?:\w+_at|signs_from)\s*=(?!\s*(?::now|NULL)\b)", re.DOTALL
)
"""A statement that changes the time of a row to something else than the present."""
MAY_SET_A_TIME = {
    "server/jobs/test_job_machine.py": "the database must refuse the statement",
    "e2e/test_tokens.py": "the server is another process, whose clock no test can move",
}

OF_SEVERAL_PACKAGES = {
    "chaos",
    "contracts",
    "deploy",
    "e2e",
    "example_plugin",
    "explore",
    "machine",
    "powercut",
    "released",
    "stateful",
}
"""Folders of tests that are named after how they test, because what they test is in more than one package."""
BY_MEANS = {"server/dashboard/browser"}
"""Tests of one package that need a browser."""


def imported(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    found = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return found | {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}


def test_no_file_imports_a_test_file() -> None:
    """Twenty test files imported helpers from another one, so that a rename in one broke the other."""
    found = {file.name: {name for name in imported(file) if ".test_" in name} for file in FILES}
    assert {file: others for file, others in found.items() if others} == {}


def test_the_folders_of_tests_are_those_of_the_packages() -> None:
    """A reader looks for the tests of `server/jobs/attempts/` in `tests/server/jobs/attempts/`."""
    tests = Path(__file__).parent
    source = tests.parent / "src" / "terracrew"
    folders = {file.parent.relative_to(tests) for file in FILES if file.name.startswith("test_")}
    without_package = {str(folder) for folder in folders if not (source / folder / "__init__.py").exists()}
    assert {folder for folder in without_package if folder.partition("/")[0] not in OF_SEVERAL_PACKAGES} == BY_MEANS


def test_no_file_is_so_long_that_it_has_two_concepts() -> None:
    assert [file.name for file in FILES if len(file.read_text().splitlines()) > MAX_LINES] == []


def statements_that_set_a_time(source: str) -> list[str]:
    """The strings of a file that move a row in time. A value that is put into a string counts as the name of a time."""
    tree = ast.parse(source)
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [str(part.value) if isinstance(part, ast.Constant) else "any_at" for part in node.values]
            texts.append("".join(parts))
    return [text for text in texts if SETS_A_TIME.search(text)]


def test_time_passes_by_a_clock_and_not_by_an_update() -> None:
    """A row that was made older than everything around it is in a state that the product never reaches."""
    folder = Path(__file__).parent
    found = {str(file.relative_to(folder)) for file in FILES if statements_that_set_a_time(file.read_text())}
    assert found - {"test_layout.py"} == set(MAY_SET_A_TIME)


@pytest.mark.parametrize(
    ("source", "is_refused"),
    [
        ('run("UPDATE jobs SET status = :s, created_at = created_at - 60")', True),
        ('run("""UPDATE attempts\nSET heard_at = 0 WHERE id = :id""")', True),
        ('run(f"UPDATE {table} SET {column} = {column} - 1")', True),
        ('run("UPDATE attempts SET ended_at = :now, outcome = :outcome")', False),
        ('run("UPDATE jobs SET priority = 5 WHERE created_at = 0")', False),
    ],
)
def test_a_statement_that_moves_a_row_in_time_is_recognized(source: str, is_refused: bool) -> None:
    assert bool(statements_that_set_a_time(source)) == is_refused
