"""One mistake in the settings hides no other, and each is told in words of ours with its place."""

import copy
from pathlib import Path
from typing import Any

import pytest

from terracrew.errors import Invalid
from terracrew.settings import layers, server_layers
from tests.settings.runner_files import FULL, problems_of, write

WORDS_OF_LIBRARIES = ("Input should", "Expecting", "Value error", "valid dictionary", "could not be cast", "codec")


def _server_problems(file: Path, **options: object) -> list[str]:
    with pytest.raises(Invalid) as refused:
        server_layers.merged(file, options)
    return refused.value.details["problems"]


@pytest.mark.feature("T5.at-once")
def test_a_shared_runner_without_a_kind_hides_none_of_its_other_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text(
        '[shared_runners.gpu]\nslots = "x"\nmax_jbs = 1\ntags = ["ok", 3]\nmax_jobs = 0\nworker_token_sha256 = "tcw_hush"\n'
        '[shared_runners.cpu]\nkind = "remot"\nslots = 0\n'
    )
    assert _server_problems(file) == [
        f"  shared_runners.gpu.kind ({file}:1): is required: `built-in` or `remote`",
        f"  shared_runners.gpu.slots ({file}:2): must be a whole number from 1 to 1000, not 'x'",
        f"  shared_runners.gpu.max_jbs ({file}:3): there is no such setting; did you mean max_jobs?",
        f"  shared_runners.gpu.tags.1 ({file}:4): must be text, not a number",
        f"  shared_runners.gpu.max_jobs ({file}:5): must be a whole number from 1 to 10000, not 0",
        f"  shared_runners.gpu.worker_token_sha256 ({file}:6): this is not a SHA-256 hash of 64 lowercase hexadecimal digits; "
        "`terracrew server worker-token NAME` prints one",
        f"  shared_runners.cpu.kind ({file}:8): must be `built-in` or `remote`",
        f"  shared_runners.cpu.slots ({file}:9): must be a whole number from 1 to 1000, not 0",
    ]


