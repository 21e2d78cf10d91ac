"""Calls of AWS as an identity: how it signs in, what is repeated, what is said of a refusal, and that no credential is shown."""

import gc
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from terracrew.api.cloud_identities import Way
from terracrew.clouds.aws import api as aws_api
from terracrew.clouds.aws import sessions
from terracrew.clouds.aws.api import AwsApi
from terracrew.clouds.aws.errors import AwsRefused, AwsThrottled, SignInRefused
from terracrew.clouds.contract import CloudSilent
from terracrew.clouds.model import AwsAccount, CloudIdentity
from terracrew.errors import Unavailable
from tests.machine import aws_service, oidc_issuer
from tests.machine.aws_service import ACCOUNT, AwsService, Refusal, Role

ROLE = f"arn:aws:iam::{ACCOUNT}:role/terracrew"
DISGUISED = Refusal(
    "InvalidParameterException", "Error retrieving subnet information: Rate exceeded (ErrorCode: Throttling)"
)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsService]:
    with aws_service.running() as service:
        monkeypatch.setenv("AWS_ENDPOINT_URL", service.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAWORKLOAD")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-key-of-the-machine")
        monkeypatch.delenv("AWS_PROFILE", raising=False)
        monkeypatch.setattr(aws_api, "FIRST_PAUSE_SECONDS", 0.01)
        service.add(Role(arn=ROLE, external_id="tc-right"))
        yield service


def identity(way: Way = "workload", external_id: str = "tc-right", issuer: str = "") -> CloudIdentity:
    return CloudIdentity(
        id="cid_1",
        organization_id="org_1",
        name="Production / EU",
        subject="organization:acme:cloud-identity:production:x1",
        audience="sts.amazonaws.com",
        issuer=issuer,
        cloud=AwsAccount(role_arn=ROLE, external_id=external_id, region="eu-central-1", way=way),
    )


async def no_token(is_probe: bool = False) -> str:
    raise Unavailable("the server is busy")


@pytest.fixture
def api(aws: AwsService) -> Iterator[AwsApi]:
    opened = AwsApi(identity(), no_token)
    yield opened
    opened.close()


async def test_the_server_s_own_workload_assumes_the_role_with_the_external_id(aws: AwsService, api: AwsApi) -> None:
    aws.answers["ListTasks"] = [{"taskArns": ["a"]}]
    assert (await api.call("ecs", "list_tasks"))["taskArns"] == ["a"]
    action, asked = aws.asked[0]
    assert action == "AssumeRole"
    assert asked["ExternalId"] == "tc-right"
    assert asked["DurationSeconds"] == "900"
    assert asked["RoleSessionName"] == "terracrew-Production---EU"
    await api.call("ecs", "list_tasks")
    assert api.requests == {"sts:AssumeRole": 1, "ecs:ListTasks": 2}


@pytest.mark.parametrize("external_id", ["tc-wrong", ""])
async def test_a_wrong_or_missing_external_id_is_a_refusal_that_says_what_to_compare(
    aws: AwsService, external_id: str
) -> None:
    opened = AwsApi(identity(external_id=external_id), no_token)
    with pytest.raises(SignInRefused, match=r"AccessDenied.*trust policy of the role") as caught:
        await opened.call("ecs", "list_tasks")
    assert caught.value.is_denied
    assert [action for action, _ in aws.asked] == ["AssumeRole"]


