"""`make test` repeats a failed test once, alone: scripts/run_tests.py with a real pytest on small directories."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.thoroughness import thorough

SCRIPTS = Path(__file__).parents[1] / "scripts"
# Fails the first time that it runs, as a test does that was too slow once.
FAILS_ONCE = """
import pathlib
def test_{name}():
    tried = pathlib.Path("tried-{name}")
    was_tried = tried.exists()
    tried.touch()
    assert was_tried
"""
# Each run of it adds a line to a file.
COUNTED = """
import pathlib
def test_counted():
    with pathlib.Path("runs").open("a") as file:
        file.write("run\\n")
"""


def _run(folder: Path, tests: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tests as the Makefile does, in a directory that has its own settings of pytest."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_small.py").write_text(tests)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "run_tests", "-q", *arguments],
        cwd=folder,
        # Loading every plugin of the environment would take longer than the tests.
        env=env | {"PYTHONPATH": str(SCRIPTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_run_without_failures_passes_and_repeats_nothing(tmp_path: Path) -> None:
    done = _run(tmp_path, COUNTED)
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "runs").read_text() == "run\n"
    assert "alone" not in done.stdout


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_test_that_fails_once_passes_the_run_and_is_named_at_its_end(tmp_path: Path, workers: str) -> None:
    tests = FAILS_ONCE.format(name="slow") + FAILS_ONCE.format(name="slower") + COUNTED
    done = _run(tmp_path, tests, "-n", workers, "--junitxml=report.xml")
    assert done.returncode == 0, done.stdout
    end = done.stdout.rpartition("2 tests failed beside the others and passed alone:")[2]
    assert {"test_small.py::test_slow", "test_small.py::test_slower"} <= set(end.split())
    assert (tmp_path / "runs").read_text() == "run\n"  # what passed is not repeated
    assert 'failures="2"' in (tmp_path / "report.xml").read_text()  # the second run writes no report


@thorough
def test_a_test_whose_name_has_spaces_and_brackets_is_repeated_alone(tmp_path: Path) -> None:
    cases = "@__import__('pytest').mark.parametrize('case', ['a b[c]::d'])\ndef test_slow(case)"
    done = _run(tmp_path, FAILS_ONCE.format(name="slow").replace("def test_slow()", cases))
    assert done.returncode == 0, done.stdout
    assert "1 test failed beside the others and passed alone:\n  test_small.py::test_slow[a b[c]::d]\n" in done.stdout


def test_a_test_that_fails_always_fails_the_run_beside_one_that_fails_once(tmp_path: Path) -> None:
    done = _run(tmp_path, FAILS_ONCE.format(name="slow") + "def test_wrong():\n    assert 1 == 2\n")
    assert done.returncode == 1, done.stdout
    end = done.stdout.rpartition("1 test failed beside the others and did not pass alone:")[2]
    assert end.split() == ["test_small.py::test_wrong"]


@thorough
def test_a_test_that_fails_and_is_then_left_out_fails_the_run(tmp_path: Path) -> None:
    left_out = "import pytest\n    if was_tried: pytest.skip()\n    raise OSError"
    done = _run(tmp_path, FAILS_ONCE.format(name="slow").replace("assert was_tried", left_out))
    assert "1 skipped" in done.stdout
    assert done.returncode == 1, done.stdout


@thorough
def test_a_fixture_that_fails_again_after_its_test_fails_the_run(tmp_path: Path) -> None:
    tests = "import pytest\n@pytest.fixture\ndef thing():\n    yield\n    raise OSError\ndef test_it(thing): pass\n"
    done = _run(tmp_path, tests)
    assert done.returncode == 1, done.stdout
    assert "did not pass alone" in done.stdout


@pytest.mark.parametrize(("count", "is_repeated"), [(15, True), (16, False)])
def test_more_than_fifteen_failures_are_not_repeated(tmp_path: Path, count: int, is_repeated: bool) -> None:
    done = _run(tmp_path, "".join(FAILS_ONCE.format(name=f"n{number}") for number in range(count)))
    assert done.returncode == (0 if is_repeated else 1), done.stdout
    assert ("passed alone" in done.stdout) is is_repeated


def test_a_run_that_stopped_at_its_first_failure_does_not_pass(tmp_path: Path) -> None:
    done = _run(tmp_path, FAILS_ONCE.format(name="slow") + COUNTED, "-x")
    assert done.returncode == 1, done.stdout
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("tests", "arguments", "code"), [("import nothing_of_this_name", (), 2), ("", (), 5), (COUNTED, ("--no",), 4)]
)
def test_a_run_that_did_not_test_fails_at_once(
    tmp_path: Path, tests: str, arguments: tuple[str, ...], code: int
) -> None:
    done = _run(tmp_path, tests, *arguments)
    assert done.returncode == code, done.stdout
    assert "alone" not in done.stdout
