"""An account of AWS in the process of the tests (moto), and a way to cut off the calls that are made to it.

moto keeps what is made and answers as AWS does, but it checks neither signatures nor rights, and its tasks run nothing.
"""

import importlib
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Literal

import pytest

from terracrew import ids
from terracrew.api.deployments import DeploymentSettings
from terracrew.clouds.aws.api import Answer, AwsApi, Pacer, Service
from terracrew.clouds.aws.cloud import AwsCloud
from terracrew.clouds.aws.errors import AwsRefused, action_name
from terracrew.clouds.aws.names import RUNNER_TAG, from_list, names_of
from terracrew.clouds.aws.steps.work import Waits
from terracrew.clouds.contract import Canceled, CloudSilent
from terracrew.clouds.model import AwsAccount, CloudIdentity, Deployment

REGION = "eu-central-1"
IMAGE = "registry.example/terracrew-runner:0.1.0"
_READS = ("describe_", "list_", "get_")


class Killed(BaseException):
    """The process was killed: nothing that it would have done afterwards happens."""


Fault = Literal["killed", "refused", "silent", "repeated"]
"""With `repeated`, the answer is lost, and the call is made again as `AwsApi` does it."""


class CutApi(AwsApi):
    """Calls the account. The n-th call that changes something is cut off: before it happens, or after it has happened."""

    changes: list[str]
    """The actions that changed something, in their order."""

    def __init__(self, identity: CloudIdentity) -> None:
        super().__init__(identity, _no_token, pacer=Pacer(share=1000.0))
        self.changes = []
        self.cut_at, self.fault, self.happens = -1, "killed", True
        self.on_call: Callable[[str], Awaitable[None]] = _nothing
        """Called before each call with its action. It may raise what AWS refuses."""
        self._is_dead = False

    def cut(self, at: int, fault: Fault, *, happens: bool) -> None:
        """Let the call with this number fail. With `happens`, AWS has done it, and only the answer is lost."""
        self.cut_at, self.fault, self.happens, self.changes, self._is_dead = at, fault, happens, [], False

    def heal(self) -> None:
        """Let all calls succeed from now on."""
        self.cut(-1, "killed", happens=True)
        self.on_call = _nothing

    async def call(self, service: Service, operation: str, *, max_seconds: float = 0.0, **arguments: Any) -> Answer:
        """Make one call. Nothing is repeated, whatever time the caller gives it."""
        if self._is_dead:
            raise Killed
        action = action_name(service, operation)
        await self.on_call(action)
        if operation.startswith(_READS):
            return await super().call(service, operation, max_seconds=0, **arguments)
        self.changes.append(action)
        is_cut = len(self.changes) - 1 == self.cut_at
        if is_cut and not self.happens:
            self._fail(action)
        answer = await super().call(service, operation, max_seconds=0, **arguments)
        if is_cut and self.fault == "repeated":
            return await super().call(service, operation, max_seconds=0, **arguments)
        if is_cut:
            self._fail(action)
        return answer

    def _fail(self, action: str) -> None:
        if self.fault == "killed":
            self._is_dead = True
            raise Killed
        if self.fault == "silent":
            raise CloudSilent(f"{action}: the connection was lost")
        raise AwsRefused(f"{action}: AccessDenied: not authorized", aws_code="AccessDenied", action=action)


class SaidSteps:
    """A reporter that keeps what it is given, and refuses a step that is begun or ended twice."""

    def __init__(self, cancels_at: str = "") -> None:
        """`cancels_at` is the step before which a person cancels the job."""
        self.steps: dict[str, str] = {}
        self.references: dict[str, str] = {}
        self.lines: list[str] = []
        self.is_canceled = False
        self._cancels_at = cancels_at

    def begin(self, step: str, words: str) -> None:
        assert step not in self.steps
        assert words
        self.steps[step] = "running"

    def done(self, step: str, reference: str = "", words: str = "") -> None:
        assert self.steps[step] == "running"
        self.steps[step], self.references[step] = "done", reference
        if self._cancels_at == step:
            self.is_canceled = True

    def failed(self, step: str, words: str, remedy: str = "") -> None:
        assert self.steps[step] == "running"
        self.steps[step] = f"failed: {words}"

    def line(self, text: str) -> None:
        self.lines.append(text)

    def require_wanted(self) -> None:
        if self.is_canceled:
            raise Canceled("a person has canceled the job")