async def test_a_token_of_the_server_opens_the_role_that_trusts_its_issuer(aws: AwsService) -> None:
    with oidc_issuer.running() as issuer:
        chosen = identity("web_identity", issuer=issuer.url)
        aws.add(Role(arn=ROLE, issuer=issuer.url, audience=chosen.audience, subject=chosen.subject))

        async def sign(is_probe: bool = False) -> str:
            return issuer.token(chosen.audience, sub="nobody" if is_probe else chosen.subject)

        opened = AwsApi(chosen, sign)
        await opened.call("ecs", "list_tasks")
        assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]
        assert not aws.asked[0][1]["is_signed"], "the credentials of the machine were shown to AWS"
        with pytest.raises(SignInRefused, match="Not authorized"):
            await opened.probe()
        aws.roles[ROLE].subject = "nobody"
        await opened.probe()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("provider", r"No OpenIDConnect provider found.*OpenTofu snippet"),
        ("keys", r"Couldn't retrieve verification key.*terracrew server issuer export"),
        ("signature", r"signature of the token.*published keys"),
        ("audience", r"Incorrect token audience.*client ids"),
        ("subject", r"AccessDenied.*subject"),
        ("clock", r"Token expired.*clock of the server"),
    ],
)
async def test_what_is_wrong_with_a_web_identity_is_said_with_its_remedy(
    aws: AwsService, change: str, words: str
) -> None:
    with oidc_issuer.running() as issuer:
        chosen = identity("web_identity", issuer=issuer.url)
        role = aws.add(Role(arn=ROLE, issuer=issuer.url, audience=chosen.audience, subject=chosen.subject))
        key = issuer.key
        match change:
            case "provider":
                aws.providers.clear()
            case "keys":
                issuer.answers["/keys"] = (404, {}, b"")
            case "signature":
                issuer.replace_key("two")
                issuer.keys[0]["kid"] = "one"
            case "audience":
                role.audience = "another"
            case "subject":
                role.subject += "x"
            case _:
                aws.now = lambda: time.time() + 3600

        async def sign(is_probe: bool = False) -> str:
            now = int(time.time())
            claims = {"iss": issuer.url, "sub": chosen.subject, "aud": chosen.audience, "iat": now, "exp": now + 600}
            return issuer.sign(claims, key=key)

        opened = AwsApi(chosen, sign)
        with pytest.raises(SignInRefused, match=words):
            await opened.sign_in()


async def test_throttling_is_repeated_also_in_disguise(aws: AwsService, api: AwsApi) -> None:
    aws.answers["RunTask"] = [DISGUISED, Refusal("ThrottlingException", "Rate exceeded"), {"tasks": []}]
    lines: list[str] = []
    with api.reporting(lines.append):
        assert (await api.call("ecs", "run_task", taskDefinition="x"))["tasks"] == []
    assert api.requests["ecs:RunTask"] == 3
    assert len(lines) == 2
    assert "asking again in" in lines[0]


async def test_throttling_without_an_end_is_no_refusal_and_ends(aws: AwsService, api: AwsApi) -> None:
    aws.answers["RunTask"], aws.answers["ListTasks"] = [DISGUISED], [{"taskArns": []}]
    await api.call("ecs", "list_tasks")  # on a busy machine, a first call takes longer than this test
    with pytest.raises(AwsThrottled, match="Rate exceeded"):
        await api.call("ecs", "run_task", max_seconds=1.5, taskDefinition="x")
    assert api.requests["ecs:RunTask"] > 1


async def test_a_missing_permission_is_not_repeated_and_is_named(aws: AwsService, api: AwsApi) -> None:
    aws.answers["RunTask"] = [Refusal("AccessDeniedException", "User: x is not authorized to perform: ecs:RunTask")]
    with pytest.raises(AwsRefused, match=r"ecs:RunTask.*Add this permission") as caught:
        await api.call("ecs", "run_task", taskDefinition="x")
    assert (caught.value.action, caught.value.is_denied) == ("ecs:RunTask", True)
    assert api.requests["ecs:RunTask"] == 1


async def test_no_answer_is_silence_and_a_server_without_a_token_too(aws: AwsService, api: AwsApi) -> None:
    aws.answers["ListTasks"] = [Refusal("ServerException", "try later", 500)]
    with pytest.raises(CloudSilent, match="ServerException"):
        await api.call("ecs", "list_tasks", max_seconds=0)
    with pytest.raises(CloudSilent, match="the server is busy"):
        await AwsApi(identity("web_identity"), no_token).call("ecs", "list_tasks", max_seconds=0)


