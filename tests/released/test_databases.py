"""This version starts on the databases of released versions, and keeps their data (ADR 0085)."""

import sqlite3
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.builders.clock import ManualClock
from tests.machine.postgres_server import PostgresServer
from tests.released import answers, kept
from tests.released.filling import MODULE

_BRIEF = "has rows for seconds or minutes"
EMPTY = {
    "configuration_versions": "needs a prompt",
    "identities": "needs a provider of identities",
    "identity_logins": "needs a provider of identities",
    "identity_providers": "needs a provider of identities",
    "identity_sessions": "needs a provider of identities",
    "login_policies": "needs a provider of identities",
    "mapping_rules": "needs a provider of identities",
    "state_uploads": "needs a prompt",
    "terminal_runs": "needs a prompt",
    "terminal_words": "needs a prompt",
    "clock": "only tests have a row in it",
    "cloud_instances": _BRIEF,
    "device_logins": _BRIEF,
    "ended_worker_tokens": _BRIEF,
    "engine_logins": _BRIEF,
    "exchanged_tokens": _BRIEF,
    "executor_starts": _BRIEF,
    "figure_samples": "only says when the loop that samples capacity ran",
    "figures": "begins with the version that has it",
    "forge_users": "needs a forge",
    "fleet_log": "needs a fleet process",
    "instance_updates": _BRIEF,
    "leases": _BRIEF,
    "log_objects": "needs the loop that moves logs to the object store",
    "module_locks": "is about terminals that work at the moment",
    "lost_resources": "is found again from the log",
    "object_deletions": _BRIEF,
    "plan_json": "needs a prompt",
    "provisioned_groups": "needs an identity provider",
    "provisioned_members": "needs an identity provider",
    "provisioned_people": "needs an identity provider",
    "provisioners": "needs an identity provider",
    "removed": "needs the loop of the retention",
    "removed_locks": "is about terminals that worked in the last days",
    "retention_runs": "needs the loop of the retention",
    "runner_alerts": "is about takeovers of the last days",
    "runner_outages": "is about runners that are away at the moment",
    "servers": _BRIEF,
    "sessions": "a login ends within days",
    "trigger_problems": _BRIEF,
    "triggered_modules": _BRIEF,
    "uploads": _BRIEF,
    "used_identity_tokens": _BRIEF,
}
"""The tables of which nothing is kept, each with the reason. A new table needs rows in `filling.py`, or a reason here."""
KINDS = [kept.SQLITE, pytest.param(kept.POSTGRES, marks=pytest.mark.postgres)]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def empty_url(kind: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a database without any tables; empty for a file of SQLite, which is restored with its folder."""
    if kind == kept.SQLITE:
        yield ""
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.unmigrated_database() as url:
        yield url


async def check(folder: Path, kind: str, target: Path, database_url: str) -> None:
    data, expected = kept.unpack(folder, kind, target, database_url)
    assert expected["modules/shop%2Fprod%2Fnetwork/state"]["content"]["serial"] == 3
    async with answers.open_again(database_url, data, _time_of(expected)) as application:
        assert answers.lost(expected, await answers.read(application)) == []
        job = await application.admin.made(f"{MODULE}/jobs", {"type": "APPLY"})
        assert job["status"] == "QUEUED"


def _time_of(expected: Mapping[str, Any]) -> ManualClock:
    """Return the time at which the database was kept: what expires later is not lost."""
    return ManualClock(max(datetime.fromisoformat(user["created_at"]) for user in expected["users"]).timestamp(), 0.001)


@pytest.mark.parametrize("version", kept.versions())
async def test_this_version_keeps_the_data_of_a_released_one(
    version: str, kind: str, empty_url: str, tmp_path: Path
) -> None:
    await check(kept.FOLDER / version, kind, tmp_path, empty_url)


async def test_a_database_that_is_kept_now_can_be_checked_later(
    kind: str, empty_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """It would be too late to find out with the next release that what was kept cannot be used."""
    made = tmp_path / "made"
    if kind == kept.SQLITE:
        await kept.keep_database(made, kind)
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        with server.unmigrated_database() as url:
            await kept.keep_database(made, kind, url)
    await check(made, kind, tmp_path, empty_url)
    if kind == kept.SQLITE:
        assert empty_tables(tmp_path / "data" / "terracrew.db") == EMPTY.keys()


def empty_tables(file: Path) -> set[str]:
    with sqlite3.connect(file) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {name for (name,) in tables if not database.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone()}


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ({"a": 1, "b": [{"c": 2}]}, []),
        ({"a": 1, "b": [{"d": 0}, {"c": 2, "e": 3}], "f": 4}, []),
        ({"a": 2, "b": [{"c": 2}]}, ["/a: 1 has become 2"]),
        ({"a": 1, "b": []}, ["/b[0] is missing or different: {'c': 2}"]),
        ({"b": [{"c": 2}]}, ["/a is missing"]),
    ],
)
def test_a_loss_is_found_and_an_addition_is_none(after: Any, found: list[str]) -> None:
    assert answers.lost({"a": 1, "b": [{"c": 2}]}, after) == found