@contextmanager
def opened() -> Generator[None]:
    """Let the process have an empty account, in which every role can be assumed."""
    library: Any = importlib.import_module("moto")
    with pytest.MonkeyPatch.context() as patch, library.mock_aws():
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.delenv("AWS_PROFILE", raising=False)
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        yield


def api(pacer: Pacer | None = None) -> AwsApi:
    """An API that repeats calls as the product does."""
    return AwsApi(identity(), _no_token, pacer=pacer)


def cloud(api: AwsApi, waits: Waits) -> AwsCloud:
    return AwsCloud(api.identity, _no_token, api=api, waits=waits)


def identity(way: Literal["workload", "web_identity"] = "workload") -> CloudIdentity:
    return CloudIdentity(
        id=ids.new("cid"),
        organization_id="org_1",
        name="production",
        subject="organization:acme:cloud-identity:production:x1",
        audience="sts.amazonaws.com",
        issuer="https://terracrew.example.com",
        cloud=AwsAccount(
            role_arn="arn:aws:iam::123456789012:role/crew", external_id="tc-external", region=REGION, way=way
        ),
    )


def deployment(runner_id: str = "", facts: dict[str, str] | None = None, **chosen: Any) -> Deployment:
    settings: dict[str, Any] = {"image": IMAGE, **chosen}
    return Deployment(
        runner_id=runner_id or ids.new("rnr"),
        runner_path="acme/cloud",
        organization_id="org_1",
        server_url="https://terracrew.example.com",
        region=REGION,
        version="0.1.0",
        account_path="acme/bot" if chosen.get("credential") == "federated" else "",
        settings=DeploymentSettings(**settings),
        facts=facts or {},
    )


def client(service: str) -> Any:
    """A client of the account itself, past what is tested."""
    boto3: Any = importlib.import_module("boto3")
    return boto3.client(service, region_name=REGION)


class Account:
    """Looks into the account past what is tested."""

    def __init__(self, client: Callable[[str], Any] = client) -> None:
        self.ecs, self.iam, self.logs, self.ec2, self.secrets = (
            client(each) for each in ("ecs", "iam", "logs", "ec2", "secretsmanager")
        )

    def things(self, runner_id: str) -> dict[str, list[str]]:
        """Return what exists for a runner, by its kind: names and ARNs."""
        names = names_of(runner_id)
        by_tag = [{"Name": f"tag:{RUNNER_TAG}", "Values": [runner_id]}]
        found = {
            "cluster": [
                each["clusterArn"]
                for each in self.ecs.describe_clusters(clusters=[names.cluster])["clusters"]
                if each["status"] != "INACTIVE"
            ],
            "roles": [
                arn
                for name in (names.execution_role, names.task_role)
                if (arn := self._found(lambda name=name: self.iam.get_role(RoleName=name)["Role"]["Arn"]))
            ],
            "log_group": [
                each["arn"] for each in self.logs.describe_log_groups(logGroupNamePrefix=names.log_group)["logGroups"]
            ],
            "security_group": [
                each["GroupId"] for each in self.ec2.describe_security_groups(Filters=by_tag)["SecurityGroups"]
            ],
            "secret": [
                shown["ARN"]
                for shown in [self._found(lambda: self.secrets.describe_secret(SecretId=names.secret))]
                if shown and from_list(shown.get("Tags")).get(RUNNER_TAG) == runner_id
            ],
            "task_definition": [
                each
                for status in ("ACTIVE", "INACTIVE")
                for each in self.ecs.list_task_definitions(familyPrefix=names.family, status=status)[
                    "taskDefinitionArns"
                ]
            ],
        }
        return {kind: each for kind, each in found.items() if each}

    def _found(self, ask: Callable[[], Any]) -> Any:
        """Return what a question for one thing answers; None if there is no such thing. Lists take longer with each test."""
        try:
            return ask()
        except (self.iam.exceptions.NoSuchEntityException, self.secrets.exceptions.ResourceNotFoundException):
            return None


async def _no_token(_is_probe: bool = False) -> str:
    raise AssertionError("the identity signs in as the workload")


async def _nothing(_action: str) -> None:
    return
