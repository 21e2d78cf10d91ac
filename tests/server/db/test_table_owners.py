"""Each table has one owner: its package's stores change it, and statements that read it stand in files of statements.

`table_owners.py` lists the owners and the exceptions, each with its reason.
"""

import re
from pathlib import Path

import pytest

from terracrew.api.jobs import ACTIVE, TERMINAL
from terracrew.server.db.statements import fragments
from tests.server.db import sql_in_sources
from tests.server.db.sql_in_sources import MIGRATIONS, SERVER, Change, Statement
from tests.server.db.table_owners import FRAGMENTS, READERS, STORES, WRITERS

OWNERS = {table: files[0].split("/")[0] for table, files in STORES.items()}
"""The package of each table."""
LISTED = {each.file for each in (*FRAGMENTS, *READERS, *WRITERS)} | {
    name for names in STORES.values() for name in names
}
"""The files that are named in `table_owners.py`."""


def changes(source: Path = SERVER) -> list[Change]:
    written = [change for each in sql_in_sources.statements(source) for change in each.changes]
    return [*written, *sql_in_sources.derived_inserts(source)]


def problem_of_change(change: Change) -> str:
    """Say why a file may not make this change; an empty text if it may."""
    if change.file in STORES[change.table]:
        return ""
    columns = {(each.file, each.table): each.columns for each in WRITERS}.get((change.file, change.table))
    if columns is None:
        return f"{change.file} changes {change.table}, which {STORES[change.table][0]} owns"
    if change.verb != "UPDATE":
        return f"{change.file} may only set columns of {change.table}"
    if not change.columns:
        return f"{change.file}: write the columns of {change.table} in full, so that they can be checked"
    return "" if change.columns <= columns else f"{change.file} may not set {set(change.columns - columns)}"


def problem_of_read(statement: Statement) -> str:
    """Say why a statement may not stand in its file; an empty text if it may."""
    if not _may_contain_statements(statement.file):
        return f"{statement.file} contains a statement: move it to a store or to reads\n{statement.text}"
    package = statement.file.split("/")[0]
    foreign = {table for table in statement.reads if OWNERS[table] != package}
    if len(foreign) < len(statement.reads) or any(OWNERS[table] == package for table in statement.mentions):
        return ""
    allowed = {each.file: each.tables for each in (*FRAGMENTS, *READERS)}.get(statement.file, frozenset[str]())
    owners = {table: OWNERS[table] for table in sorted(foreign - allowed)}
    return f"{statement.file} reads tables of other packages only: {owners}\n{statement.text}" if owners else ""


def _may_contain_statements(file: str) -> bool:
    """Files of statements are named `store.py`, `reads.py`, `<noun>_store.py` or `<noun>_reads.py`, or are listed."""
    return bool(re.search(r"(?:^|[/_])(?:store|reads)\.py$", file)) or file in LISTED


def test_every_table_has_an_owner() -> None:
    assert set(STORES) == sql_in_sources.tables()
    for files in STORES.values():
        assert len({file.split("/")[0] for file in files}) == 1, f"{files} are files of one package"


def test_a_table_is_changed_in_the_store_of_its_owner_only() -> None:
    """Jobs were once written by statements in 28 files, and two of them woke different listeners for the same change."""
    assert [problem for each in changes() if (problem := problem_of_change(each))] == []


def test_a_table_is_read_in_files_of_statements_of_its_owner_or_of_a_package_that_joins_it_to_its_own() -> None:
    """About 40 other files contained statements once, so that nobody could say who reads a column."""
    assert [problem for each in sql_in_sources.statements() if (problem := problem_of_read(each))] == []


def test_the_struct_of_a_table_is_described_by_its_owner() -> None:
    described = {(each.file, each.table) for each in sql_in_sources.described_tables()}
    foreign = {(file, table) for file, table in described if file.split("/")[0] != OWNERS[table]}
    assert foreign == {("connections/reads.py", "runners")}, "the hub reads a part of a runner, and is below `runners`"


def test_rows_of_a_described_table_are_inserted_by_a_derived_column_list() -> None:
    """A note is inserted by hand, unless its attempt has as many as it may. A hold holds every module by one statement, and one
    statement makes a delivery for each channel that tells of an event."""
    described = {each.table for each in sql_in_sources.described_tables() if each.file in STORES[each.table]}
    by_hand = {
        (change.file, change.table)
        for each in sql_in_sources.statements()
        for change in each.changes
        if change.verb == "INSERT INTO" and change.table in described
    }
    assert by_hand == {
        ("announcements/delivery_store.py", "notification_deliveries"),
        ("history/store.py", "held_modules"),
        ("jobs/attempt_store.py", "notes"),
    }


def test_no_exception_is_left_over() -> None:
    made = {(change.file, change.table) for change in changes()}
    assert [each for each in WRITERS if (each.file, each.table) not in made] == []
    assert [(f, table) for table, files in STORES.items() for f in files if (f, table) not in made] == []
    for each in (*FRAGMENTS, *READERS):
        found = [statement for statement in sql_in_sources.statements() if statement.file == each.file]
        read = {table for statement in found for table in statement.reads}
        assert each.tables <= read, f"{each.file} does not read {set(each.tables - read)} any more"


