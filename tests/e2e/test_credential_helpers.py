"""A real runner gets its tokens by a credential helper, and renews them without a new connection."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.constants import constants, environment
from tests.e2e.system import System, eventually
from tests.machine import oidc_issuer
from tests.machine.oidc_issuer import Issuer
from tests.thoroughness import thorough

pytestmark = pytest.mark.timeout(240)
SHORT = constants(server__identity__oidc__tokens__LIFETIME_SECONDS=8, server__hub__notify__TOKEN_LEEWAY_SECONDS=60.0)
"""Tokens are renewed every six seconds, and a slow machine may be late with that."""
HELPER = """
import json, sys
from pathlib import Path
tokens = sorted(Path(sys.argv[1]).iterdir())
if not tokens:
    sys.exit("there is no token left")
print(json.dumps({"token": tokens[0].read_text()}))
tokens[0].unlink()
"""


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with oidc_issuer.running() as found:
        yield found


def put(issuer: Issuer, system: System, folder: Path, count: int) -> None:
    """Let the helper have so many tokens. Each of them is accepted once."""
    folder.mkdir(exist_ok=True)
    for _ in range(count):
        name = f"{os.urandom(8).hex()}.part"
        (folder.parent / name).write_text(issuer.token(system.url, jti=name))
        (folder.parent / name).rename(folder / name)


@pytest.mark.feature("A4.command", "A3.exchange", "A6.renewal")
@thorough
def test_a_runner_with_a_credential_helper_stays_connected_and_survives_a_helper_that_fails(
    system: System, issuer: Issuer, tmp_path: Path
) -> None:
    system.env["TERRACREW_SERVER_FEDERATION_PRIVATE_ISSUERS"] = issuer.url
    with environment(system, SHORT):
        system.start_server(runner=False)
    credentials = system.register_runner()
    account = system.api.post("/service-accounts", {"name": "crew", "group": ""})["id"]
    policy = {"issuer": issuer.url, "audience": system.url, "claims": {"sub": "robot"}}
    system.api.post(f"/service-accounts/{account}/trust-policies", policy)
    system.api.patch("/runners/crew", {"service_account": account})
    helper, tokens = tmp_path / "helper.py", tmp_path / "tokens"
    helper.write_text(HELPER)
    own = {
        "TERRACREW_RUNNER__CREDENTIALS__CLIENT_ID": account,
        "TERRACREW_CREDENTIAL_HELPER_CMD_PATH": sys.executable,
        "TERRACREW_CREDENTIAL_HELPER_CMD_ARGS": json.dumps(["-S", "-E", str(helper), str(tokens)]),
        "TERRACREW_LOGGING__LOG_LEVEL": '{"terracrew.runner.connection.hub_connection": "Debug"}',
    }
    tokens.mkdir()
    others = {name: value for name, value in credentials.items() if "CREDENTIALS" not in name}
    runner = system.start_runner(others | own)
    eventually(
        lambda: (
            f"the credential helper {sys.executable} ended with exit status 1: there is no token left"
            in runner.log.read_text()
        ),
        what="the error of the helper",
    )
    put(issuer, system, tokens, 50)
    eventually(lambda: runner.log.read_text().count("the token is renewed") >= 2, what="two renewals")
    assert runner.log.read_text().count(": connected to http") == 1
    assert "eyJ" not in runner.log.read_text()


@pytest.mark.feature("A3.exchange", "A4.command", "D2.variables")
def test_a_runner_starts_with_nothing_but_the_general_variables(system: System, issuer: Issuer, tmp_path: Path) -> None:
    system.env["TERRACREW_SERVER_FEDERATION_PRIVATE_ISSUERS"] = issuer.url
    system.start_server(runner=False)
    system.api.post("/groups", {"path": "my-group"})
    account = system.api.post("/service-accounts", {"name": "bot", "group": "my-group"})["id"]
    policy = {"issuer": issuer.url, "claims": {"aud": "terracrew"}}
    system.api.post(f"/service-accounts/{account}/trust-policies", policy)
    system.api.post("/runners", {"name": "edge", "group": "my-group", "service_account": account})
    helper, tokens = tmp_path / "helper.py", tmp_path / "tokens"
    helper.write_text(HELPER)
    tokens.mkdir()
    for number in range(20):
        (tokens / str(number)).write_text(issuer.token("terracrew", jti=str(number)))
    general = {
        "TERRACREW_API_URL": system.url,
        "TERRACREW_RUNNER_PATH": "my-group/edge",
        "TERRACREW_SERVICE_ACCOUNT_PATH": "my-group/bot",
        "TERRACREW_CREDENTIAL_HELPER_CMD_PATH": sys.executable,
        "TERRACREW_CREDENTIAL_HELPER_CMD_ARGS": f"-S -E {helper} {tokens}",
        "TERRACREW_JOB_DISPATCHER_TYPE": "local",
        "TERRACREW_JOB_DISPATCHER_DATA_API_URL": system.url,
    }
    runner = system.start_runner(general, "edge", has_options=False)
    eventually(lambda: " as instance edge" in runner.log.read_text(), what="the connection")
