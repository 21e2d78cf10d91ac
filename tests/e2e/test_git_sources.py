"""A module from a real repository goes through every process: a secret of its group opens the repository, and its commit is
resolved once, shown, and kept by an approved plan."""

import pytest

from tests.e2e import modules
from tests.e2e.approvals import approve, waiting
from tests.e2e.system import System
from tests.machine import git_https
from tests.machine.repositories import Repository

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180), pytest.mark.feature("J5.git", "J5.once")]
TOKEN = "t0ken-of-the-group"


def test_an_approved_plan_goes_on_with_its_commit_and_a_moved_tag_is_reported(system: System) -> None:
    with git_https.running(system.directory / "served") as server:
        repository = Repository(server.root / "hello")
        first = repository.commit("first", main=modules.quick())
        repository.git("tag", "v1.0.0")
        system.env |= server.environment
        system.start_server(runner=True)
        server.login = f"git:{TOKEN}"
        system.api.post("/groups", {"path": "team"})
        secret = {"place": "team", "target": "environment", "name": "DEPLOY_TOKEN", "secret": TOKEN}
        system.api.post("/inputs", secret)
        source = {"kind": "git", "url": server.of("hello"), "version": "~> 1.0", "credential": "DEPLOY_TOKEN"}
        system.api.post("/modules", {"path": "team/hello", "source": source, "needs_approval": True})
        job = system.run("team/hello", "APPLY")
        waiting(system, job)
        second = repository.commit("second", main="nonsense {")
        repository.git("tag", "--force", "v1.0.0")
        approve(system, job)
        applied = system.wait(job)
        assert applied["status"] == "SUCCEEDED", system.log(job)
        assert (applied["source_commit"], applied["source_revision"]) == (first, "tag v1.0.0")
        assert len(applied["attempts"]) == 2
        moved = system.wait(system.run("team/hello"))
        assert moved["status"] == "FAILED", "the second commit is nonsense"
        assert (moved["source_commit"], moved["source_moved_from"]) == (second, first)
        assert f"the tag v1.0.0 has moved: in job {applied['number']} it was the commit {first}" in system.log(
            moved["id"]
        )
        assert TOKEN not in system.log(job) + system.log(moved["id"])
