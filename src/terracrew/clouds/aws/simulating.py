"""Asks AWS which of the needed permissions the role has, without using any."""

from typing import Any

from terracrew.clouds.aws.api import AwsApi
from terracrew.clouds.aws.errors import AwsRefused
from terracrew.clouds.aws.permissions import Statement
from terracrew.clouds.checks import CheckFailed, Checks
from terracrew.clouds.contract import CloudSilent

_EXAMPLE = "terracrew-check"
_SIMULATE = "iam:SimulatePrincipalPolicy"


async def check(api: AwsApi, checks: Checks, statements: list[Statement]) -> None:
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
