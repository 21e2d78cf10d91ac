"""The settings of a runner: which layer wins, what is refused, and where the refusal points to."""

import json
import os
import socket
from pathlib import Path

import pytest

from terracrew.cli.main import run as cli
from terracrew.errors import Invalid
from terracrew.protocol.start import IsolationSettings, LogStreamSettings
from terracrew.runner.config import RunnerConfig
from terracrew.settings import layers
from terracrew.settings.runner import schema

RUNNER, ORGANIZATION = "rnr_" + "1" * 32, "org_" + "2" * 32
FULL = {
    "server": {"url": "https://terracrew.example/"},
    "runner": {
        "id": RUNNER,
        "organization_id": "2" * 32,
        "credentials": {"client_id": "sac_3", "client_secret": "hush-hush"},
    },
}


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("TERRACREW_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "runner.json"
    path.write_text(json.dumps(FULL))
    return path


def _write(file: Path, **sections: object) -> Path:
    file.write_text(json.dumps({**FULL, **sections}))
    return file


def _problems(file: Path | None = None, **options: object) -> list[str]:
    with pytest.raises(Invalid) as refused:
        layers.load(file, options)
    return refused.value.details["problems"]


@pytest.mark.feature("T1", "J14")
def test_a_file_with_the_four_required_settings_is_enough(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/crew")
    assert layers.load(file) == RunnerConfig(
        server_url="https://terracrew.example",
        runner_id=RUNNER,
        instance=socket.gethostname(),
        client_id=f"{ORGANIZATION}:sac_3",
        client_secret="hush-hush",
        working_directory="/home/crew/.terracrew/runner",
        temp_directory="/home/crew/.terracrew/runner/.temp",
        rotates_worker_token=True,
        capacity=4,
        isolation=IsolationSettings("landlock", [], [], private_paths=[str(file)]),
        log_stream=LogStreamSettings(50, 5.0, True),
    )


def test_isolation_and_the_paths_that_modules_need_are_settings(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(file, executor={"isolation": "none", "read_paths": ["/srv/mirror"]})
    monkeypatch.setenv("TERRACREW_EXECUTOR__WRITE_PATHS", "/srv/one:/srv/two")
    isolation = layers.load(file).isolation
    assert (isolation.mode, isolation.read_paths) == ("none", ["/srv/mirror"])
    assert isolation.write_paths == ["/srv/one", "/srv/two"]
    _write(file, executor={"isolation": "chroot"})
    assert any("executor.isolation" in problem and "'landlock' or 'none'" in problem for problem in _problems(file))


@pytest.mark.feature("A2", "T1")
def test_a_dispatcher_of_an_installed_package_is_chosen_and_gets_its_own_settings(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (layers.load(file).dispatcher, layers.load(file).dispatcher_data) == ("local", {})
    monkeypatch.setenv("TERRACREW_JOB_DISPATCHER__TYPE", "theirs")
    monkeypatch.setenv("TERRACREW_JOB_DISPATCHER__DATA__IMAGE", "executor:1")
    loaded = layers.load(file)
    assert (loaded.dispatcher, loaded.dispatcher_data) == ("theirs", {"image": "executor:1"})


def test_a_worker_id_and_token_stand_for_a_client_id_and_secret(file: Path) -> None:
    _write(file, runner={**FULL["runner"], "credentials": {"worker_id": "rnr_9", "worker_token": "wt"}})
    config = layers.load(file)
    assert (config.client_id, config.client_secret) == (f"{ORGANIZATION}:rnr_9", "wt")


@pytest.mark.feature("T2")
def test_each_layer_overrides_the_one_below_setting_by_setting(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(file, job_log_stream={"batch_size_limit": 10, "period_seconds": 1}, runner={**FULL["runner"], "capacity": 2})
    monkeypatch.setenv("TERRACREW_JOB_LOG_STREAM__PERIOD_SECONDS", "2.5")
    monkeypatch.setenv("TERRACREW_RUNNER__CAPACITY", "3")
    monkeypatch.setenv("TERRACREW_RUNNER__CREDENTIALS__CLIENT_SECRET", "from the environment")
    config = layers.load(file, {"runner.capacity": 8, "runner.instance": None})
    assert config.log_stream == LogStreamSettings(10, 2.5, True)
    assert config.capacity == 8
    assert config.client_secret == "from the environment"


@pytest.mark.feature("T1")
def test_the_address_has_one_setting_and_three_variables(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TERRACREW_URL", "TERRACREW_API_URL", "TERRACREW_SERVER__URL"):
        monkeypatch.setenv(name, f"https://{name.lower().replace('_', '-')}.example")
        assert layers.load(file).server_url == f"https://{name.lower().replace('_', '-')}.example"
    assert layers.load(file, {"server.url": "http://127.0.0.1:1"}).server_url == "http://127.0.0.1:1"


@pytest.mark.feature("T1")
def test_toml_lists_paths_and_levels_are_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/crew")
    monkeypatch.setenv("TERRACREW_SOURCE__LOCAL_ROOTS", '["/a", "~/b"]')
    path = tmp_path / "runner.toml"
    path.write_text(
        f"""
        server.url = "http://localhost:7777"
        runner.id = "{RUNNER}"
        runner.organization_id = "{ORGANIZATION}"
        runner.credentials = {{ client_id = "c", client_secret = "s" }}
        working_directory.working_directory = "~/elsewhere"
        engine.additional_binary_paths = ["~/bin"]
        logging.log_level.Default = "warning"
        logging.log_level."terracrew.runner" = "Trace"
        logging.anything_else = 1
        """
    )
    config = layers.load(path, {"engine.additional_binary_paths": "/opt/bin:~/bin"})
    assert config.engine_paths == ["/opt/bin", "/home/crew/bin"]
    assert config.source_roots == ["/a", "/home/crew/b"]
    assert config.temp_directory == "/home/crew/elsewhere/.temp"
    assert config.log_level == {"Default": "Warning", "terracrew.runner": "Trace"}


@pytest.mark.feature("T5")
def test_everything_that_is_wrong_is_said_at_once_each_with_its_place(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(
        file,
        runner={"organization_id": "job_1", "credentials": {"client_id": "c"}, "capcity": 3},
        job_log_stream={"batch_size_limit": 0},
    )
    monkeypatch.setenv("TERRACREW_ENGIN__ADDITIONAL_BINARY_PATHS", "/x")
    monkeypatch.setenv("TERRACREW_LOGGING__LOG_LEVEL__DEFAULT", "loud")
    problems = _problems(file, **{"source.local_roots": "relative"})
    for expected in (
        "  runner.id: is required (in the file, or as TERRACREW_RUNNER__ID)",
        f"  runner.organization_id ({file}): 'job_1' is not the id of a organization",
        f"  runner.credentials ({file}): give client_id and client_secret, or worker_id and worker_token",
        f"  runner.capcity ({file}): there is no such setting; did you mean capacity?",
        f"  job_log_stream.batch_size_limit ({file}): Input should be greater than or equal to 1",
        "  TERRACREW_ENGIN__ADDITIONAL_BINARY_PATHS (environment): there is no such variable; did you mean "
        "TERRACREW_ENGINE__ADDITIONAL_BINARY_PATHS?",
        "  logging.log_level.default (environment TERRACREW_LOGGING__LOG_LEVEL__DEFAULT): Input should be 'Trace'",
        "  source.local_roots.0 (command line): 'relative' is not an absolute path",
    ):
        assert [problem for problem in problems if problem.startswith(expected)], (expected, problems)
    assert len(problems) == 8


@pytest.mark.feature("T5")
def test_without_any_settings_each_required_one_is_named() -> None:
    assert _problems() == [
        "  server.url: is required (in the file, or as TERRACREW_SERVER__URL)",
        "  runner.id: is required (in the file, or as TERRACREW_RUNNER__ID)",
        "  runner.organization_id: is required (in the file, or as TERRACREW_RUNNER__ORGANIZATION_ID)",
        "  runner.credentials (nowhere): give client_id and client_secret, or worker_id and worker_token",
    ]


@pytest.mark.feature("T5")
def test_no_refusal_repeats_a_secret(file: Path) -> None:
    _write(file, runner={**FULL["runner"], "credentials": {"client_secret": "hush-hush", "worker_id": "w"}})
    with pytest.raises(Invalid) as refused:
        layers.load(file)
    assert "hush-hush" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
    with pytest.raises(Invalid, match="every user can read arguments") as refused:
        layers.load(file, {"runner.credentials.client_secret": "hush-hush"})
    assert "hush-hush" not in str(refused.value)


@pytest.mark.feature("X5")
def test_plain_http_is_refused_off_loopback_unless_it_is_allowed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERRACREW_URL", "http://terracrew.example")
    assert _problems(file)[0].startswith("  server (environment TERRACREW_URL): plain http to another machine")
    for address in ("http://localhost:1", "http://127.0.0.9", "http://[::1]:2"):
        assert layers.load(file, {"server.url": address}).server_url == address
    monkeypatch.setenv("TERRACREW_SERVER__ALLOW_PLAIN_HTTP", "true")
    assert layers.load(file).server_url == "http://terracrew.example"


@pytest.mark.feature("T5")
@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.json", "{", "is not valid JSON"),
        ("a.toml", "= 1", "is not valid TOML"),
        ("a.json", "[]", "does not hold an object"),
        ("none/a.json", None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, name: str, content: str | None, complaint: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(Invalid, match=complaint) as refused:
        layers.load(path)
    assert str(path) in str(refused.value)


@pytest.mark.feature("T5")
def test_a_section_that_is_no_json_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERRACREW_RUNNER", "not json")
    with pytest.raises(Invalid, match="an environment variable is not valid JSON"):
        layers.load(file)


@pytest.mark.feature("T4")
def test_the_schema_describes_every_setting_and_allows_the_key_that_names_it(file: Path) -> None:
    made = schema()
    assert set(made["properties"]) == {
        "$schema",
        "server",
        "runner",
        "working_directory",
        "engine",
        "executor",
        "source",
        "job_dispatcher",
        "job_log_stream",
        "logging",
    }
    assert made["additionalProperties"] is False
    assert made["$defs"]["RunnerSection"]["required"] == ["id", "organization_id", "credentials"]
    _write(file, **{"$schema": "./schema.json"})
    assert layers.load(file).runner_id == RUNNER


@pytest.mark.feature("T4")
def test_the_published_schema_is_current_and_the_command_line_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["runner", "schema"]) == 0
    published = Path(__file__).parents[2] / "docs" / "runner.schema.json"
    assert capsys.readouterr().out == published.read_text(), "terracrew runner schema > docs/runner.schema.json"
