"""After jobs that print a secret of every kind in every form, none is found in anything that anybody can read."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest

from tests.builders.secret_scanner import SecretScanner
from tests.conftest import SQLITE_AT_LEAST
from tests.e2e import planted_secrets
from tests.e2e.pair import administrators_token
from tests.e2e.planted_secrets import OF_THE_RUNNER, PLANTED
from tests.e2e.system import System, eventually, running
from tests.machine import git_https
from tests.machine.git_https import GitHttps
from tests.machine.repositories import Repository

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]
_NOT_SEARCHED = {"witness", "source", "served"}
"""What the test itself has written."""
_OF_AN_ATTEMPT = b"TERRACREW_GROUP_PATH="
"""Only the processes of a job have this in their environment; the secrets are there, too."""


@pytest.mark.parametrize("database_url", SQLITE_AT_LEAST, indirect=True)
@pytest.mark.feature("L5.executor", "L5.server", "J6.secrets", "J12.sensitive", "H1.scripts", "X1.runners")
def test_a_secret_of_every_kind_is_found_nowhere(tmp_path: Path, database_url: str) -> None:
    witness = tmp_path / "witness"
    witness.mkdir()
    is_sqlite = not database_url.startswith("postgres")
    with git_https.running(tmp_path / "served") as git, running(tmp_path, database_url) as system:
        _serve(git)
        system.env |= git.environment | planted_secrets.RUNNER_ENVIRONMENT
        system.starts_real_commands = True  # the search reads their arguments and environments
        system.start_server(runner=True)
        if not is_sqlite:
            (system.data / "admin.token").write_text(asyncio.run(administrators_token(database_url)))
        planted_secrets.plant(system, git.of("leak"), witness)
        failing = (
            [system.run("team/bad")] if is_sqlite else []
        )  # the other database stores the same: it gets fewer jobs
        jobs = [system.run("team/other", "APPLY")]
        assert system.wait(jobs[0])["status"] == "SUCCEEDED", system.log(jobs[0])
        wanted = {"type": "APPLY", "inputs": {"admin_password": PLANTED["input of the job"]}}
        jobs.append(system.api.post("/modules/team%2Fleak/jobs", wanted)["id"])
        eventually(lambda: (witness / "apply").exists() or system.status(jobs[1]) == "FAILED", what="the hook")
        assert system.status(jobs[1]) == "PROCESSING", system.log(jobs[1])[-3000:]
        try:
            _search_while_it_runs(system, jobs[1], SecretScanner(PLANTED | planted_secrets.noted(witness)))
        finally:
            (witness / "go").touch()
        assert system.wait(jobs[1])["status"] == "SUCCEEDED", system.log(jobs[1])[-3000:]
        own = {"own sensitive output": system.state("team/leak")["outputs"]["own"]["value"]}
        assert system.log(jobs[1]).count("LEAKED") == 3, "a hook after plan, a provisioner, and a hook after apply"
        for job in failing:
            jobs += [job, system.api.post("/modules/team%2Fleak/jobs", wanted | {"type": "DESTROY"})["id"]]
            assert system.wait(jobs[3])["status"] == "SUCCEEDED", system.log(jobs[3])[-3000:]
            assert system.wait(job)["status"] == "FAILED"
            assert "RuntimeError: the connection is ***" in system.log(job)
            assert "This is not right: ***" in system.log(job)
        noted = planted_secrets.noted(witness)
        assert {name.partition(" ")[0] for name in noted} >= {"oidc", "basic", "TF_HTTP_PASSWORD"}
        scanner = SecretScanner(PLANTED | OF_THE_RUNNER | noted | own)
        for job in jobs:
            for what, text in _shown(system, job):
                assert not scanner.found_in(text.encode()), (job, what)
        eventually(lambda: not any(system.directory.glob("**/attempts/*")) or None, what="the end of the attempts")
        for path, content in (*_files(system.directory), *_rows(system, database_url)):
            assert not scanner.found_in(content), path


def _serve(git: GitHttps) -> None:
    git.login = f"git:{PLANTED['credential of git']}"
    repository = Repository(git.root / "leak")
    for name, text in planted_secrets.leaking_files().items():
        (git.root / "leak" / name).write_text(text)
    repository.commit("all")


def _search_while_it_runs(system: System, job: str, scanner: SecretScanner) -> None:
    """Search the spool of the attempt, and all processes that are not part of it."""
    spools = list(system.directory.glob(f"**/attempts/{job}.1/outbox*"))
    assert spools
    for path in spools:
        assert not scanner.found_in(path.read_bytes()), path
    (printed,) = system.directory.glob(f"**/attempts/{job}.1/output")
    kinds = {each.rpartition(" (")[0] for each in scanner.found_in(printed.read_bytes())}
    assert kinds >= PLANTED.keys() - {"credential of git"}, "the scanner finds what was printed, before it is masked"
    assert "credential of git" not in kinds, "the engine does not get it"
    processes = dict(_processes())
    assert any(_OF_AN_ATTEMPT in text for text in processes.values())
    for pid, text in processes.items():
        assert _OF_AN_ATTEMPT in text or not scanner.found_in(text), (pid, text[:100])


def _processes() -> Iterator[tuple[str, bytes]]:
    """Yield the command line and the environment of each process."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                yield folder.name, (folder / "cmdline").read_bytes() + b"\0" + (folder / "environ").read_bytes()


def _shown(system: System, job: str) -> Iterator[tuple[str, str]]:
    api = system.api
    yield "log", system.log(job)
    found = api.get(f"/jobs/{job}")
    yield "job", str(found)
    yield "inputs", str(api.get(f"/jobs/{job}/inputs"))
    module = found["module_path"].replace("/", "%2F")
    yield "module", str(api.get(f"/modules/{module}"))
    yield "outputs", str(api.get(f"/modules/{module}/outputs"))
    yield "audit", str(api.get("/audit", limit=200))


def _files(directory: Path) -> Iterator[tuple[str, bytes]]:
    for path in directory.rglob("*"):
        is_ours = path.relative_to(directory).parts[0] in _NOT_SEARCHED
        if not is_ours and path.is_file() and not path.is_symlink():
            yield str(path), path.read_bytes()


def _rows(system: System, database_url: str) -> Iterator[tuple[str, bytes]]:
    if database_url.startswith("postgres"):
        yield from asyncio.run(_postgres_rows(database_url)).items()
        return
    with sqlite3.connect(system.data / "terracrew.db") as db:
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            yield table, _text(db.execute(f'SELECT * FROM "{table}"').fetchall())


async def _postgres_rows(url: str) -> dict[str, bytes]:
    db = await cast("Any", asyncpg).connect(url)
    try:
        tables = await db.fetch("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
        names = [row["table_name"] for row in tables]
        return {name: _text(await db.fetch(f'SELECT * FROM "{name}"')) for name in names}
    finally:
        await db.close()


def _text(rows: list[Any]) -> bytes:
    return b"\n".join(
        each if isinstance(each, bytes) else str(each).encode() for row in rows for each in tuple(row) if each
    )
