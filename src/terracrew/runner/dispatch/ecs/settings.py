"""The settings of the dispatcher `ecs`: `job_dispatcher.data`, or variables TERRACREW_JOB_DISPATCHER_DATA_<NAME>."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from terracrew.runner.dispatch.containers import values
from terracrew.runner.dispatch.containers.values import SettingsReader

LaunchType = Literal["ec2", "fargate"]
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d+")
_ARN = r"arn:[a-z-]+:ecs:[a-z0-9-]+:\d{12}:"
_TASK_DEFINITION = re.compile(rf"({_ARN}task-definition/)?[A-Za-z0-9_-]{{1,255}}(:[1-9]\d*)?")
_CLUSTER = re.compile(rf"({_ARN}cluster/)?[A-Za-z0-9_-]{{1,255}}")
_SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}")
_SECURITY_GROUP = re.compile(r"sg-[0-9a-f]{8,17}")
_CONTAINER = re.compile(r"[A-Za-z0-9_-]{1,255}")
_MIN_START_SECONDS, _MAX_START_SECONDS = 30, 3600
_REQUIRED = {
    "task_definition": "the dispatcher `ecs` needs the task definition of executors: a family, a family and a revision, or an ARN",
    "region": "the dispatcher `ecs` needs the region of the cluster",
    "cluster": "the dispatcher `ecs` needs the cluster that tasks run in: a name or an ARN",
    "launch_type": "the dispatcher `ecs` needs to know what tasks run on: `fargate` or `ec2`",
}


class EcsSettings(msgspec.Struct, frozen=True):
    task_definition: str
    region: str
    cluster: str
    launch_type: LaunchType
    subnets: list[str] = []
    security_groups: list[str] = []
    assign_public_ip: bool = False
    container: str = ""
    """The container of the task definition that runs the executor; empty means its only one."""
    engines: dict[str, list[str]] = {}
    """The engines of the image, each with its versions; empty means that those of the runner's machine are announced."""
    start_seconds: float = 900.0
    """How long a task may take until its container runs, or ECS until it answers."""
    endpoint_url: str = ""
    """The address of ECS; empty means the usual one of the region, or AWS_ENDPOINT_URL_ECS."""


def _check(data: Mapping[str, str], found: Mapping[str, Any]) -> dict[str, str]:
    wrong = {name: words for name, words in _REQUIRED.items() if name not in data}
    if found.get("launch_type") == "fargate" and not data.get("subnets", "").strip(" ,"):
        wrong["subnets"] = "LAUNCH_TYPE=fargate needs the subnets of tasks, separated by commas"
    if "subnets" not in data:
        for name in ("security_groups", "assign_public_ip"):
            if name in data:
                wrong.setdefault(name, "it is used only with SUBNETS")
    if found.get("launch_type") == "ec2" and found.get("assign_public_ip"):
        wrong["assign_public_ip"] = "tasks get public addresses only with LAUNCH_TYPE=fargate"
    return wrong


def _launch_type(text: str) -> str:
    if text.strip().lower() not in ("ec2", "fargate"):
        raise ValueError(f"{text!r} is neither `ec2` nor `fargate`")
    return text.strip().lower()


def _start_seconds(text: str) -> float:
    if not text.strip().isdecimal() or not _MIN_START_SECONDS <= int(text) <= _MAX_START_SECONDS:
        raise ValueError(f"{text!r} is not a number of seconds between {_MIN_START_SECONDS} and {_MAX_START_SECONDS}")
    return float(text)


def _url(text: str) -> str:
    parts = urlsplit(text.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise ValueError(f"{text!r} is not an address such as `https://ecs.eu-central-1.amazonaws.com`")
    return text.strip()


_PARSERS: dict[str, Callable[[str], Any]] = {
    "task_definition": values.matching(
        "a task definition such as `executor`, `executor:7` or its ARN", _TASK_DEFINITION
    ),
    "region": values.matching("a region such as `eu-central-1`", _REGION),
    "cluster": values.matching("the name or the ARN of a cluster", _CLUSTER),
    "subnets": values.words("a subnet such as `subnet-0123456789abcdef0`", _SUBNET),
    "security_groups": values.words("a security group such as `sg-0123456789abcdef0`", _SECURITY_GROUP),
    "launch_type": _launch_type,
    "assign_public_ip": values.boolean,
    "container": values.matching("the name of a container", _CONTAINER),
    "engines": values.engines,
    "start_seconds": _start_seconds,
    "endpoint_url": _url,
}
_READER = SettingsReader("ecs", EcsSettings, _PARSERS, _check)
parse, problems = _READER.parse, _READER.problems