async def test_a_session_is_renewed_before_it_ends_and_when_aws_says_that_it_has(
    aws: AwsService, api: AwsApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sessions, "RENEW_BEFORE_SECONDS", sessions.SESSION_SECONDS + 1)
        await api.call("ecs", "list_tasks")
        await api.call("ecs", "list_tasks")
    assert api.requests["sts:AssumeRole"] == 2
    aws.answers["ListTasks"] = [{}, Refusal("ExpiredTokenException", "The security token is expired"), {"taskArns": []}]
    await api.call("ecs", "list_tasks")
    assert (await api.call("ecs", "list_tasks"))["taskArns"] == []
    assert api.requests["sts:AssumeRole"] == 3


async def test_a_session_is_used_to_its_end_while_nobody_renews_it(
    aws: AwsService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STS was away for a minute, and everything stopped although the session was valid for two more."""
    with oidc_issuer.running() as issuer:
        chosen = identity("web_identity", issuer=issuer.url)
        aws.add(Role(arn=ROLE, issuer=issuer.url, audience=chosen.audience, subject=chosen.subject))
        is_away = False

        async def sign(is_probe: bool = False) -> str:
            if is_away:
                raise Unavailable("the server is busy")
            return issuer.token(chosen.audience, sub=chosen.subject)

        opened = AwsApi(chosen, sign)
        monkeypatch.setattr(sessions, "RENEW_BEFORE_SECONDS", sessions.SESSION_SECONDS + 1)
        await opened.call("ecs", "list_tasks")
        is_away = True
        await opened.call("ecs", "list_tasks", max_seconds=0)
        with pytest.raises(CloudSilent):
            await opened.sign_in()
        monkeypatch.setattr(sessions, "LAST_USE_SECONDS", sessions.SESSION_SECONDS + 1)
        with pytest.raises(CloudSilent):
            await opened.call("ecs", "list_tasks", max_seconds=0)


async def test_a_list_is_read_page_by_page(aws: AwsService, api: AwsApi) -> None:
    aws.answers["ListTasks"] = [{"taskArns": ["a"], "nextToken": "2"}, {"taskArns": ["b"]}]
    assert await api.listed("ecs", "list_tasks", "taskArns") == ["a", "b"]
    assert aws.asked[-1][1]["nextToken"] == "2"


async def test_a_session_is_in_no_log_no_text_and_no_error_and_nowhere_after_it_is_closed(
    aws: AwsService, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with oidc_issuer.running() as issuer:
        chosen = identity("web_identity", issuer=issuer.url)
        aws.add(Role(arn=ROLE, issuer=issuer.url, audience=chosen.audience, subject=chosen.subject))
        tokens: list[str] = []

        async def sign(is_probe: bool = False) -> str:
            tokens.append(issuer.token(chosen.audience, sub=chosen.subject))
            return tokens[-1]

        opened = AwsApi(chosen, sign)
        aws.answers["ListTasks"] = [{}]
        aws.answers["RunTask"] = [Refusal("AccessDeniedException", "no")]
        await opened.call("ecs", "list_tasks")
        with pytest.raises(AwsRefused) as caught:
            await opened.call("ecs", "run_task", taskDefinition="x")
        shown = caplog.text + repr(opened) + repr(vars(opened)) + repr(caught.value)
        parts: list[Any] = [each for each in vars(opened).values() if hasattr(each, "__dict__")]
        shown += "".join(str(each.__dict__) for each in parts)
        shown += str(caught.value.details) + repr(caught.value.__cause__)
        assert caught.value.__suppress_context__
        for secret in (*aws.secret_keys, *tokens, "the-key-of-the-machine"):
            assert secret not in shown
        assert is_reachable(opened, aws.secret_keys[0]), "this test cannot find a key that is there"
        opened.close()
        assert not any(is_reachable(opened, secret) for secret in (*aws.secret_keys, *tokens))


def is_reachable(start: Any, text: str) -> bool:
    """Return whether an object leads to a string with this text."""
    seen: set[int] = set()
    queue: list[Any] = [start]
    while queue:
        each = queue.pop()
        if id(each) in seen or isinstance(each, type(gc)):
            continue
        seen.add(id(each))
        if isinstance(each, str) and text in each:
            return True
        if not isinstance(each, type | type(is_reachable)):
            queue.extend(gc.get_referents(each))
    return False
