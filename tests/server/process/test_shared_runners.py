"""What a start of a server makes of its declaration: which runners it runs, and what it logs about another server's file."""

import asyncio
import contextlib
import dataclasses
import logging
from pathlib import Path

import pytest

from terracrew.server.context import Server
from terracrew.server.process import builtin, shared_runners
from terracrew.server.runners.shared import declaration
from terracrew.settings.external.section import ExternalFacts
from terracrew.settings.shared_runners import BuiltInRunner
from tests.server.application import Application
from tests.server.declarations import declare

pytestmark = pytest.mark.feature("R3.declared")
NEAR = {"near": BuiltInRunner()}
OTHER = {"other": BuiltInRunner(slots=2)}


def _started_with(server: Server, declared: dict[str, BuiltInRunner], file: str = "/etc/server.toml") -> Server:
    settings = server.settings.model_copy(update={"shared_runners": declared})
    return dataclasses.replace(server, settings=settings.read_from(Path(file), ExternalFacts()))


def _names(found: list[builtin.LocalRunner]) -> list[tuple[str, bool]]:
    return [(each.name, each.is_left_behind) for each in found]


async def test_a_server_runs_the_built_in_runners_of_its_file(application: Application) -> None:
    server = _started_with(application.server, NEAR | OTHER)
    assert _names(await shared_runners.declare(server, with_built_in=None)) == [("near", False), ("other", False)]
    assert await shared_runners.declare(server, with_built_in=False) == []
    found = (await application.admin.get("/api/v1/runners/near")).json()
    assert (found["max_jobs"], found["declared_in"]) == (builtin.SLOTS, "/etc/server.toml")
    token = "SELECT worker_token_sha256 FROM runners WHERE name = :name"
    tokens = {await application.scalar(token, name=name) for name in ("near", "other")}
    assert len(tokens) == 2, "each has a token of its own"


async def test_a_retired_runner_that_ran_here_is_run_until_it_is_gone(application: Application) -> None:
    first = _started_with(application.server, NEAR | OTHER)
    await shared_runners.declare(first, with_built_in=None)
    builtin.directory_of(first.settings.directory, "near").mkdir(parents=True)
    second = _started_with(application.server, OTHER)
    assert _names(await shared_runners.declare(second, with_built_in=None)) == [("other", False), ("near", True)]
    await application.server.db.write(lambda tx: tx.run("DELETE FROM runners WHERE name = 'near'"))
    assert _names(await shared_runners.declare(second, with_built_in=None)) == [("other", False)]


async def test_a_server_without_a_declaration_runs_the_default_and_retires_nothing(
    application: Application, caplog: pytest.LogCaptureFixture
) -> None:
    server = application.server
    assert await shared_runners.declare(server, with_built_in=None) == []
    assert _names(await shared_runners.declare(server, with_built_in=True)) == [("built-in", False)]
    await shared_runners.declare(_started_with(server, NEAR), with_built_in=None)
    with caplog.at_level(logging.WARNING):
        assert _names(await shared_runners.declare(server, with_built_in=True)) == [("built-in", False)]
    assert "those of another file stay in effect" in caplog.text
    found = await application.admin.listed("/api/v1/runners")
    assert {each["name"]: each["is_declared"] for each in found} == {"built-in": True, "near": True}


async def test_servers_that_start_at_once_make_one_default_runner(application: Application) -> None:
    """A second server did not start, because both found no record and both inserted one. It is so when an earlier start has made
    the secret of built-in runners, and their record was retired since."""
    server = application.server
    await server.db.write(lambda tx: builtin.secret(tx, server.keys))
    starts = await asyncio.gather(*(shared_runners.declare(server, with_built_in=True) for _ in range(8)))
    assert {_names(found)[0] for found in starts} == {("built-in", False)}
    [runner] = await application.admin.listed("/api/v1/runners")
    entries = await application.admin.listed("/api/v1/audit", action="runner")
    assert [(each["action"], each["target_id"]) for each in entries] == [("runner.create", runner["id"])]


async def test_a_server_whose_declaration_was_replaced_says_so_once(
    application: Application, caplog: pytest.LogCaptureFixture
) -> None:
    server = _started_with(application.server, NEAR)
    await shared_runners.declare(server, with_built_in=None)
    with caplog.at_level(logging.WARNING):
        watching = asyncio.create_task(shared_runners.watch(server))
        await asyncio.sleep(0)
        await declare(server.db, declaration.declared_runners(OTHER, 4), file="/other.toml", host="far")
        async with asyncio.timeout(10):
            while "another server has replaced" not in caplog.text:
                await asyncio.sleep(0.01)
        await declare(server.db, declaration.declared_runners(OTHER, 4), file="/other.toml", host="far")
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    assert caplog.text.count("another server has replaced") == 1
    assert "/other.toml" in caplog.text
    current = await server.db.read(declaration.current)
    assert current is not None
    assert current.host == "far", "it does not fight for its own file"
