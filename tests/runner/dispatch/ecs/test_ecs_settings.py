"""Every parameter of the dispatcher `ecs` is checked at the start, and all mistakes are reported at once."""

import pytest

from terracrew.errors import Invalid
from terracrew.runner.dispatch.ecs import settings
from terracrew.runner.dispatch.ecs.settings import EcsSettings

pytestmark = pytest.mark.feature("D5.ecs", "D7.parameters")
NEEDED = {
    "task_definition": "executor",
    "region": "eu-central-1",
    "cluster": "crew",
    "launch_type": "fargate",
    "subnets": "subnet-0123456789abcdef0, subnet-01234567",
}


def test_all_parameters_are_read() -> None:
    data = {
        **NEEDED,
        "security_groups": "sg-0123456789abcdef0",
        "assign_public_ip": "true",
        "container": "main",
        "engines": "tofu 1.12.6, tofu 1.11.0",
        "start_seconds": "300",
        "endpoint_url": "https://vpce-1.ecs.eu-central-1.vpce.amazonaws.com",
    }
    assert settings.parse(data) == EcsSettings(
        "executor",
        "eu-central-1",
        "crew",
        "fargate",
        ["subnet-0123456789abcdef0", "subnet-01234567"],
        ["sg-0123456789abcdef0"],
        assign_public_ip=True,
        container="main",
        engines={"tofu": ["1.12.6", "1.11.0"]},
        start_seconds=300,
        endpoint_url="https://vpce-1.ecs.eu-central-1.vpce.amazonaws.com",
    )


def test_everything_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(Invalid) as error:
        settings.parse({})
    for name in ("TASK_DEFINITION", "REGION", "CLUSTER", "LAUNCH_TYPE"):
        assert f"TERRACREW_JOB_DISPATCHER_DATA_{name}: the dispatcher `ecs` needs" in error.value.message


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("task_definition", "a b", "is not a task definition"),
        ("task_definition", "executor:0", "is not a task definition"),
        ("region", "Frankfurt", "is not a region such as"),
        ("cluster", "a/b", "is not the name or the ARN of a cluster"),
        ("subnets", "subnet-0123456789abcdef0,10.0.0.0/8", "'10.0.0.0/8' is not a subnet"),
        ("subnets", " , ", "LAUNCH_TYPE=fargate needs the subnets"),
        ("security_groups", "default", "is not a security group"),
        ("launch_type", "lambda", "neither `ec2` nor `fargate`"),
        ("assign_public_ip", "maybe", "neither `true` nor `false`"),
        ("container", "a.b", "is not the name of a container"),
        ("engines", "tofu", "is not an engine and its version"),
        ("start_seconds", "5", "between 30 and 3600"),
        ("endpoint_url", "ecs.local", "is not an address"),
        ("image", "x", "the dispatcher `ecs` has no such setting"),
    ],
)
def test_a_mistake_is_reported_with_its_variable(name: str, value: str, words: str) -> None:
    with pytest.raises(Invalid) as error:
        settings.parse({**NEEDED, name: value})
    assert f"TERRACREW_JOB_DISPATCHER_DATA_{name.upper()}: " in error.value.message
    assert words in error.value.message


def test_names_may_be_arns() -> None:
    arn = "arn:aws-us-gov:ecs:us-gov-west-1:123456789012"
    parsed = settings.parse(
        {**NEEDED, "cluster": f"{arn}:cluster/crew", "task_definition": f"{arn}:task-definition/executor:7"}
    )
    assert parsed.cluster.endswith("cluster/crew")


def test_parameters_of_the_network_need_one() -> None:
    ec2 = {name: value for name, value in NEEDED.items() if name != "subnets"} | {"launch_type": "EC2"}
    assert settings.problems(ec2) == {}
    assert settings.problems({**ec2, "security_groups": "sg-01234567"}) == {
        "security_groups": "it is used only with SUBNETS"
    }
    assert (
        "only with LAUNCH_TYPE=fargate"
        in settings.problems({**NEEDED, "launch_type": "ec2", "assign_public_ip": "true"})["assign_public_ip"]
    )
