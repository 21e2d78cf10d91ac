"""Each table is changed in one place: the store of the package that owns it. Exceptions are listed, each with its reason."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import terracrew.server
from terracrew.server.db.statements import fragments
from terracrew.server.jobs.model import ACTIVE, TERMINAL

SERVER = Path(terracrew.server.__file__).parent
MIGRATIONS = SERVER / "db" / "migrations"

STORES: dict[str, tuple[str, ...]] = {
    "api_tokens": ("identity/people/store.py",),
    "archives": ("modules/store.py",),
    "assignments": ("assignments/store.py",),
    "attempts": ("jobs/store.py", "jobs/attempts/claim_store.py"),
    "audit": ("audit/store.py",),
    "clock": ("db/postgres/clock.py", "db/sqlite/database.py"),
    "groups": ("groups/store.py",),
    "instances": ("connections/store.py",),
    "jobs": ("jobs/store.py", "jobs/attempts/claim_store.py"),
    "leases": ("db/lease.py",),
    "log_chunks": ("logs/store.py",),
    "log_objects": ("logs/store.py",),
    "modules": ("modules/store.py",),
    "notes": ("jobs/store.py",),
    "object_deletions": ("retention/store.py",),
    "one_time_links": ("identity/people/store.py",),
    "organizations": ("groups/store.py",),
    "outputs": ("state/store.py",),
    "plans": ("jobs/plans/store.py",),
    "removed": ("runners/store.py",),
    "retention_runs": ("retention/store.py",),
    "role_bindings": ("identity/access/store.py",),
    "runners": ("runners/store.py",),
    "service_account_secrets": ("identity/access/store.py",),
    "service_accounts": ("identity/access/store.py",),
    "sessions": ("identity/people/store.py",),
    "settings": ("db/stored_values.py",),
    "signing_keys": ("identity/keys/store.py",),
    "states": ("state/store.py",),
    "steps": ("jobs/store.py",),
    "uploads": ("uploads/store.py",),
    "users": ("identity/people/store.py",),
}
"""The files that may change a table. The claim has a file of its own, because one statement decides it and changes both tables."""


class Allowance(NamedTuple):
    file: str
    table: str
    columns: frozenset[str]
    """The only columns that the file may set; it neither inserts nor deletes rows."""
    reason: str


def _allowance(file: str, table: str, columns: str, reason: str) -> Allowance:
    return Allowance(file, table, frozenset(columns.split()), reason)


EXCEPTIONS = (
    _allowance(
        "connections/store.py",
        "attempts",
        "heard_at executor_server_id executor_heard_at",
        "who is connected to which server is written every few seconds, below the packages that know jobs",
    ),
    _allowance(
        "logs/store.py",
        "attempts",
        "log_moved log_removed_at log_removed_days has_log_chunks",
        "where the log of an attempt is changes in one transaction with its chunks and objects",
    ),
    _allowance(
        "state/store.py",
        "modules",
        "state_version",
        "the version counts the states of a module, and changes in one transaction with them",
    ),
    _allowance(
        "identity/access/store.py",
        "runners",
        "worker_token_sha256 next_worker_token_sha256 service_account_id",
        "these are credentials of the runner: identity looks them up, rotates and revokes them",
    ),
    *(
        _allowance(
            "rekey/inventory.py", table, column, "rekey replaces ciphertexts by compare-and-set, and nothing else"
        )
        for table, column in (
            ("attempts", "state_key"),
            ("modules", "sealed"),
            ("outputs", "content"),
            ("settings", "value"),
            ("signing_keys", "private_jwk"),
            ("states", "content"),
        )
    ),
)

_CHANGE = re.compile(
    r"\b(INSERT(?: OR REPLACE)? INTO|UPDATE|DELETE FROM)\s+([a-z_]+)\b(?=(?:\s+SET\s+(.*))?)", re.DOTALL
)
"""The columns are looked at and not consumed, so that a further change in the same text is found, too."""
_ASSIGNED = re.compile(r"(?:^|,)\s*([a-z_0-9]+)\s*=")


class Change(NamedTuple):
    file: str
    verb: str
    table: str
    columns: frozenset[str]


def texts(file: Path) -> Iterator[str]:
    """The string constants of a module that are not docstrings; `{}` stands for what is inserted into them."""
    tree = ast.parse(file.read_text())
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(each.value if isinstance(each, ast.Constant) else "{}" for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts | docstrings:
            yield node.value


def changes(source: Path = SERVER) -> list[Change]:
    known = tables()
    found: list[Change] = []
    for file in sorted(source.rglob("*.py")):
        for text in texts(file):
            for verb, table, assigned in _CHANGE.findall(text):
                if table in known:
                    found.append(Change(str(file.relative_to(source)), verb, table, _columns(assigned)))
    return found


def _columns(assigned: str) -> frozenset[str]:
    """The columns that a SET list assigns; what stands in parentheses is the value of one of them."""
    flat = assigned
    while (inner := re.sub(r"\([^()]*\)|\bCASE\b.*?\bEND\b", "_", flat, flags=re.DOTALL)) != flat:
        flat = inner
    return frozenset(_ASSIGNED.findall(re.split(r"\b(?:WHERE|FROM|RETURNING)\b", flat)[0]))


def tables() -> set[str]:
    scripts = "".join(file.read_text() for file in MIGRATIONS.glob("*.sql"))
    return set(re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)", scripts)) - {"migrations"}


def test_every_table_has_an_owner() -> None:
    assert set(STORES) == tables()
    for files in STORES.values():
        assert len({Path(file).parts[0] for file in files}) == 1, f"{files} are files of one package"


def test_a_table_is_changed_in_the_store_of_its_owner_only() -> None:
    """Jobs were once written by statements in 28 files, and two of them woke different listeners for the same change."""
    allowed = {(each.file, each.table): each.columns for each in EXCEPTIONS}
    for change in changes():
        if change.file in STORES[change.table]:
            continue
        columns = allowed.get((change.file, change.table))
        assert columns is not None, f"{change.file} changes {change.table}, which {STORES[change.table][0]} owns"
        assert change.verb == "UPDATE", f"{change.file} may only set columns of {change.table}"
        assert change.columns, (
            f"{change.file}: write the columns of {change.table} in full, so that they can be checked"
        )
        assert change.columns <= columns, f"{change.file} may not set {set(change.columns - columns)} of {change.table}"


def test_no_exception_is_left_over() -> None:
    made = {(change.file, change.table) for change in changes()}
    assert [each for each in EXCEPTIONS if (each.file, each.table) not in made] == []
    assert [(f, table) for table, files in STORES.items() for f in files if (f, table) not in made] == []


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
    ],
)
def test_a_statement_in_another_file_is_found(tmp_path: Path, source: str, verb: str, columns: str) -> None:
    (tmp_path / "other.py").write_text(f'"""UPDATE runners SET nothing = 1"""\n{source}\n')
    assert changes(tmp_path) == [Change("other.py", verb, "jobs", frozenset(columns.split()))]


def test_each_of_several_changes_in_one_text_is_found(tmp_path: Path) -> None:
    """The columns of the first change took the rest of the text with them, so the second one was never looked at."""
    statement = (
        "WITH a AS (UPDATE jobs SET status = :a RETURNING id) DELETE FROM notes WHERE job_id IN (SELECT id FROM a)"
    )
    (tmp_path / "other.py").write_text(f'X = "{statement}"\n')
    assert [(each.verb, each.table) for each in changes(tmp_path)] == [("UPDATE", "jobs"), ("DELETE FROM", "notes")]


def test_the_fragments_have_the_texts_of_the_indexes_and_the_statuses_of_the_model() -> None:
    scripts = "".join(file.read_text() for file in MIGRATIONS.glob("*.sql"))
    for fragment, statuses in ((fragments.ACTIVE_STATUSES, ACTIVE), (fragments.ENDED_STATUSES, TERMINAL)):
        assert f"WHERE status IN {fragment};" in scripts
        assert set(re.findall(r"\w+", fragment)) == {status.value for status in statuses}


def test_the_statuses_of_active_and_ended_jobs_are_listed_in_one_place() -> None:
    listed = ("'CLAIMED', 'PROCESSING')", "'CANCELED', 'DECLINED')")
    files = {file.name for file in SERVER.rglob("*.py") if any(text in file.read_text() for text in listed)}
    assert files == {"fragments.py"}


def test_handlers_of_requests_and_connections_contain_no_statement() -> None:
    """They call the stores and reads of the packages below them."""
    reading = re.compile(r"\b(?:FROM|JOIN)\s+([a-z_]+)\b")
    for face in ("api", "dashboard", "hub"):
        for file in sorted((SERVER / face).rglob("*.py")):
            named = {table for text in texts(file) for table in reading.findall(text)} & tables()
            assert not named or file.name == "gauges.py", f"{face}/{file.name} reads {named}"
