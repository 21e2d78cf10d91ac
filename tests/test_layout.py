"""Test files import no other test file, are short enough to read, and let time pass by a clock."""

import ast
import re
from collections.abc import Iterator
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
    "bench/log_scale.py": "the server is another process, whose clock no test can move",
    "e2e/test_tokens.py": "the server is another process, whose clock no test can move",
}

OTHERS_PRIVATE_NAMES = {
    "cli/test_every_command.py": "Click says by no public name whether an argument is completed",
    "machine/platforms/fargate.py": "Moto gives the answers of an emulator the parameters of a request by this name alone",
}
IS_PRIVATE = re.compile(r"_(?!_)")
NO_PRIVATE_NAMES = {"_asdict", "_exit", "_fields", "_make", "_replace"}
"""Names of named tuples and of `os` that are public although they begin like private ones."""

CORE_TABLES = (
    "assignments|attempts|cloud_deployments|fleet_jobs|groups|inputs|instances|jobs|modules|organizations|plans"
    "|rollouts|runners|states|users"
)
CHANGES_A_CORE_TABLE = re.compile(rf"\bUPDATE\s+(?:{CORE_TABLES})\s+SET\b")
MAY_CHANGE_BY_SQL = {
    "bench/caps.py": "it changes a thousand groups by one expression",
    "bench/large.py": "it changes what is connected only",
    "bench/log_scale.py": "the server is another process",
    "bench/scale.py": "the server is another process",
    "builders/job_rows.py": "it has the verbs",
    "server/dashboard/company/rows.py": "it adds to what an attempt has",
    "server/db/test_table_owners.py": "it reads statements of sources",
    "server/fleet_jobs/test_fleet_job_machine.py": "the database must refuse the statement",
    "server/jobs/test_job_machine.py": "the database must refuse the statement",
    "server/rollouts/test_store.py": "the database must refuse the statement",
    "test_layout.py": "it recognizes statements",
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


def name_of(function: ast.expr) -> str:
    """Return the last name of what is called: `change_jobs` of `rows.change_jobs(…)`."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def imported(file: Path) -> set[str]:
    text = file.read_text()
    if ".test_" not in text:  # most files need not be parsed
        return set()
    tree = ast.parse(text)
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


def texts_of(tree: ast.AST) -> Iterator[str]:
    """The strings of a file. A value that is put into one counts as the name of a time."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "any_at" for part in node.values)


def sets_a_time(node: ast.AST) -> bool:
    """Whether a call of `change_jobs` or of its siblings sets a time to something else than None and the present."""
    if not isinstance(node, ast.Call) or not name_of(node.func).startswith("change_"):
        return False
    times = [each.value for each in node.keywords if each.arg is not None and each.arg.endswith("_at")]
    return not all(ast.unparse(each) == "None" or ast.unparse(each).endswith(".now") for each in times)


def statements_that_set_a_time(source: str) -> list[str]:
    """What moves rows of a file in time: statements, and calls of `change_jobs` and its siblings."""
    if "UPDATE" not in source and "change_" not in source:
        return []
    tree = ast.parse(source)
    calls = [ast.unparse(node) for node in ast.walk(tree) if sets_a_time(node)]
    return [text for text in texts_of(tree) if SETS_A_TIME.search(text)] + calls


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
        ("change_jobs(db, finished_at=5.0)", True),
        ("change_jobs(tx, finished_at=tx.now, claimed_at=None)", False),
    ],
)
def test_a_statement_that_moves_a_row_in_time_is_recognized(source: str, is_refused: bool) -> None:
    assert bool(statements_that_set_a_time(source)) == is_refused


def test_rows_of_core_tables_are_changed_by_verbs() -> None:
    """269 statements named tables and columns in texts that nothing checks, and wrote JSON by hand.

    `tests.builders.job_rows` has the verbs: `change_modules(db, "net/vpc", tags=["gpu"])`.
    """
    folder = Path(__file__).parent
    found = {
        str(file.relative_to(folder))
        for file in FILES
        if "UPDATE" in (source := file.read_text())
        and any(CHANGES_A_CORE_TABLE.search(text) for text in texts_of(ast.parse(source)))
    }
    assert found == set(MAY_CHANGE_BY_SQL)


def others_private_names(source: str) -> list[str]:
    """The private names that a file reads or replaces and does not define itself."""
    nodes = list(ast.walk(ast.parse(source)))
    own = {node.attr for node in nodes if isinstance(node, ast.Attribute) and is_of_itself(node)}
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    found = [node.attr for node in nodes if isinstance(node, ast.Attribute) and not is_of_itself(node)]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            found += [name.name for name in node.names]
        if isinstance(node, ast.Call) and name_of(node.func) in ("setattr", "getattr", "delattr"):
            texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
            found += [text.rpartition(".")[2] for text in texts if isinstance(text, str)]
    return [name for name in found if IS_PRIVATE.match(name) and name not in own | NO_PRIVATE_NAMES]


def is_of_itself(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def test_no_test_reads_a_private_name_of_another_file() -> None:
    """What a test needs of a module has a public name there, or is seen by what the module does."""
    folder = Path(__file__).parent
    found = {str(file.relative_to(folder)): others_private_names(file.read_text()) for file in FILES}
    assert {file: names for file, names in found.items() if names and file not in OTHERS_PRIVATE_NAMES} == {}
    assert all(found[file] for file in OTHERS_PRIVATE_NAMES), "an exception that nothing needs"


@pytest.mark.parametrize(
    ("source", "is_refused"),
    [
        ("registry._closed.clear()", True),
        ("from terracrew.server.main import _run", True),
        ('monkeypatch.setattr(begin, "_now", None)', True),
        ('monkeypatch.setattr("terracrew.server.main._run", None)', True),
        ("self._closed = other._closed", False),
        ("job._replace(status=1)", False),
        ('monkeypatch.setattr(begin, "boottime", None)', False),
    ],
)
def test_a_private_name_is_recognized(source: str, is_refused: bool) -> None:
    assert bool(others_private_names(source)) == is_refused
