"""The variables of an instance are settings that a runner knows, and none of them is a secret."""

from typing import Any

import pytest

from terracrew.api.deployments import DeploymentSettings
from terracrew.clouds import runner_environment
from terracrew.clouds.model import Deployment
from terracrew.clouds.runner_environment import INSTANCE_VARIABLE, WORKER_TOKEN_VARIABLE

RUNNER = "rnr_0190aaaabbbb7cccddddeeeeffff0001"


def _deployment(url: str = "https://terracrew.example.com", **settings: Any) -> Deployment:
    return Deployment(
        runner_id=RUNNER,
        runner_path="acme/cloud",
        organization_id="org_0190aaaabbbb7cccddddeeeeffff0002",
        server_url=url,
        region="",
        version="0.1.0",
        account_path="acme/bot",
        settings=DeploymentSettings(**settings),
    )


def test_an_instance_with_a_worker_token_names_its_runner_and_does_not_rotate_the_token_of_all_instances() -> None:
    found = runner_environment.variables(_deployment(capacity=2, idle_seconds=20), helper="/opt/credhelpers/aws")
    assert found["TERRACREW_RUNNER__CREDENTIALS__WORKER_ID"] == found["TERRACREW_RUNNER__ID"] == RUNNER
    assert found["TERRACREW_RUNNER__ROTATE_WORKER_TOKEN"] == "false"
    assert (found["TERRACREW_RUNNER__CAPACITY"], found["TERRACREW_RUNNER__IDLE_SECONDS"]) == ("2", "20")
    assert int(found["TERRACREW_RUNNER__STOP_SECONDS"]) < runner_environment.STOP_TIMEOUT_SECONDS
    assert "TERRACREW_RUNNER__CREDENTIALS__HELPER__COMMAND" not in found
    assert not {WORKER_TOKEN_VARIABLE, INSTANCE_VARIABLE} & set(found)


def test_a_federated_instance_has_a_helper_and_the_organization_in_which_its_paths_are_looked_up() -> None:
    found = runner_environment.variables(_deployment(credential="federated"), helper="/opt/credhelpers/aws")
    assert found["TERRACREW_RUNNER__CREDENTIALS__HELPER__COMMAND"] == "/opt/credhelpers/aws"
    assert found["TERRACREW_RUNNER__CREDENTIALS__SERVICE_ACCOUNT_PATH"] == "acme/bot"
    assert found["TERRACREW_RUNNER__ORGANIZATION_ID"].startswith("org_")
    assert "TERRACREW_RUNNER__CREDENTIALS__WORKER_ID" not in found


@pytest.mark.parametrize("url", ["https://terracrew.example.com", "http://10.0.0.1:7400"])
def test_plain_http_is_allowed_only_for_a_server_that_has_nothing_else(url: str) -> None:
    found = runner_environment.variables(_deployment(url), helper="")
    assert ("TERRACREW_SERVER__ALLOW_PLAIN_HTTP" in found) == url.startswith("http://")
