"""The test of a connection to AWS: who one is, who is turned away, each permission, then what a deployment would need. Changes nothing."""

from typing import Any

from terracrew.clouds import images, issuer
from terracrew.clouds.aws import permissions, preflight
from terracrew.clouds.aws.api import AwsApi
from terracrew.clouds.aws.errors import AwsRefused, SignInRefused
from terracrew.clouds.aws.permissions import Statement
from terracrew.clouds.contract import CheckFailed, Checks, CloudSilent, Reporter
from terracrew.clouds.model import Deployment
from terracrew.clouds.web import Fetch, fetch

_OTHER_EXTERNAL_ID = "terracrew-probe-of-a-wrong-external-id"
_TRUST_REMEDY = "Replace the trust policy of the role by the one on the page of the cloud identity."


async def check(api: AwsApi, reporter: Reporter, deployment: Deployment | None, read: Fetch = fetch) -> bool:
    """Make every check. Returns whether all passed. `read` reads what the issuer publishes."""
    checks = Checks(reporter)
    with api.reporting(reporter.line):
        if api.account.way == "web_identity":
            await checks.make("issuer", "The issuer's keys are published", lambda: _issuer(api, read))
        has_session = await checks.make("sign_in", _sign_in_words(api), lambda: _sign_in(api))
        if has_session:
            await checks.make("account", "It is the account that was expected", lambda: _account(api))
            await checks.make("others", _others_words(api), lambda: _others(api))
            await check_role(api, checks, _needed(api, deployment))
            await checks.make("quota", "vCPU quota", lambda: preflight.check_quota(api, deployment))
            await checks.make(
                "subnets", "Free addresses in the subnets", lambda: preflight.check_subnets(api, deployment)
            )
        else:
            reporter.line("Account, permissions, quota and subnets cannot be checked without a sign-in.")
        if deployment is not None and (image := deployment.settings.image):
            await checks.make("image", "The image can be pulled", lambda: _image(api, deployment, image, has_session))
    return not checks.has_failed


def _needed(api: AwsApi, deployment: Deployment | None) -> list[permissions.Statement]:
    named = deployment.settings if deployment is not None else None
    return permissions.needed(
        api.account,
        clusters=[named.cluster] if named and named.cluster else [],
        job_roles=[named.job_role] if named and named.job_role else [],
    )


async def _issuer(api: AwsApi, read: Fetch) -> str:
    said = await issuer.check_published(api.identity, await api.new_token(), read)
    issuer.check_address(api.identity)
    return said


def _sign_in_words(api: AwsApi) -> str:
    return "Sign-in with web identity" if api.account.way == "web_identity" else "Sign-in as the server's own workload"


async def _sign_in(api: AwsApi) -> str:
    await api.sign_in()
    return str((await api.call("sts", "get_caller_identity"))["Arn"])


async def _account(api: AwsApi) -> str:
    expected = permissions.parsed_arn(api.account.role_arn).account
    found = str((await api.call("sts", "get_caller_identity"))["Account"])
    if found != expected:
        raise CheckFailed(
            f"this is the account {found}, but the role is of {expected}",
            "Correct the ARN of the role in the cloud identity.",
        )
    return found


def _others_words(api: AwsApi) -> str:
    return (
        "Another subject is turned away" if api.account.way == "web_identity" else "A wrong external id is turned away"
    )


async def _others(api: AwsApi) -> str:
    """Try to get in as somebody else. A role that lets everybody of the issuer in would let other organizations in."""
    tries = ("",) if api.account.way == "web_identity" else (_OTHER_EXTERNAL_ID, "")
    for external_id in tries:
        try:
            await api.probe(external_id=external_id)
        except SignInRefused as refusal:
            if not refusal.is_denied:
                raise
        else:
            raise CheckFailed(_let_in(api, external_id), _TRUST_REMEDY)
    return "tried and refused"


def _let_in(api: AwsApi, external_id: str) -> str:
    if api.account.way == "web_identity":
        return "the role lets tokens of another subject in, so that other identities of this server can use it"
    shown = "a wrong external id" if external_id else "no external id"
    return f"the role can be assumed with {shown}, so that everybody who knows its ARN can use it through this server"


async def _image(api: AwsApi, deployment: Deployment, image: str, has_session: bool) -> str:
    if (repository := preflight.ecr_repository(image)) is not None:
        return await preflight.check_ecr(api, repository, image) if has_session else "not checked without a sign-in"
    return await images.check(image, deployment.settings.architecture)


_EXAMPLE = "terracrew-check"


_SIMULATE = "iam:SimulatePrincipalPolicy"


async def check_role(api: AwsApi, checks: Checks, statements: list[Statement]) -> None:
    """Check each group of permissions as a step of its own. If the role may not ask about itself, that is said once."""
    ordered = sorted(statements, key=lambda each: each.actions != [_SIMULATE])
    for statement in ordered:
        has_passed = await checks.make(
            f"may_{statement.sid}", statement.words, lambda each=statement: _check(api, each)
        )
        if not has_passed and statement.actions == [_SIMULATE]:
            return


async def _check(api: AwsApi, statement: Statement) -> str:
    missing = await find_missing(api, statement)
    if not missing:
        count = len(statement.actions)
        return f"{count} {'permission' if count == 1 else 'permissions'}"
    are = "is" if len(missing) == 1 else "are"
    raise CheckFailed(
        f"{', '.join(missing)} {are} missing",
        f"Add the statement `{statement.sid}` to the policy of the role. The page of the cloud identity shows the whole policy.",
    )


async def find_missing(api: AwsApi, statement: Statement) -> list[str]:
    """Return which actions of a statement the role lacks. Raises CheckFailed if it may not ask."""
    try:
        answers = await api.listed(
            "iam",
            "simulate_principal_policy",
            "EvaluationResults",
            PolicySourceArn=api.account.role_arn,
            ActionNames=[*statement.actions],
            ResourceArns=[_example(resource) for resource in statement.resources],
            ContextEntries=_context(statement),
        )
    except AwsRefused as error:
        if not error.is_denied:
            raise
        raise CheckFailed(
            f"AWS does not say which permissions the role has: {_SIMULATE} is missing",
            "Add the statement `CheckItself` to the policy of the role, then test again. Deployments work without it, but what else is "
            "missing is then only seen when one fails.",
        ) from None
    except CloudSilent as error:
        raise CheckFailed(f"AWS does not say which permissions the role has: {error.message}") from None
    denied = {str(each["EvalActionName"]) for each in answers if _is_denied(each)}
    return [action for action in statement.actions if action in denied]


def _is_denied(result: dict[str, Any]) -> bool:
    on_resources: list[dict[str, Any]] = result.get("ResourceSpecificResults") or []
    if on_resources:
        return any(each.get("EvalResourceDecision") != "allowed" for each in on_resources)
    return result.get("EvalDecision") != "allowed"


def _example(resource: str) -> str:
    """Return the ARN of a thing that the pattern matches."""
    return resource if resource == "*" else resource.replace("*", _EXAMPLE)


def _context(statement: Statement) -> list[dict[str, Any]]:
    """Return the keys of a request that meets the condition of the statement."""
    entries: list[dict[str, Any]] = []
    for operator, keys in statement.condition.items():
        for key, value in keys.items():
            shown = _EXAMPLE if operator == "Null" else value
            entries.append({"ContextKeyName": key, "ContextKeyValues": [shown], "ContextKeyType": "string"})
    return entries