@pytest.mark.parametrize(
    ("source", "verb", "columns"),
    [
        (
            'tx.run("UPDATE jobs SET status = :a, plan = CASE WHEN x = 1 THEN 2 END WHERE id = :id")',
            "UPDATE",
            "status plan",
        ),
        ('tx.run(f"UPDATE jobs SET a = coalesce(b, (SELECT c FROM d)), e = {x} FROM batch")', "UPDATE", "a e"),
        ('tx.run("DELETE FROM jobs WHERE id = :id")', "DELETE FROM", ""),
        ('X = "WITH a AS (SELECT 1) INSERT INTO jobs (id) VALUES (:id)"', "INSERT INTO", ""),
        ("tx.run(store.JOBS.insert())", "INSERT INTO", ""),
        ('X = JOBS.insert_batch("id", "number")', "INSERT INTO", ""),
        ("from terracrew.server.jobs.store import JOBS as ROWS\nX = ROWS.insert()", "INSERT INTO", ""),
        ("rows = store.JOBS\nX = rows.insert()", "INSERT INTO", ""),
        ('X = Table("jobs", Job).insert()', "INSERT INTO", ""),
    ],
)
def test_a_change_in_another_file_is_found(tmp_path: Path, source: str, verb: str, columns: str) -> None:
    (tmp_path / "other.py").write_text(f'"""UPDATE runners SET nothing = 1"""\n{source}\n')
    found = changes(tmp_path)
    assert found == [Change("other.py", verb, "jobs", frozenset(columns.split()))]
    assert "which jobs/store.py owns" in problem_of_change(found[0])


def test_each_of_several_changes_in_one_text_is_found(tmp_path: Path) -> None:
    """The columns of the first change took the rest of the text with them, so the second one was never looked at."""
    statement = (
        "WITH a AS (UPDATE jobs SET status = :a RETURNING id) DELETE FROM notes WHERE job_id IN (SELECT id FROM a)"
    )
    (tmp_path / "other.py").write_text(f'X = "{statement}"\n')
    assert [(each.verb, each.table) for each in changes(tmp_path)] == [("UPDATE", "jobs"), ("DELETE FROM", "notes")]


READ = 'tx.one("SELECT id FROM jobs WHERE id = :id")'


@pytest.mark.parametrize(
    ("file", "source", "problem"),
    [
        ("jobs/service.py", READ, "contains a statement"),
        ("jobs/reads.py", READ, ""),
        ("jobs/plans/store.py", READ, ""),
        ("jobs/waiting_reads.py", READ, ""),
        ("tree/modules/store.py", READ, "reads tables of other packages only: {'jobs': 'jobs'}"),
        ("tree/modules/reads.py", 'X = "SELECT 1 FROM plans"', "reads tables of other packages only"),
        ("tree/groups/reads.py", 'X = "SELECT 1 FROM batch, jobs"', "reads tables of other packages only"),
        (
            "tree/groups/reads.py",
            'PART = "JOIN jobs ON true"\nX = f"SELECT 1 FROM batch {PART}"',
            "of other packages only",
        ),
        ("tree/groups/reads.py", 'PART = "FROM jobs"\nREST = " LIMIT 1"\nX = PART + REST', "of other packages only"),
        ("tree/groups/reads.py", 'PART = "JOIN jobs ON true"\nX = "SELECT 1 FROM groups " + PART', ""),
        ("hub/runners.py", 'X = "SELECT 1 FROM instances"', "contains a statement"),
    ],
)
def test_a_read_in_the_wrong_file_is_found(tmp_path: Path, file: str, source: str, problem: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(f'"""SELECT 1 FROM runners"""\n{source}\n')
    (found,) = sql_in_sources.statements(tmp_path)
    assert problem in problem_of_read(found)
    assert bool(problem) == bool(problem_of_read(found))


def test_the_fragments_have_the_texts_of_the_indexes_and_the_statuses_of_the_model() -> None:
    scripts = "".join(file.read_text() for file in MIGRATIONS.glob("*.sql"))
    for fragment, statuses in ((fragments.ACTIVE_STATUSES, ACTIVE), (fragments.ENDED_STATUSES, TERMINAL)):
        assert f"WHERE status IN {fragment};" in scripts
        assert set(re.findall(r"\w+", fragment)) == {status.value for status in statuses}


def test_the_statuses_of_active_and_ended_jobs_are_listed_in_one_place() -> None:
    listed = ("'CLAIMED', 'PROCESSING')", "'CANCELED', 'DECLINED')")
    files = {file.name for file in SERVER.rglob("*.py") if any(text in file.read_text() for text in listed)}
    assert files == {"fragments.py"}


def test_handlers_of_requests_connections_and_pages_contain_no_statement() -> None:
    """They call the stores and reads of the packages below them."""
    files = {each.file for each in sql_in_sources.statements()}
    assert [file for file in sorted(files) if file.startswith(("api/", "dashboard/", "hub/"))] == []
