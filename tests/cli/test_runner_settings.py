"""`terracrew runner settings` shows the effective values, where each came from and what it overrides, and no secret."""

import json
from pathlib import Path

import click
import pytest

from terracrew.cli.main import run as cli
from terracrew.cli.printing import output
from tests.settings.runner_files import FULL, RUNNER

SECRETS = ("hush-hush", "from-env", "s3cr3t")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "runner.json"
    path.write_text(json.dumps({**FULL, "job_log_stream": {"batch_size_limit": 10}}, indent=1))
    monkeypatch.setenv("HOME", "/home/crew")
    monkeypatch.setenv("TERRACREW_API_URL", "https://other.example")
    monkeypatch.setenv("TERRACREW_RUNNER__CREDENTIALS__CLIENT_SECRET", "from-env")
    monkeypatch.setenv("TERRACREW_RUNNER__CAPACITY", "5")
    return path


@pytest.mark.feature("E1.commands", "E1.json", "T2.shown")
def test_each_setting_is_printed_with_its_layer_and_what_it_overrides(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli(["runner", "settings", "--config", str(file), "--capacity", "6", "--json"]) == 0
    printed = capsys.readouterr().out
    found = {each["name"]: each for each in json.loads(printed)}
    assert not any(secret in printed for secret in SECRETS)
    assert found["server.url"] == {
        "name": "server.url",
        "value": "https://other.example",
        "origin": "environment TERRACREW_API_URL",
        "overrides": [{"value": "https://terracrew.example/", "origin": f"{file}:3"}],
    }
    assert found["runner.capacity"]["value"] == 6
    assert found["runner.capacity"]["origin"] == "option --capacity"
    assert found["runner.capacity"]["overrides"] == [{"value": "5", "origin": "environment TERRACREW_RUNNER__CAPACITY"}]
    assert found["runner.credentials.client_secret"]["value"] == "(hidden)"
    assert found["runner.credentials.client_secret"]["overrides"] == [{"value": "(hidden)", "origin": f"{file}:11"}]
    default = found["working_directory.working_directory"]
    assert (default["value"], default["origin"]) == ("/home/crew/.terracrew/runner", "default")
    assert found["job_log_stream.batch_size_limit"]["origin"] == f"{file}:15"
    assert found["runner.credentials.helper"]["value"] is None


@pytest.mark.feature("E1.commands", "T2.shown")
def test_the_table_is_for_people(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["runner", "settings", "--config", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["SETTING", "VALUE", "FROM"]
    at = next(number for number, line in enumerate(lines) if line.startswith("server.url"))
    assert lines[at].split(maxsplit=2) == ["server.url", "https://other.example", "environment TERRACREW_API_URL"]
    assert lines[at + 1].split() == ["overrides", "https://terracrew.example/", f"{file}:3"]
    assert any(line.split() == ["runner.id", RUNNER, f"{file}:6"] for line in lines)
    assert not any(secret in line for secret in SECRETS for line in lines)


@pytest.mark.feature("T2.shown")
def test_a_narrow_terminal_cuts_nothing_off(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "is_narrow", lambda: True)
    assert cli(["runner", "settings", "--config", str(file)]) == 0
    printed = capsys.readouterr().out
    expected = (
        "server.url  https://other.example\n"
        "  from environment TERRACREW_API_URL\n"
        f"  overrides https://terracrew.example/ from {file}:3\n"
        "server.allow_plain_http  false\n"
    )
    assert expected in click.unstyle(printed)
    assert not any(secret in printed for secret in SECRETS)


@pytest.mark.feature("T5.unknown", "T5.values")
def test_wrong_settings_are_refused_with_the_option_that_gave_them(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli(["runner", "settings", "--config", str(file), "--capacity", "none", "--set", "runner.color=red"]) != 0
    printed = capsys.readouterr().err
    assert "runner.capacity (option --capacity): must be a whole number from 1 to 1000, not 'none'" in printed
    assert "runner.color (option --set runner.color): there is no such setting" in printed
