"""The version is in one place, and what repeats it for people to copy says the same."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from terracrew import __version__
from terracrew.source_rules.version_ranges import parse_version
from tests.thoroughness import thorough

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "version.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-I", SCRIPT, *arguments], capture_output=True, text=True, timeout=60)


def test_every_place_that_repeats_the_version_has_the_same() -> None:
    done = run("--check")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert run().stdout.strip() == __version__


def test_the_package_gets_its_version_from_the_source() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/terracrew/__init__.py"
    locked = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    assert [each.get("version") for each in locked if each["name"] == "terracrew"] == [None], "it is not in uv.lock"
    version = parse_version(__version__)
    assert version is not None
    assert version.python_form is not None, "a version that packages of Python cannot have"


@thorough
def test_a_new_version_is_written_everywhere(tmp_path: Path) -> None:
    for folder in ("deploy", "docs", "examples", "src/terracrew/settings"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("README.md", "src/terracrew/__init__.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    root = ("--root", str(tmp_path))
    chart = tmp_path / "deploy" / "helm" / "terracrew-runner" / "Chart.yaml"
    chart.write_text(chart.read_text().replace(__version__, "0.0.9"))
    assert run("--check", *root).stderr.splitlines()[0] == "deploy/helm/terracrew-runner/Chart.yaml: 0.0.9"
    assert run("7.8.9-beta.3", *root).returncode == 0
    assert run(*root).stdout == "7.8.9-beta.3\n"
    assert run("--check", *root).returncode == 0
    about = yaml.safe_load(chart.read_text())
    assert (about["version"], about["appVersion"]) == ("7.8.9-beta.3", "7.8.9-beta.3")
    assert "terracrew-7.8.9b3-py3-none-any.whl" in (tmp_path / "docs" / "ci.md").read_text()
    assert "terracrew-server:7.8.9-beta.3" in (tmp_path / "docs" / "installation.md").read_text()
    for wrong in ("7.8", "v7.8.9", "7.8.9-nightly.1", "7.8.9rc1"):
        assert "is not a version" in run(wrong, *root).stderr


def test_the_command_line_prints_the_version() -> None:
    program = Path(sys.executable).with_name("terracrew")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"terracrew {__version__}\n"
