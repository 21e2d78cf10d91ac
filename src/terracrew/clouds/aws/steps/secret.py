"""The secret with the worker token of the runner. No task definition, log line or error contains it."""

from terracrew.clouds.aws.errors import AwsRefused
from terracrew.clouds.aws.names import from_list, to_list
from terracrew.clouds.aws.steps.work import Work
from terracrew.clouds.contract import CloudRefused

STEP, WORDS = "secret", "Secret"
_MISSING = frozenset({"ResourceNotFoundException"})
_EXISTS = frozenset({"ResourceExistsException"})


async def ensure(work: Work, worker_token: str) -> tuple[str, str]:
    """Return the ARN of the secret, and what was done. An empty token keeps the one that is there."""
    name = work.names.secret
    found = await work.find("secretsmanager", "describe_secret", _MISSING, SecretId=name)
    if found is not None and not found.get("DeletedDate"):
        return await _replace(work, worker_token)
    if not worker_token:
        raise CloudRefused(
            f"the secret {name} does not exist, and the server has given no new token. Deploy again to make both"
        )
    made = await work.retry(
        lambda: work.find(
            "secretsmanager",
            "create_secret",
            _EXISTS,
            Name=name,
            Description="Made by Terracrew. The worker token of a runner.",
            SecretString=worker_token,
            Tags=to_list(work.tags),
        ),
        _is_being_deleted,
        work.waits.propagation_seconds,
    )
    if made is None:  # an earlier try whose answer was lost has made it
        return await _replace(work, worker_token)
    return str(made["ARN"]), "made"


async def remove(work: Work) -> str:
    name = work.names.secret
    found = await work.find("secretsmanager", "describe_secret", _MISSING, SecretId=name)
    if found is None or not work.is_removed(from_list(found.get("Tags"))):
        return ""
    await work.find("secretsmanager", "delete_secret", _MISSING, SecretId=name, ForceDeleteWithoutRecovery=True)
    return str(found["ARN"])


async def _replace(work: Work, worker_token: str) -> tuple[str, str]:
    found = await work.call("secretsmanager", "describe_secret", SecretId=work.names.secret)
    work.require_ours("secret", work.names.secret, from_list(found.get("Tags")))
    if not worker_token:
        return str(found["ARN"]), "was there"
    await work.call("secretsmanager", "put_secret_value", SecretId=work.names.secret, SecretString=worker_token)
    return str(found["ARN"]), "was there, has a new token"


def _is_being_deleted(error: AwsRefused) -> str:
    """A secret that was deleted a moment ago keeps its name for some seconds."""
    return "The secret of an earlier deployment is still being deleted." if "deletion" in error.message else ""
