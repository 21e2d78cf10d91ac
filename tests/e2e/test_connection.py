"""A test of a connection with the real server and its fleet process: an STS that verifies the server's own tokens lets it in, and what it
gives away is found nowhere else.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.system import System, eventually
from tests.machine import aws_service, leaks
from tests.machine.aws_service import ACCOUNT, AwsService, Role

pytestmark = [pytest.mark.timeout(180), pytest.mark.feature("W1.identities", "W4.fleet", "X1.runners")]
ROLE = f"arn:aws:iam::{ACCOUNT}:role/crew"


@pytest.fixture
def aws() -> Iterator[AwsService]:
    with aws_service.running() as service:
        who = {"Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/crew/terracrew", "UserId": "A", "Account": ACCOUNT}
        service.answers["GetCallerIdentity"] = [who]
        service.answers["GetServiceQuota"] = [{"Quota": {"Value": 0.0}}]
        yield service


def test_the_server_signs_in_with_its_own_tokens_and_keeps_nothing_of_the_session(
    system: System, aws: AwsService
) -> None:
    system.env["AWS_ENDPOINT_URL"] = aws.url
    system.starts_real_commands = True  # the search reads the memory of the processes
    server = system.start_server(runner=False)
    wanted = {"name": "aws-prod", "role_arn": ROLE, "region": "eu-central-1"}
    identity = system.api.post("/cloud-identities", wanted)
    aws.add(Role(arn=ROLE, issuer=system.url, audience=identity["audience"], subject=identity["subject"]))

    steps = steps_of_a_check(system)
    assert steps["sign_in"]["status"] == "done", steps
    assert steps["account"]["detail"] == ACCOUNT
    assert steps["others"]["detail"] == "tried and refused"
    assert "blocked" in steps["quota"]["detail"]
    assert "L-3032A538" in steps["quota"]["remedy"]
    assert "must begin with https" in steps["issuer"]["detail"], "the keys are right, but AWS would not read them here"

    secrets = [*aws.secret_keys, *aws.session_tokens]
    tokens = [asked["WebIdentityToken"] for _, asked in aws.asked if "WebIdentityToken" in asked]
    assert secrets
    assert len(tokens) > 1
    for path, content in leaks.files(system.directory):
        assert not [each for each in (*secrets, *tokens) if each.encode() in content], path
    if os.getuid() == 0:  # only root can read the memory of these processes
        holders = [pid for pid in leaks.fleet_processes() if leaks.held_in_memory(pid, secrets[0])]
        assert holders, "the search does not find what is there"
        assert leaks.held_in_memory(server.pid, *secrets) == []

    aws.roles[ROLE].subject = "organization:default:cloud-identity:aws-prod:of-before"
    refused = steps_of_a_check(system)["sign_in"]
    assert "AccessDenied" in refused["detail"], "the session of the first test is still valid, but a test signs in anew"
    assert "trust policy" in refused["remedy"]


def steps_of_a_check(system: System) -> dict[str, dict[str, Any]]:
    """Test the connection, and return the steps by their names."""
    job = system.api.post("/cloud-identities/aws-prod/test", {})
    ended = {"SUCCEEDED", "FAILED", "CANCELED"}

    def found() -> dict[str, Any] | None:
        shown = system.api.get(f"/fleet-jobs/{job['id']}")
        return shown if shown["status"] in ended else None

    return {step["name"]: step for step in eventually(found, what="the end of the test")["steps"]}
