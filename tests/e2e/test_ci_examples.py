"""The pipelines of docs/ci.md, run as GitHub and GitLab run them: their scripts, and tokens of an issuer that the server trusts."""

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import command_lines
from tests.e2e import modules
from tests.e2e.command_line import terracrew
from tests.e2e.system import System
from tests.machine import oidc_issuer
from tests.machine.oidc_issuer import Issuer
from tests.thoroughness import thorough

pytestmark = pytest.mark.timeout(240)
PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text()
GITHUB, GITLAB = (yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
ISSUERS = re.compile(r"https://(token\.actions\.githubusercontent|gitlab\.example)\.com")
PULL_REQUEST = {"project_path": "acme/network", "pipeline_source": "merge_request_event", "ref_protected": "false"}
MAIN = {"project_path": "acme/network", "ref_type": "branch", "ref": "main", "ref_protected": "true"}
GITHUB_REPOSITORY = {"repository": "acme/network", "repository_owner_id": "1234567"}


@dataclass
class Repository:
    """A checkout of the repository `network`, in a system that was set up as the page says."""

    system: System
    issuer: Issuer
    folder: Path

    def run(self, script: str, **variables: str) -> int:
        programs = f"{self.folder / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = self.system.env | variables | {"PATH": programs, "TERRACREW_URL": self.system.url}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        done = subprocess.run(command, env=env, cwd=self.folder, capture_output=True, text=True, timeout=120)
        (self.folder / "said.txt").write_text(done.stdout + done.stderr)
        return done.returncode

    def gitlab(self, job: str, claims: dict[str, str]) -> int:
        """Run a job of the pipeline, except for the installation of the package, which is here."""
        lines = [*GITLAB[".terracrew"]["before_script"][1:], *GITLAB[job]["script"]]
        token = self.issuer.token(self.system.url, jti=uuid.uuid4().hex, **claims)
        return self.run("\n".join(lines), ID_TOKEN=token, CI_COMMIT_SHA=f"gitlab-{job}", **GITLAB[job]["variables"])

    def github(self, step: str, account: str, claims: dict[str, str]) -> int:
        """Log in, and run a step of the workflow."""
        path, variables = "/id?api-version=2", self.folder / "variables"
        variables.write_text("")
        value = {"value": self.issuer.token(self.system.url, jti=uuid.uuid4().hex, **GITHUB_REPOSITORY, **claims)}
        self.issuer.answers[f"{path}&audience={self.system.url}"] = (200, {}, json.dumps(value).encode())
        steps: dict[str, str] = {
            each["name"]: each["run"] for each in GITHUB["jobs"]["network"]["steps"] if "name" in each
        }
        login = {"ACTIONS_ID_TOKEN_REQUEST_TOKEN": "x", "ACTIONS_ID_TOKEN_REQUEST_URL": self.issuer.url + path}
        assert account in GITHUB["env"]["ACCOUNT"]
        if code := self.run(steps["Log in"], GITHUB_ENV=str(variables), ACCOUNT=account, **login):
            return code
        token = variables.read_text().strip().partition("=")[2]
        script = steps[step].replace("${{ github.event.number }}", "7")
        return self.run(script, TERRACREW_TOKEN=token, GITHUB_SHA=f"github-{step}")

    def newest_job(self) -> dict[str, Any]:
        return self.system.api.get("/jobs?limit=1")["items"][0]


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with oidc_issuer.running() as found:
        yield found


@pytest.fixture
def repository(system: System, issuer: Issuer, tmp_path: Path) -> Repository:
    system.env["TERRACREW_SERVER_FEDERATION_PRIVATE_ISSUERS"] = issuer.url
    system.start_server(runner=True)
    made = Repository(system, issuer, tmp_path / "checkout")
    (made.folder / "network").mkdir(parents=True)
    (made.folder / "network" / "main.tf").write_text(modules.quick())
    (made.folder / "bin").mkdir()
    (made.folder / "bin" / "gh").write_text('#!/bin/sh\necho "$@" > gh.txt\n')
    (made.folder / "bin" / "gh").chmod(0o755)
    terracrew(system, "module", "create", "acme/network", "--from", str(made.folder / "network"), "--parents")
    setup = re.sub(r"^```.*?^```", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    for words in command_lines.typed(setup):
        terracrew(system, *(ISSUERS.sub(issuer.url, word) for word in words))
    return made


@pytest.mark.feature("A3.exchange", "E1.commands")
@thorough
def test_the_pipelines_plan_a_pull_request_and_let_a_person_decide_about_the_main_branch(
    repository: Repository,
) -> None:
    for run in (
        lambda: repository.gitlab("plan", PULL_REQUEST),
        lambda: repository.github("Plan", "default:acme/plans", {"event_name": "pull_request"}),
    ):
        assert run() == 0, (repository.folder / "said.txt").read_text()
        assert "terraform_data" in (repository.folder / "diff.txt").read_text()
        assert (repository.newest_job()["type"], repository.newest_job()["status"]) == ("PLAN", "SUCCEEDED")
    assert "terraform_data" in (repository.folder / "comment.md").read_text()
    assert (repository.folder / "gh.txt").read_text().startswith("pr comment 7 ")

    for run in (
        lambda: repository.gitlab("apply", MAIN),
        lambda: repository.github("Apply", "default:acme/deploy", {"event_name": "push", "ref": "refs/heads/main"}),
    ):
        assert run() == 0, (repository.folder / "said.txt").read_text()
        assert (repository.newest_job()["type"], repository.newest_job()["status"]) == ("APPLY", "AWAITING_APPROVAL")
    before = repository.newest_job()["id"]
    assert repository.github("Apply", "default:acme/deploy", {"event_name": "push", "ref": "refs/heads/main"}) == 0
    assert repository.newest_job()["id"] == before, "the same commit is applied once"
    assert repository.gitlab("apply", PULL_REQUEST) != 0
    assert repository.github("Apply", "default:acme/deploy", {"event_name": "pull_request"}) != 0
    assert repository.newest_job()["id"] == before, "a pull request does not act as the account that applies"
