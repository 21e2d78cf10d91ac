"""Engines are found where the user put them, in the order the user would expect."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from terracrew.errors import EngineMissing, Invalid
from terracrew.toolchains import cache, discovery, specs

from .release_site import program, put

pytestmark = [pytest.mark.feature("J4.found"), pytest.mark.usefixtures("empty_cache")]


def test_a_configured_directory_wins_over_path_and_path_over_the_cache(tmp_path: Path, bare_path: Path) -> None:
    put(cache.directory("tofu", "1.9.0"))
    assert discovery.find("tofu") == discovery.FoundEngine(
        "tofu", str(cache.directory("tofu", "1.9.0") / "tofu"), "1.9.0"
    )
    on_path = put(bare_path, content=program("1.8.1"))
    assert discovery.find("tofu") == discovery.FoundEngine("tofu", str(on_path), "1.8.1")
    configured = put(tmp_path / "mine", content=program("1.7.2"))
    assert discovery.find("tofu", [str(tmp_path / "mine")]) == discovery.FoundEngine("tofu", str(configured), "1.7.2")


def test_a_tilde_in_a_configured_directory_is_the_home_directory(
    tmp_path: Path, bare_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = put(tmp_path / "tools")
    found = discovery.find("tofu", ["~/tools"])
    assert found is not None
    assert found.path == str(path)


def test_the_newest_version_of_the_cache_is_used(bare_path: Path) -> None:
    for version in ("1.9.10", "1.9.9", "1.10.0-rc1", "1.10.0"):
        put(cache.directory("tofu", version))
    put(cache.root() / "engines" / "tofu" / "lost+found")
    assert [one.version for one in discovery.find_all()] == ["1.10.0", "1.10.0-rc1", "1.9.10", "1.9.9"]
    found = discovery.find("tofu")
    assert found is not None
    assert found.version == "1.10.0"


@pytest.mark.feature("J4.version")
def test_a_version_that_is_too_old_is_used_only_if_there_is_no_other(tmp_path: Path, bare_path: Path) -> None:
    old = put(bare_path, content=program("1.11.9"))
    found = discovery.find("tofu")
    assert found == discovery.FoundEngine("tofu", str(old), "1.11.9"), "a job with it fails, and says why"
    put(cache.directory("tofu", "1.12.6"))
    assert [one.version for one in discovery.find_versions("tofu")] == ["1.12.6", "1.11.9"]
    put(tmp_path / "mine", content=program("1.13.0"))
    assert [one.version for one in discovery.find_versions("tofu", [str(tmp_path / "mine")])] == [
        "1.13.0",
        "1.12.6",
        "1.11.9",
    ]


def test_a_program_that_does_not_answer_is_passed_over(tmp_path: Path, bare_path: Path) -> None:
    put(tmp_path / "mine", content=program(extra="raise SystemExit(1)"))
    assert discovery.find("tofu", [str(tmp_path / "mine")]) is None
    good = put(bare_path)
    found = discovery.find("tofu", [str(tmp_path / "mine")])
    assert found is not None
    assert found.path == str(good)


def test_a_missing_engine_says_where_we_looked_and_what_mends_it(
    tmp_path: Path, bare_path: Path, empty_cache: Path
) -> None:
    broken = put(tmp_path / "mine", content=program(extra="raise SystemExit(1)"))
    with pytest.raises(EngineMissing) as missing:
        discovery.require("tofu", [str(tmp_path / "mine")])
    for part in (
        "OpenTofu is not on this machine",
        f"{broken} did not answer `version -json`",
        str(tmp_path / "mine"),
        str(bare_path),
        str(empty_cache / "engines" / "tofu"),
        "terracrew engine install tofu",
    ):
        assert part in missing.value.message


def test_one_file_on_two_ways_is_one_engine(tmp_path: Path, bare_path: Path) -> None:
    put(bare_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "tofu").symlink_to(bare_path / "tofu")
    assert [one.path for one in discovery.find_all([str(tmp_path / "mine")])] == [str(tmp_path / "mine" / "tofu")]


def test_a_relative_directory_is_refused_and_on_path_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "module")
    monkeypatch.chdir(tmp_path / "module")
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}")
    assert discovery.find("tofu") is None
    with pytest.raises(Invalid, match="not an absolute path"):
        discovery.find("tofu", ["bin"])


def test_an_unknown_engine_is_refused_with_the_names_of_those_there_are() -> None:
    with pytest.raises(Invalid, match="use one of tofu, terraform, pulumi"):
        discovery.find("ansible")


def test_a_version_is_asked_again_only_when_the_file_has_changed(tmp_path: Path, bare_path: Path) -> None:
    count = f"open({str(tmp_path / 'asked')!r}, 'a').write('x')"
    path = put(bare_path, content=program("1.8.0", count))
    assert [discovery.require("tofu").version for _ in range(3)] == ["1.8.0"] * 3
    assert (tmp_path / "asked").read_text() == "x"
    put(bare_path, content=program("1.8.11", count))
    assert discovery.require("tofu") == discovery.FoundEngine("tofu", str(path), "1.8.11")
    assert (tmp_path / "asked").read_text() == "xx"


@pytest.mark.feature("X4.isolation")
def test_asking_a_version_shows_the_program_none_of_our_secrets(
    tmp_path: Path, bare_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERRACREW_MASTER_KEY", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("TF_CLI_CONFIG_FILE", "/does/not/exist")
    put(
        bare_path,
        content=program(extra=f"import os; open({str(tmp_path / 'env')!r}, 'w').write(str(dict(os.environ)))"),
    )
    discovery.require("tofu")
    shown = (tmp_path / "env").read_text()
    assert "secret" not in shown
    assert f"'TF_CLI_CONFIG_FILE': '{os.devnull}'" in shown


def test_looking_for_engines_loads_no_http_client_and_no_console() -> None:
    heavy = {"urllib3", "rich", "click", "zipfile", "asyncio", "pydantic"}
    told = subprocess.run(
        [sys.executable, "-c", "import sys, terracrew.toolchains.discovery; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not heavy & set(told.stdout.split())


@pytest.mark.parametrize("version", ["../../etc", "1.5", "1.5.7/../x", "latest", ""])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(Invalid, match="is not a version"):
        specs.wanted(specs.TOFU, version)


def test_terraform_after_the_last_free_release_is_not_installed() -> None:
    assert specs.wanted(specs.TERRAFORM, None) == "1.5.7"
    assert specs.wanted(specs.TERRAFORM, "v1.4.0") == "1.4.0"
    with pytest.raises(Invalid, match="last release under the MPL"):
        specs.wanted(specs.TERRAFORM, "1.6.0")
