"""A runner announces only engines that run: a job that needs another one waits for a runner that has it."""

import logging
import os
from pathlib import Path

import pytest

from terracrew import plugins
from terracrew.executor.engines import contract
from terracrew.protocol import limits
from terracrew.runner.connection import announced_engines
from terracrew.toolchains.cache import directory

pytestmark = pytest.mark.feature("J4.found")
WORKS = '#!/bin/sh\necho \'{"terraform_version": "9.8.7"}\'\n'


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, and a PATH without engines."""
    monkeypatch.setenv("TERRACREW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def program(path: Path, script: str, mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(mode)
    return str(path.parent)


async def default_versions(paths: list[str]) -> dict[str, str]:
    return (await announced_engines.find(paths)).defaults


async def test_an_engine_that_answers_is_announced_with_its_version(tmp_path: Path) -> None:
    assert await default_versions([program(tmp_path / "bin" / "tofu", WORKS)]) == {"tofu": "9.8.7"}


@pytest.mark.parametrize(
    "script",
    ["#!/bin/sh\nexit 3\n", "#!/no/such/interpreter\n", "#!/bin/sh\necho hello\n", "\x7fELF of another machine"],
)
async def test_an_engine_that_does_not_say_its_version_is_not_announced(tmp_path: Path, script: str) -> None:
    assert await default_versions([program(tmp_path / "bin" / "tofu", script)]) == {}


async def test_an_engine_in_the_cache_that_no_longer_runs_is_not_announced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was asked only when it was installed. After its file was damaged, the runner took jobs that could only fail."""
    folder = program(directory("tofu", "1.12.6") / "tofu", WORKS)
    assert await default_versions([]) == {"tofu": "1.12.6"}
    program(Path(folder) / "tofu", "#!/bin/sh\nexit 126\n")
    with caplog.at_level(logging.WARNING):
        assert await default_versions([]) == {}
    assert f"{folder}{os.sep}tofu does not answer" in caplog.text


@pytest.mark.feature("J4.pulumi")
async def test_an_engine_that_prints_its_version_as_plain_text_is_announced(tmp_path: Path) -> None:
    folder = program(tmp_path / "bin" / "pulumi", "#!/bin/sh\necho v3.255.0\n")
    assert await default_versions([folder]) == {"pulumi": "3.255.0"}


@pytest.mark.feature("C3.hello")
async def test_an_engine_whose_version_the_hub_refuses_is_not_announced(tmp_path: Path) -> None:
    """The hub refused the whole runner, and none of its other engines served any job."""
    for version in ("9" * (limits.MAX_LABEL_CHARACTERS + 1), "9.8\\u0007"):
        script = f'#!/bin/sh\nprintf %s \'{{"terraform_version": "{version}"}}\'\n'
        assert await default_versions([program(tmp_path / "bin" / "tofu", script)]) == {}


@pytest.mark.parametrize("name", plugins.BUILT_IN[plugins.ENGINES])
async def test_an_engine_is_announced_with_the_versions_that_its_adapter_finds(tmp_path: Path, name: str) -> None:
    """A runner finds the engines of Terracrew without their adapters, which only executors need."""
    paths = [program(tmp_path / "bin" / each, WORKS) for each in ("tofu", "terraform")]
    paths.append(program(tmp_path / "bin" / "pulumi", "#!/bin/sh\necho v9.8.7\n"))
    found = (await announced_engines.find(paths)).versions
    assert found[name] == [each.version for each in contract.engine_named(name).find_all(paths)] == ["9.8.7"]


async def test_all_versions_of_an_engine_are_announced_with_the_default_one_first(tmp_path: Path) -> None:
    folder = program(tmp_path / "bin" / "tofu", WORKS)
    for version in ("1.12.6", "1.13.0"):
        program(directory("tofu", version) / "tofu", WORKS)
    found = await announced_engines.find([folder])
    assert found.defaults == {"tofu": "9.8.7"}
    assert found.versions == {"tofu": ["9.8.7", "1.13.0", "1.12.6"]}


async def test_an_engine_whose_default_version_does_not_run_is_not_announced_by_another_one(tmp_path: Path) -> None:
    """A job that accepts any version gets the default one."""
    program(directory("tofu", "1.12.6") / "tofu", WORKS)
    program(directory("tofu", "1.13.0") / "tofu", "#!/bin/sh\nexit 126\n")
    assert (await announced_engines.find([])).versions == {}
