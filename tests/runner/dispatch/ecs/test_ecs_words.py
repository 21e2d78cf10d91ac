"""What ECS reports becomes words for the people who read why a job waits or how it ended."""

from typing import Any

import pytest

from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.runner.dispatch.ecs import tasks, words
from terracrew.runner.dispatch.ecs.api import EcsRefused, EcsSilent, translated
from terracrew.runner.dispatch.ecs.settings import EcsSettings
from terracrew.runner.dispatch.protocol import NotStarted

pytestmark = pytest.mark.feature("D5.ecs")
CHOSEN = EcsSettings("executor", "eu-central-1", "crew", "fargate", ["subnet-1"], ["sg-1"])
OWNER = tasks.TaskOwner.for_key("key", "rnr_1", "one")


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        ({"reason": "RESOURCE:MEMORY", "arn": "x"}, "has enough memory left: RESOURCE:MEMORY"),
        (
            {"reason": "Capacity is unavailable at this time. Please try again later"},
            "there is no capacity for the task at the moment",
        ),
        ({"reason": "AGENT", "detail": "i-1"}, "has an agent that is connected: AGENT (i-1)"),
        ({"reason": "something new"}, "ECS answered something new"),
    ],
)
def test_a_task_that_is_not_placed_has_a_reason(failure: dict[str, str], expected: str) -> None:
    said = words.of_failures([failure, failure])
    assert said.startswith("its task was not started: ")
    assert expected in said
    assert said.count(failure["reason"]) == 1
    assert words.of_failures([]).endswith("ECS did not say why")


@pytest.mark.parametrize(
    ("task", "container", "expected"),
    [
        (
            {
                "stopCode": "TaskFailedToStart",
                "stoppedReason": "CannotPullContainerError: pull image manifest: not found",
            },
            {},
            "its image cannot be pulled: CannotPullContainerError: pull image manifest: not found",
        ),
        (
            {"stopCode": "EssentialContainerExited", "stoppedReason": "Essential container in task exited"},
            {"exitCode": 137, "reason": "OutOfMemoryError: Container killed due to memory usage"},
            "its container was killed because memory ran out: OutOfMemoryError: Container killed",
        ),
        (
            {"stopCode": "SpotInterruption", "stoppedReason": "Your Spot Task was interrupted."},
            {},
            "it was spot capacity",
        ),
        ({"stopCode": "UserInitiated", "stoppedReason": "Task stopped by user"}, {"exitCode": 77}, "somebody stopped"),
        (
            {"stopCode": "EssentialContainerExited"},
            {"exitCode": 255},
            "its container was found dead, as after a restart",
        ),
        ({"stoppedReason": "Host EC2 (instance i-1) terminated."}, {}, "its task was ended: Host EC2 (instance i-1)"),
        ({}, {"exitCode": 1}, "its container ended with exit code 1"),
    ],
)
def test_the_end_of_a_task_has_a_reason(task: dict[str, Any], container: dict[str, Any], expected: str) -> None:
    assert expected in words.of_end(task, container)


class _LibraryError(Exception):
    def __init__(self, code: str, status: int) -> None:
        super().__init__(code)
        self.response = {
            "Error": {"Code": code, "Message": "words"},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (_LibraryError("InvalidParameterException", 400), EcsRefused),
        (_LibraryError("AccessDeniedException", 400), EcsRefused),
        (_LibraryError("ThrottlingException", 400), EcsSilent),
        (_LibraryError("ExpiredTokenException", 400), EcsSilent),
        (_LibraryError("ServerException", 500), EcsSilent),
        (_LibraryError("503", 503), EcsSilent),
        (TimeoutError("no answer"), EcsSilent),
    ],
)
def test_only_an_answer_about_the_request_counts(error: Exception, kind: type[Exception]) -> None:
    assert isinstance(translated(error), kind)


def test_a_request_holds_a_ticket_and_nothing_else_that_is_secret() -> None:
    made = tasks.request(CHOSEN, OWNER, "job_1.1", "executor", "https://crew.example", "tct_1")
    [override] = made["overrides"]["containerOverrides"]
    assert override == {
        "name": "executor",
        "command": ["ephemeral", "--start", "ticket:https://crew.example"],
        "environment": [{"name": "TERRACREW_START_TICKET", "value": "tct_1"}],
    }
    assert made["networkConfiguration"]["awsvpcConfiguration"] == {
        "subnets": ["subnet-1"],
        "securityGroups": ["sg-1"],
        "assignPublicIp": "DISABLED",
    }
    again = tasks.request(CHOSEN, OWNER, "job_1.1", "executor", "https://crew.example", "tct_1")
    other = tasks.request(CHOSEN, OWNER, "job_1.2", "executor", "https://crew.example", "tct_1")
    assert made["clientToken"] == again["clientToken"] != other["clientToken"]
    assert len(made["clientToken"]) <= 64
    assert "key" not in made["startedBy"].split("/")


def test_tasks_of_another_instance_are_not_ours() -> None:
    task = {"tags": OWNER.tags("job_1.1")}
    assert tasks.attempt_of(task, OWNER) == "job_1.1"
    assert tasks.attempt_of(task, tasks.TaskOwner.for_key("another key", "rnr_1", "one")) is None
    assert tasks.attempt_of({}, OWNER) is None


def test_a_job_may_ask_for_memory_processors_and_a_role() -> None:
    made = tasks.request(CHOSEN, OWNER, "job_1.1", "executor", "https://crew.example", "tct_1")
    role = "arn:aws:iam::123456789012:role/plan"
    asked = tasks.with_choice(made, DispatcherChoice(memory_mb=2048, cpu=0.5, service_account=role))
    assert {name: asked["overrides"][name] for name in ("memory", "cpu", "taskRoleArn")} == {
        "memory": "2048",
        "cpu": "512",
        "taskRoleArn": role,
    }
    assert tasks.with_choice(made, DispatcherChoice()) == made
    with pytest.raises(NotStarted, match="part of the task definition"):
        tasks.with_choice(made, DispatcherChoice(image="other"))


def test_only_a_task_that_somebody_stopped_has_a_cause() -> None:
    assert words.of_stop({"stopCode": "EssentialContainerExited", "stoppedReason": "Essential container exited"}) == ""
    stopped = {"stopCode": "TerminationNotice", "stoppedReason": "Host EC2 (instance i-1) terminated."}
    assert words.of_stop(stopped) == "the machine of its task was taken away: Host EC2 (instance i-1) terminated."
    assert words.of_stop({"stopCode": "UserInitiated"}) == "somebody stopped its task"