@pytest.mark.feature("T5.at-once")
def test_a_value_in_place_of_a_section_hides_nothing_and_is_not_hidden(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`runner = 3` in the file passed unnoticed if a variable set `runner.capacity`."""
    write(file, runner=3, logging=[], job_log_stream={"period_seconds": 0})
    monkeypatch.setenv("TERRACREW_RUNNER__CAPACITY", "many")
    section = "must be a section with settings of its own (a table in TOML, an object in JSON)"
    assert problems_of(file, **{"server": "https://x", "server.allow_plain_http": "perhaps"}) == [
        f"  runner ({file}:5): {section}, not a number",
        f"  logging ({file}:6): {section}, not a list",
        "  server.allow_plain_http (option --set server.allow_plain_http): must be true or false, not 'perhaps'",
        "  runner.capacity (environment TERRACREW_RUNNER__CAPACITY): must be a whole number from 1 to 1000, not 'many'",
        f"  job_log_stream.period_seconds ({file}:8): must be a number that is more than 0 and at most 3600, not 0",
    ], "nothing of `runner` is called missing, because it may be meant by the 3"


@pytest.mark.feature("T5.at-once")
def test_a_key_that_is_there_twice_hides_no_other_mistake(tmp_path: Path) -> None:
    file = tmp_path / "server.json"
    file.write_text(
        '{"port": 1,\n "prt": 2,\n "port": 80000,\n "shared_runners": {"a": {\n"kind": "remote", "kind": 3}}}'
    )
    found = _server_problems(file)
    assert found[:4] == [
        f"  {file}:5: the key 'kind' is there twice; only one of its values could count",
        f"  {file}:3: the key 'port' is there twice; only one of its values could count",
        f"  port ({file}:3): must be a whole number from 0 to 65535, not 80000",
        f"  shared_runners.a.kind ({file}:5): must be `built-in` or `remote`",
    ]
    assert found[4:] == [f"  prt ({file}:2): there is no such setting; did you mean port?"]


@pytest.mark.feature("T5.at-once")
def test_a_file_that_cannot_be_read_hides_no_mistake_of_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is missing may be in the file; what is there and does not fit together is reported."""
    file = tmp_path / "runner.toml"
    file.write_bytes(b"a = 1\nb = '\xff'\n")
    monkeypatch.setenv("TERRACREW_RUNNER__ID", "rnr_" + "1" * 32)
    monkeypatch.setenv("TERRACREW_RUNNER_PATH", "a/b")
    monkeypatch.setenv("TERRACREW_RUNNER__CREDENTIALS__CLIENT_ID", "c")
    monkeypatch.setenv("TERRACREW_RUNNER__CREDENTIALS__WORKER_ID", "w")
    monkeypatch.setenv("TERRACREW_URL", "http://terracrew.example")
    found = problems_of(file)
    assert found[0] == f"  {file}:2: the settings file is not text in UTF-8"
    assert [each.partition(" (")[0] for each in found[1:]] == ["  runner.path", "  runner.credentials"]


@pytest.mark.feature("T5.values")
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("server.url", "http://[::1", "'http://[::1' is not an address: expected http(s)://host[:port]"),
        ("server.url", "https://a:b", "'https://a:b' has a port that is not a number from 0 to 65535"),
        ("server.url", "https://user:hush@[x", "'https://[x' is not an address"),
        ("runner.rotate_worker_token", "", "must be true or false, not an empty text"),
        ("runner.capacity", "9" * 5000, "must be a whole number from 1 to 1000, not a text of 5000 characters"),
        ("runner.instance", "n" * 101, "has 101 characters; at most 100 are allowed"),
        ("runner.instance", "", "must not be empty"),
        ("job_log_stream.period_seconds", "nan", "must be a number that is more than 0 and at most 3600, not 'nan'"),
        ("working_directory.cgroup", "of", "'of' is not `auto`, `off` or the absolute path of a cgroup"),
        (
            "working_directory.temp_directory",
            "~no-such-user/x",
            "begins with the home directory of a user who does not",
        ),
        ("source.local_roots", "[" * 100_000, "it begins with [ and is not a valid JSON list"),
        ("source.local_roots", "/a\0b", "has a character that cannot be printed"),
    ],
)
def test_each_kind_of_wrong_value_has_words_of_ours(file: Path, name: str, value: str, words: str) -> None:
    (problem,) = problems_of(file, **{name: value})
    assert f"(option --set {name}): " in problem
    assert words in problem
    assert not any(each in problem for each in (*WORDS_OF_LIBRARIES, "hush"))


@pytest.mark.feature("T5.values")
@pytest.mark.parametrize(
    "value", [None, True, 3, 2.5, "", "x", [], ["x"], [None], {}, {"x": "y"}, "[", "\0", float("inf"), 10**400]
)
def test_no_value_of_any_setting_gets_words_of_a_library(tmp_path: Path, value: Any) -> None:
    for settings, load in (
        (layers.RunnerProcessSettings, layers.merged),
        (server_layers.ServerSettings, server_layers.merged),
    ):
        given = dict.fromkeys(settings.model_fields, value)
        for options in (
            given,
            {name: {"x": value} for name in given},
            {**copy.deepcopy(FULL), "shared_runners": {"x": {"kind": value}}},
        ):
            message = ""
            try:
                load(None, options)
            except Invalid as error:
                message = error.message
            assert not any(each in message for each in WORDS_OF_LIBRARIES), message


@pytest.mark.feature("T5.values")
def test_every_wrong_network_is_named(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text('trusted_proxies = ["proxy", "10.0.0.1/8", "10.0.0.0/8"]\npublic_url = "https://u:hush@[x"\n')
    assert _server_problems(file) == [
        f"  public_url ({file}:2): 'https://[x' is not an address like https://terracrew.example.com",
        f"  trusted_proxies.0 ({file}:1): 'proxy' is neither an address nor a network such as 10.0.0.0/8",
        f"  trusted_proxies.1 ({file}:1): '10.0.0.1/8' is not the first address of its network: did you mean 10.0.0.0/8?",
    ]
