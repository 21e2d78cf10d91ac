"""The settings of a runner: which layer wins, what is refused, and where the refusal points to."""

from pathlib import Path

import pytest

from terracrew.cli.main import run as cli
from terracrew.errors import Invalid
from terracrew.protocol.start import IsolationSettings, LogStreamSettings
from terracrew.runner.config import RunnerConfig
from terracrew.settings import layers
from terracrew.settings.runner import schema
from tests.settings.runner_files import FULL, ORGANIZATION, RUNNER, problems_of, write


@pytest.mark.feature("J14.defaults", "T1.required")
def test_a_file_with_the_four_required_settings_is_enough(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/crew")
    assert layers.load(file) == RunnerConfig(
        server_url="https://terracrew.example",
        runner_id=RUNNER,
        instance="one",
        client_id=f"{ORGANIZATION}:sac_3",
        client_secret="hush-hush",
        working_directory="/home/crew/.terracrew/runner",
        temp_directory="/home/crew/.terracrew/runner/.temp",
        rotates_worker_token=True,
        capacity=4,
        claims_engine_users=True,
        isolation=IsolationSettings("landlock", [], [], private_paths=[str(file)]),
        log_stream=LogStreamSettings(50, 5.0, True),
    )


@pytest.mark.feature("J14.defaults")
def test_both_directories_expand_the_home_of_the_user(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/crew")
    write(file, working_directory={"working_directory": "~/crew", "temp_directory": "~/scratch"})
    config = layers.load(file)
    assert (config.working_directory, config.temp_directory) == ("/home/crew/crew", "/home/crew/scratch")
    write(file, working_directory={"working_directory": "~/crew"})
    assert layers.load(file).temp_directory == "/home/crew/crew/.temp"


@pytest.mark.feature("T2.layers")
def test_each_layer_overrides_the_one_below_setting_by_setting(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(file, job_log_stream={"batch_size_limit": 10, "period_seconds": 1}, runner={**FULL["runner"], "capacity": 2})
    monkeypatch.setenv("TERRACREW_JOB_LOG_STREAM__PERIOD_SECONDS", "2.5")
    monkeypatch.setenv("TERRACREW_RUNNER__CAPACITY", "3")
    monkeypatch.setenv("TERRACREW_RUNNER__CREDENTIALS__CLIENT_SECRET", "from the environment")
    config = layers.load(file, {"runner.capacity": 8, "runner.instance": None})
    assert config.log_stream == LogStreamSettings(10, 2.5, True)
    assert config.capacity == 8
    assert config.client_secret == "from the environment"


@pytest.mark.feature("T1.address")
def test_the_address_has_one_setting_and_three_variables(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TERRACREW_URL", "TERRACREW_API_URL", "TERRACREW_SERVER__URL"):
        monkeypatch.setenv(name, f"https://{name.lower().replace('_', '-')}.example")
        assert layers.load(file).server_url == f"https://{name.lower().replace('_', '-')}.example"
    assert layers.load(file, {"server.url": "http://127.0.0.1:1"}).server_url == "http://127.0.0.1:1"


@pytest.mark.feature("T1.levels", "T1.names")
def test_toml_lists_paths_and_levels_are_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/crew")
    monkeypatch.setenv("TERRACREW_SOURCE__LOCAL_ROOTS", '["/a", "~/b"]')
    path = tmp_path / "runner.toml"
    path.write_text(
        f"""
        server.url = "http://localhost:7777"
        runner.id = "{RUNNER}"
        runner.instance = "one"
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


@pytest.mark.feature("T5.at-once")
def test_everything_that_is_wrong_is_said_at_once_each_with_its_place(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        file,
        runner={"organization_id": "job_1", "credentials": {"client_id": "c"}, "capcity": 3},
        job_log_stream={"batch_size_limit": 0},
    )
    monkeypatch.setenv("TERRACREW_ENGIN__ADDITIONAL_BINARY_PATHS", "/x")
    monkeypatch.setenv("TERRACREW_LOGGING__LOG_LEVEL__DEFAULT", "loud")
    problems = problems_of(file, **{"source.local_roots": "relative"})
    monkeypatch.setenv("TERRACREW_EXECUTOR", "landlock")
    refused_secret = problems_of(file, **{"runner.credentials.worker_token": "t"})
    problems += [each for each in refused_secret if each not in problems]
    for expected in (
        "  runner.id: this or runner.path is required (in the file, or as TERRACREW_RUNNER__ID, TERRACREW_RUNNER_PATH)",
        "  runner.instance: is required without runner.path (in the file, or as TERRACREW_RUNNER__INSTANCE)",
        f"  runner.organization_id ({file}:6): 'job_1' is not the id of an organization",
        f"  runner.credentials ({file}:7): there is client_id: give client_id or service_account_path with client_secret or helper,",
        f"  runner.capcity ({file}:10): there is no such setting; did you mean capacity?",
        f"  job_log_stream.batch_size_limit ({file}:13): must be a whole number from 1 to 10000, not 0",
        "  TERRACREW_ENGIN__ADDITIONAL_BINARY_PATHS (environment): there is no such variable; did you mean "
        "TERRACREW_ENGINE__ADDITIONAL_BINARY_PATHS?",
        "  logging.log_level.Default (environment TERRACREW_LOGGING__LOG_LEVEL__DEFAULT): must be `Trace`, `Debug`,",
        "  executor (environment TERRACREW_EXECUTOR): a section in one variable must be a JSON object",
        "  source.local_roots.0 (option --set source.local_roots): 'relative' is not an absolute path",
        "  runner.credentials.worker_token (option --set runner.credentials.worker_token): every user can read arguments",
    ):
        assert [problem for problem in problems if problem.startswith(expected)], (expected, problems)
    assert len(problems) == 12, "the credentials are refused with and without the token"


@pytest.mark.feature("T5.missing")
def test_without_any_settings_each_required_one_is_named() -> None:
    assert problems_of() == [
        "  server.url: is required (in the file, or as TERRACREW_SERVER__URL)",
        "  runner.id: this or runner.path is required (in the file, or as TERRACREW_RUNNER__ID, TERRACREW_RUNNER_PATH)",
        "  runner.instance: is required without runner.path (in the file, or as TERRACREW_RUNNER__INSTANCE)",
        "  runner.credentials: a credential is required: give client_id or service_account_path with "
        "client_secret or helper, or worker_id and worker_token",
    ]


@pytest.mark.feature("T5.values")
def test_no_refusal_repeats_a_secret(file: Path) -> None:
    write(file, runner={**FULL["runner"], "credentials": {"client_secret": "hush-hush", "worker_id": "w"}})
    with pytest.raises(Invalid) as refused:
        layers.load(file)
    assert "hush-hush" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
    with pytest.raises(Invalid, match="every user can read arguments") as refused:
        layers.load(file, {"runner.credentials.client_secret": "hush-hush"})
    assert "hush-hush" not in str(refused.value)


@pytest.mark.feature("X5.http")
def test_plain_http_is_refused_off_loopback_unless_it_is_allowed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERRACREW_URL", "http://terracrew.example")
    assert problems_of(file)[0].startswith("  server.url (environment TERRACREW_URL): plain http to another machine")
    for address in ("http://localhost:1", "http://127.0.0.9", "http://[::1]:2"):
        assert layers.load(file, {"server.url": address}).server_url == address
    monkeypatch.setenv("TERRACREW_SERVER__ALLOW_PLAIN_HTTP", "true")
    assert layers.load(file).server_url == "http://terracrew.example"


@pytest.mark.feature("T5.at-once")
@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.json", "{", ":1: this is not valid JSON, column 2: a key in double quotes is expected here"),
        ("a.toml", "\nport = ", ":2: this is not valid TOML, at its end: a value is expected here"),
        ("a.json", "[]", ":1: the file must be one JSON object with the settings, not a list"),
        ("a.json", "[" * 100_000, "is not valid JSON"),
        ("none/a.json", None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_is_none_is_refused_with_everything_else_that_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str | None, complaint: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("TERRACREW_RUNNER__CAPACITY", "many")
    problem, other = problems_of(path)  # and nothing is called missing, because it may be in the file
    assert str(path) in problem
    assert complaint in problem
    assert other.startswith("  runner.capacity (environment TERRACREW_RUNNER__CAPACITY): ")


@pytest.mark.feature("T2.layers", "T5.values")
def test_a_section_may_be_one_variable_if_it_is_json(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERRACREW_RUNNER", '{"capacity": 7, "instance": "two"}')
    monkeypatch.setenv("TERRACREW_RUNNER__INSTANCE", "three")
    config = layers.load(file)
    assert (config.capacity, config.instance) == (7, "three")
    monkeypatch.setenv("TERRACREW_RUNNER", "not json")
    (problem,) = problems_of(file)
    assert problem.startswith(
        "  runner (environment TERRACREW_RUNNER): a section in one variable must be a JSON object"
    )


@pytest.mark.feature("T1.levels", "T1.names", "T2.layers")
def test_a_category_of_the_log_is_the_same_in_every_layer(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--set logging.log_level.terracrew.runner=Debug` was refused, because the category has a dot."""
    write(file, logging={"log_level": {"default": "Error", "Terracrew.Runner": "Error", "terracrew.hub": "Error"}})
    monkeypatch.setenv("TERRACREW_LOGGING__LOG_LEVEL__TERRACREW__RUNNER", "warning")
    config = layers.load(file, {"logging.log_level.terracrew.hub": "Debug"})
    assert config.log_level == {"Default": "Error", "terracrew.runner": "Warning", "terracrew.hub": "Debug"}


@pytest.mark.feature("T5.unknown")
@pytest.mark.parametrize("name", ["TERRACREW_JOB_DISPATCHER_TYP", "TERRACREW_RUNNER_INSTANCE", "TERRACREW_SERVER_URL"])
def test_a_misspelt_variable_is_refused_and_those_of_other_programs_are_not(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Variables without `__` passed unnoticed."""
    for other in ("TERRACREW_TOKEN", "TERRACREW_SERVER_PORT", "TERRACREW_CACHE", "TERRACREW_ENDPOINT"):
        monkeypatch.setenv(other, "1")
    layers.load(file)
    monkeypatch.setenv(name, "local")
    (problem,) = problems_of(file)
    assert problem.startswith(f"  {name} (environment): there is no such variable; did you mean TERRACREW_")


@pytest.mark.feature("T4.editors")
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
        "warm_workspaces",
        "hooks_preapproval",
        "job_dispatcher",
        "job_dispatchers",
        "job_log_stream",
        "logging",
        "external",
    }
    assert made["additionalProperties"] is False
    assert not any("required" in section for section in made["$defs"].values())  # other layers may have what is missing
    write(file, **{"$schema": "./schema.json"})
    assert layers.load(file).runner_id == RUNNER


@pytest.mark.feature("T4.schema")
def test_the_published_schema_is_current_and_the_command_line_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["runner", "schema"]) == 0
    published = Path(__file__).parents[2] / "docs" / "runner.schema.json"
    assert capsys.readouterr().out == published.read_text(), "terracrew runner schema > docs/runner.schema.json"
