"""The catalogue of environment variables: which names are known, and what an unknown one is answered with."""

import re
from pathlib import Path

import pytest

from terracrew.settings import variables

SOURCES = Path(__file__).parents[2] / "src" / "terracrew"


@pytest.mark.feature("T5.unknown")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("TERRACREW_SERVR_PORT", "there is no such variable; did you mean TERRACREW_SERVER_PORT?"),
        ("TERRACREW_RUNNER__CAPCITY", "there is no such variable; did you mean TERRACREW_RUNNER__CAPACITY?"),
        ("TERRACREW_TOKN", "there is no such variable; did you mean TERRACREW_TOKEN?"),
        ("TERRACREW_ZZZZZZZZZZZZ", "there is no such variable"),
        ("TERRACREW_SERVER_SHARED_RUNNERS", "only the server's settings file can have shared_runners"),
    ],
)
def test_an_unknown_variable_is_answered_with_the_nearest_name(name: str, words: str) -> None:
    assert variables.unknown({name: "x", "PATH": "/bin"}) == [(name, words)]


@pytest.mark.feature("T5.unknown")
def test_the_names_of_all_processes_are_known_to_each() -> None:
    known = [
        "TERRACREW_URL",
        "TERRACREW_SERVER_DATABASE_URL",
        "TERRACREW_SERVER_CONFIG",
        "TERRACREW_SERVER__URL",
        "TERRACREW_RUNNER__CREDENTIALS__WORKER_TOKEN",
        "TERRACREW_LOGGING__LOG_LEVEL__DEFAULT",
        "TERRACREW_JOB_DISPATCHER_DATA_IMAGE",
        "TERRACREW_OIDC_TOKEN_FILE_STS_AMAZONAWS_COM",
        "TERRACREW_GROUP_PATH",
        "TERRACREW_TOFU_SHA256",
    ]
    assert variables.unknown(dict.fromkeys(known, "")) == []


def test_every_variable_that_the_code_names_is_in_the_catalogue() -> None:
    named = {
        (file.name, name)
        for file in SOURCES.rglob("*.py")
        for name in re.findall(r"(?<!_)TERRACREW_[A-Z0-9_]*[A-Z0-9]\b(?![_<{])", file.read_text())
    }
    examples = {"TERRACREW_SECTION__NAME"}
    assert {each for each in named if not variables.is_known(each[1]) and each[1] not in examples} == set()


def test_what_kubernetes_sets_for_a_service_of_our_name_is_ignored() -> None:
    environment = {
        "TERRACREW_SERVER_SERVICE_HOST": "10.0.0.1",
        "TERRACREW_SERVER_SERVICE_PORT": "7400",
        "TERRACREW_SERVER_SERVICE_PORT_HTTP": "7400",
        "TERRACREW_SERVER_PORT": "tcp://10.0.0.1:7400",
        "TERRACREW_SERVER_PORT_7400_TCP_ADDR": "10.0.0.1",
    }
    assert variables.unknown(environment) == []
    assert "TERRACREW_SERVER_PORT" in variables.service_links(environment)
    assert "TERRACREW_SERVER_PORT" not in variables.service_links({**environment, "TERRACREW_SERVER_PORT": "7500"})
    assert variables.unknown({"TERRACREW_WEB_PORT_80_TCP": "x"}) != []
