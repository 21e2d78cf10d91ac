"""The settings of a server: which layer wins, what is refused, and where the refusal points to."""

import hashlib
import json
import os
import tomllib
from pathlib import Path

import jsonschema_rs
import pytest

from terracrew.cli.commands.server.serve import Given
from terracrew.cli.main import run as cli
from terracrew.errors import Invalid
from terracrew.server.runners.shared.declaration import declared_runners
from terracrew.settings import server_layers
from terracrew.settings.effective import effective
from terracrew.settings.server import ServerSettings, schema
from terracrew.settings.shared_runners import BuiltInRunner

ROOT = Path(__file__).parents[2]
HASH = "ab" * 32


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("TERRACREW_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "server.toml"


def _problems(file: Path, **options: object) -> list[str]:
    with pytest.raises(Invalid) as refused:
        server_layers.merged(file, options)
    return refused.value.details["problems"]


@pytest.mark.feature("T2.layers")
def test_without_any_layer_a_server_has_the_defaults_of_the_model() -> None:
    assert server_layers.merged().settings == ServerSettings()


@pytest.mark.feature("T2.layers")
def test_each_layer_of_a_server_overrides_the_one_below(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('port = 1\nhost = "10.0.0.1"\norganization = "acme"\ntrusted_proxies = ["10.1.0.0/16"]\n')
    monkeypatch.setenv("TERRACREW_SERVER_PORT", "2")
    monkeypatch.setenv("TERRACREW_SERVER_ORGANIZATION", "")
    monkeypatch.setenv("TERRACREW_SERVER_TRUSTED_PROXIES", "10.2.0.0/16 10.3.0.1")
    monkeypatch.setenv("TERRACREW_SERVER_LOCAL_ROOTS", "/srv/a:/srv/b")
    merged = server_layers.merged(file, {"port": "3", "host": None})
    found = {each.name: (each.value, each.origin) for each in effective(merged)}
    assert found["port"] == (3, "option --port")
    assert found["host"] == ("10.0.0.1", f"{file}:2")
    assert found["organization"] == ("acme", f"{file}:3"), "an empty variable is none"
    assert found["trusted_proxies"] == (
        ["10.2.0.0/16", "10.3.0.1"],
        "environment TERRACREW_SERVER_TRUSTED_PROXIES",
    )
    assert found["leftovers_days"] == (30, "default")
    settings = merged.settings
    assert settings.local_roots == [Path("/srv/a"), Path("/srv/b")]
    assert file in settings.private_paths, "no module of a built-in runner may read the file"


@pytest.mark.feature("R3.built-in")
def test_a_shared_runner_runs_in_the_server_unless_it_says_otherwise(file: Path) -> None:
    """A declaration without a kind was refused: "is required: `built-in` or `remote`"."""
    file.write_text("[shared_runners.one]\n[shared_runners.two]\nslots = 3\n")
    assert jsonschema_rs.Draft202012Validator(schema()).is_valid(tomllib.loads(file.read_text()))
    declared = server_layers.merged(file).settings.shared_runners
    assert declared == {"one": BuiltInRunner(), "two": BuiltInRunner(slots=3)}
    file.write_text(f'[shared_runners.three]\nworker_token_sha256 = "{HASH}"\n')
    assert _problems(file) == [f"  shared_runners.three.kind ({file}:1): is required: `built-in` or `remote`"]


@pytest.mark.feature("T5.at-once")
def test_everything_that_is_wrong_with_a_servers_settings_is_said_at_once(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").write_text("\n")
    file.write_text(
        f"""
        prt = 3
        retain_logs_days = 0.5
        public_url = "terracrew.example.com"
        [shared_runners.gpu]
        kind = "remote"
        max_jbs = 3
        worker_token_sha256 = "abc"
        [shared_runners.two]
        kind = "remote"
        worker_token_file = "{tmp_path}/empty"
        [shared_runners.Bad_name]
        kind = "built-in"
        slots = 0
        [shared_runners.three]
        kind = "else"
        [shared_runners.four]
        tags = ["a b"]
        [shared_runners.five]
        kind = "remote"
        """
    )
    monkeypatch.setenv("TERRACREW_SERVER_DATABASE_URL", "postgresql://u:hush-hush@db/t")
    monkeypatch.setenv("TERRACREW_SERVER_TRUSTED_PROXIES", "10.0.0.0/8 proxy")
    monkeypatch.setenv("TERRACREW_SERVER_APPLY_LEASE_SECONDS", "soon")
    monkeypatch.setenv("TERRACREW_SERVR_PORT", "1")
    problems = _problems(file, port="80a")
    for expected in (
        "  port (option --port): must be a whole number from 0 to 65535, not '80a'",
        f"  prt ({file}:2): there is no such setting; did you mean port?",
        f"  retain_logs_days ({file}:3): must be a number that is at least 1, not 0.5",
        f"  public_url ({file}:4): 'terracrew.example.com' is not an address like https://",
        "  apply_lease_seconds (environment TERRACREW_SERVER_APPLY_LEASE_SECONDS): must be a number that is at least "
        "60, not 'soon'",
        "  TERRACREW_SERVR_PORT (environment): there is no such variable; did you mean TERRACREW_SERVER_PORT?",
        f"  shared_runners.gpu.max_jbs ({file}:7): there is no such setting; did you mean max_jobs?",
        f"  shared_runners.gpu.worker_token_sha256 ({file}:8): ",
        f"  shared_runners.two.worker_token_file ({file}:11): {tmp_path}/empty holds no worker token",
        f"  shared_runners.Bad_name ({file}:12): 'Bad_name' is not a name",
        f"  shared_runners.Bad_name.slots ({file}:14): must be a whole number from 1 to 1000, not 0",
        f"  shared_runners.three.kind ({file}:16): must be `built-in` or `remote`",
        f"  shared_runners.four.tags.0 ({file}:18): 'a b' is not a tag: use at most 63 letters",
        f"  shared_runners.five ({file}:19): give worker_token_sha256 or worker_token_file",
        "  master_key_file: is required with PostgreSQL",
        "  trusted_proxies.1 (environment TERRACREW_SERVER_TRUSTED_PROXIES): 'proxy' is neither an address nor a network",
    ):
        assert [problem for problem in problems if problem.startswith(expected)], (expected, problems)
    assert len(problems) == 16
    assert "hush" not in "".join(problems)


@pytest.mark.feature("T5.values")
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('database_url = "postgresql://u:hush-hush@db/t"', "master_key_file: is required with PostgreSQL"),
        (
            '[shared_runners.a]\nkind = "remote"',
            "shared_runners.a ({file}:1): give worker_token_sha256 or worker_token_file",
        ),
        (
            f'shared_runners.a = {{ kind = "remote", worker_token_sha256 = "{HASH}" }}\n'
            f'shared_runners.b = {{ kind = "remote", worker_token_sha256 = "{HASH}" }}',
            "shared_runners.b ({file}:2): it has the same worker token as a",
        ),
        (
            "shared_runners = []",
            "shared_runners ({file}:1): must be a section with settings of its own (a table in TOML, "
            "an object in JSON), not a list",
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(file: Path, content: str, words: str) -> None:
    file.write_text(content)
    [problem] = _problems(file)
    assert words.format(file=file) in problem
    assert "hush" not in problem


@pytest.mark.feature("R3.refused")
@pytest.mark.parametrize("options", [{}, {"shared_runners": {"a": {"kind": "built-in"}}}])
def test_only_the_file_declares_shared_runners(options: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    if options:
        assert cli(["server", "--shared-runners", "x", "settings"]) == 2
    else:
        monkeypatch.setenv("TERRACREW_SERVER_SHARED_RUNNERS", '{"a": {"kind": "built-in"}}')
        with pytest.raises(Invalid, match="only the server's settings file can have shared_runners"):
            server_layers.merged()


@pytest.mark.feature("R3.declared")
def test_a_worker_token_comes_as_a_hash_or_from_a_file_that_is_private(file: Path, tmp_path: Path) -> None:
    token = tmp_path / "gpu.token"
    token.write_text("tcw_" + "x" * 43 + "\n")
    file.write_text(f'[shared_runners.gpu]\nkind = "remote"\nworker_token_file = "{token}"\ntags = ["b", "a", "b"]\n')
    settings = server_layers.merged(file).settings
    assert settings.shared_runners is not None
    [runner] = declared_runners(settings.shared_runners, slots=4)
    assert (runner.name, runner.kind, runner.tags, runner.max_jobs) == ("gpu", "remote", ("a", "b"), 100)
    assert runner.worker_token_sha256 == hashlib.sha256(b"tcw_" + b"x" * 43).hexdigest()
    assert token in settings.private_paths


@pytest.mark.feature("R3.declared")
def test_a_token_in_place_of_its_file_is_refused_and_not_repeated(file: Path) -> None:
    token = "tcw_" + "x" * 43
    file.write_text(f'[shared_runners.gpu]\nkind = "remote"\nworker_token_file = "{token}"\n')
    [problem] = _problems(file)
    assert "this is a token, not the path of a file" in problem
    assert token not in problem


@pytest.mark.feature("T4.schema")
def test_the_published_schema_of_a_server_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["server", "schema"]) == 0
    published = (ROOT / "docs" / "server.schema.json").read_text()
    assert capsys.readouterr().out == published, "terracrew server schema > docs/server.schema.json"


@pytest.mark.feature("T4.editors")
def test_the_example_is_valid_by_the_schema_and_by_the_server() -> None:
    example = ROOT / "examples" / "server.toml"
    content = tomllib.loads(example.read_text())
    validator = jsonschema_rs.Draft202012Validator(schema())
    assert validator.is_valid(content)
    content["shared_runners"]["gpu"]["max_jbs"] = 1
    assert not validator.is_valid(content)
    declared = server_layers.merged(example).settings.shared_runners
    assert [each.kind for each in (declared or {}).values()] == ["built-in", "remote"]


@pytest.mark.feature("T2.shown")
def test_the_command_prints_the_settings_with_their_layers_and_no_secret(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('master_key_file = "/k"\n[shared_runners.built-in]\nkind = "built-in"\nslots = 2\n')
    monkeypatch.setenv("TERRACREW_SERVER_DATABASE_URL", "postgresql://u:hush-hush@db:5433/t?password=hush-hush")
    assert cli(["server", "--config", str(file), "--port", "99", "settings", "--json"]) == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["database_url"]["value"] == "postgresql://u:(hidden)@db:5433/t?(hidden)"
    assert found["database_url"]["origin"] == "environment TERRACREW_SERVER_DATABASE_URL"
    assert (found["port"]["value"], found["port"]["origin"]) == (99, "option --port")
    assert found["shared_runners.built-in.slots"] == {
        "name": "shared_runners.built-in.slots",
        "value": 2,
        "origin": f"{file}:4",
        "overrides": [],
    }
    assert cli(["server", "--config", str(file), "settings"]) == 0
    assert "hush" not in capsys.readouterr().out


def test_a_worker_token_is_made_with_what_file_and_runner_need(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    assert cli(["server", "worker-token", "gpu"]) == 0
    out = capsys.readouterr().out
    declared, _, exports = out.partition("export ")
    file.write_text(declared)
    assert server_layers.merged(file).settings.shared_runners is not None
    assert "TERRACREW_RUNNER__CREDENTIALS__WORKER_TOKEN=tcw_" in exports
    assert cli(["server", "worker-token", "Not a name"]) == 2


@pytest.mark.parametrize(
    "name",
    [
        "max_queued_jobs_per_organization",
        "max_archive_megabytes_per_organization",
        "max_log_megabytes_per_organization",
        "max_log_megabytes_per_attempt",
        "disk_reserve_megabytes",
    ],
)
def test_a_quota_is_not_negative_and_0_turns_it_off(file: Path, name: str) -> None:
    file.write_text(f"{name} = -1\n")
    assert any(name in each and "at least 0" in each for each in _problems(file))
    file.write_text(f"{name} = 0\n")
    assert getattr(server_layers.merged(file).settings, name) == 0


@pytest.mark.feature("D1.environment")
@pytest.mark.parametrize("pattern", ["*", "T*", "TERRACREW_*", "TERRACREW_SERVER_MASTER_KEY", "A*B", "A B"])
def test_engines_are_given_no_variable_of_terracrew(file: Path, pattern: str) -> None:
    file.write_text(f'runner_environment = ["AWS_*", "{pattern}"]\n')
    [problem] = _problems(file)
    assert "runner_environment.1" in problem
    assert "neither the name of a variable that jobs may have" in problem


@pytest.mark.feature("D1.environment")
def test_up_gives_engines_the_variables_of_clouds_unless_the_server_uses_them(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Given(None, {}, ("AWS_*",)).settings().runner_environment == ["AWS_*"]
    file.write_text('object_store = "s3://bucket"\n')
    assert not Given(file, {}, ("AWS_*",)).settings().runner_environment
    file.write_text('object_store = "s3://bucket"\nrunner_environment = ["ARM_*"]\n')
    assert Given(file, {}, ("AWS_*",)).settings().runner_environment == ["ARM_*"]
    file.write_text("runner_environment = []\n")
    assert not Given(file, {}, ("AWS_*",)).settings().runner_environment
    monkeypatch.setenv("AWS_NAME", "acme")
    file.write_text('[external.settings]\norganization = "variable:AWS_NAME"\n')
    assert not Given(file, {}, ("AWS_*",)).settings().runner_environment
    file.write_text('runner_environment = ["AWS_*"]\n[external.settings]\norganization = "variable:AWS_NAME"\n')
    assert Given(file, {}).settings().external_facts.secret_variables == ("AWS_NAME",), "no engine gets it"


@pytest.mark.parametrize(
    ("host", "public_url", "is_unencrypted"),
    [
        ("127.0.0.1", "", False),
        ("::1", "", False),
        ("localhost", "", False),
        ("0.0.0.0", "", True),
        ("10.1.2.3", "http://crew.example.com", True),
        ("0.0.0.0", "https://crew.example.com", False),
    ],
)
def test_a_server_knows_whether_passwords_travel_to_it_unencrypted(
    host: str, public_url: str, is_unencrypted: bool
) -> None:
    assert ServerSettings(host=host, public_url=public_url).is_reached_unencrypted is is_unencrypted


@pytest.mark.feature("W1.issuer")
@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("https://keys.example.com", None),
        ("https://bucket.s3.eu-central-1.amazonaws.com/crew/", None),
        ("http://127.0.0.1:7400", None),
        ("http://localhost", None),
        ("http://keys.example.com", "does not begin with https://"),
        ("https://keys.example.com:8443", "has a port: AWS accepts no issuer with one"),
        ("https://keys.example.com?x=1", "without a password, a query or a fragment"),
        ("https://keys.example.com/#x", "without a password, a query or a fragment"),
        ("https://user:hush-hush@keys.example.com", "without a password, a query or a fragment"),
        ("keys.example.com", "is not an address like https://issuer.example.com"),
        ("https://[x", "is not an address like https://issuer.example.com"),
        ("https://", "is not an address like https://issuer.example.com"),
    ],
)
def test_an_issuer_is_an_address_that_clouds_accept(file: Path, address: str, words: str | None) -> None:
    file.write_text(f'public_url = "https://crew.example.com"\nissuer_url = "{address}"\n')
    if words is None:
        settings = server_layers.merged(file).settings
        assert settings.issuer == address.rstrip("/")
        return
    (problem,) = _problems(file)
    assert f"issuer_url ({file}:2): " in problem
    assert words in problem
    assert "hush-hush" not in problem


@pytest.mark.feature("V1.signature")
@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3", None),
        ("RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO", "is not Base64"),
        ("RWQf6LRC", "has 6 bytes instead of 42"),
        ("secret", "is not Base64"),
    ],
)
def test_the_key_of_releases_is_a_public_key_of_minisign(file: Path, key: str, words: str | None) -> None:
    file.write_text(f'release_key = "{key}"\n')
    if words is None:
        assert server_layers.merged(file).settings.release_key == key
        return
    (problem,) = _problems(file)
    assert f"release_key ({file}:1): " in problem
    assert words in problem


@pytest.mark.feature("W1.issuer")
def test_the_issuer_is_the_public_url_by_default() -> None:
    assert ServerSettings(public_url="https://crew.example.com/").issuer == "https://crew.example.com"


def test_private_destinations_are_hosts_addresses_and_networks(file: Path) -> None:
    named = ["hooks.internal", "*.corp.example.com", "3com.example", "10.0.0.0/8", "127.0.0.1", "fd00::/8"]
    file.write_text(f"private_destinations = {json.dumps(named)}\n")
    assert server_layers.merged(file).settings.private_destinations == named
    for wrong in ("https://hooks.internal", "a b", "10.0.0.1/8", "*", "host:80"):
        file.write_text(f"private_destinations = {json.dumps([wrong])}\n")
        assert _problems(file)


@pytest.mark.feature("M3.email")
def test_a_password_for_a_mail_server_is_not_sent_unencrypted(file: Path) -> None:
    login = 'smtp_user = "crew"\nsmtp_password = "x"\nsmtp_tls = "none"\n'
    file.write_text(f'smtp_host = "mail.example.com"\n{login}')
    assert any("would be sent unencrypted" in each for each in _problems(file))
    file.write_text(f'smtp_host = "127.0.0.1"\n{login}')
    assert server_layers.merged(file).settings.smtp_user == "crew"
    file.write_text('smtp_host = "mail.example.com"\nsmtp_password = "x"\n')
    assert any("smtp_user" in each for each in _problems(file))
