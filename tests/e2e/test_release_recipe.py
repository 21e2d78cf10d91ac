"""The pipeline of docs/releasing.md, run as GitLab runs it: a tag becomes a release that a real server shows."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from terracrew import __version__
from terracrew.releases import minisign
from tests.e2e.command_line import terracrew
from tests.e2e.system import System
from tests.machine.needs import need
from tests.machine.release_checkout import KEY, Checkout
from tests.thoroughness import thorough

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "releasing.md").read_text()
(PIPELINE,) = (yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
SECRET = KEY.to_file("the password", operations=2**15, memory_bytes=2**20)


def test_only_the_step_that_signs_has_the_key() -> None:
    """Tests and dependencies run in the same workflow, and must not be able to read it."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    steps = [(name, step) for name, job in workflow["jobs"].items() for step in job["steps"]]
    with_key = [(name, step["run"]) for name, step in steps if "secrets." in str(step)]
    assert with_key == [("release", "scripts/ci-release")]
    assert workflow["jobs"]["release"]["environment"] == "release"
    assert workflow["jobs"]["release"]["needs"] == "test"
    assert "secrets." not in str({name: value for name, value in workflow.items() if name != "jobs"})


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path)
    found.env["TERRACREW_SERVER_RELEASE_KEY"] = str(KEY.public_key)
    found.start_server(runner=False)
    yield found
    found.close()


def run(checkout: Checkout, system: System, token: str, tag: str) -> tuple[int, str]:
    """Run the job of the pipeline for a tag."""
    job = PIPELINE["release"]
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TERRACREW_", "CI", "GITHUB_", "ARGS", "MAKE", "MFLAGS"))
    }
    env |= job["variables"] | {"HOME": str(checkout.folder.parent), "PUBLISH_TO": system.url, "TERRACREW_TOKEN": token}
    env |= {"CI_COMMIT_TAG": tag, "RELEASE_KEY": SECRET, "RELEASE_KEY_PASSWORD": "the password"}
    command = ["bash", "-eo", "pipefail", "-c", "\n".join(job["script"])]
    done = subprocess.run(command, cwd=checkout.folder, env=env, capture_output=True, text=True, timeout=120)
    assert SECRET.splitlines()[1] not in done.stdout + done.stderr
    assert token not in done.stdout + done.stderr
    return done.returncode, done.stdout + done.stderr


@thorough
@pytest.mark.feature("V1.releases")
def test_a_tag_becomes_a_release_of_the_server(system: System, tmp_path: Path) -> None:
    need(None if shutil.which("make") and shutil.which("git") else "no make or no git here")
    checkout = Checkout.make(tmp_path / "repository", is_whole=False)
    checkout.lend_environment()
    token = system.api.post("/release-tokens", {"name": "ci"})["token"]

    code, said = run(checkout, system, token, "v9.9.9")
    assert (code, said) == (1, f"the tag is v9.9.9, and the version of this commit is {__version__}\n")

    code, said = run(checkout, system, token, f"v{__version__}")
    assert code == 0, said
    found = system.api.get(f"/releases/{__version__}")
    wheel = next(each for each in found["artifacts"] if each["kind"] == "wheel")
    file = checkout.made / wheel["name"]
    assert {each["name"] for each in found["artifacts"]} == {
        each.name for each in checkout.made.iterdir() if each.suffix != ".minisig"
    }
    minisign.verify_release_file(KEY.public_key, file, wheel["signature"], __version__, file.name)
    assert (
        found["commit_id"]
        == subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=checkout.folder, text=True).strip()
    )
    assert "make release" in terracrew(system, "release", "notes"), "the section of CHANGELOG.md"

    shutil.rmtree(checkout.made)
    code, said = run(checkout, system, token, f"v{__version__}")
    assert code != 0
    assert "is made and signed, but not published. To try again:\n    terracrew --url" in said
    assert "published once" in said
