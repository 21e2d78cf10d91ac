"""What AWS answers when it does not do something, in its own words and with what a person can do about it."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from terracrew.clouds.contract import CloudRefused, CloudSilent

_MAX_WORDS_CHARACTERS = 600


class AwsRefused(CloudRefused):
    """AWS answered that it does not do this."""

    def __init__(
        self,
        message: str,
        *,
        aws_code: str = "",
        action: str = "",
        remedy: str = "",
        resource_ids: Sequence[str] = (),
    ) -> None:
        super().__init__(message, aws_code=aws_code, action=action)
        self.aws_code = aws_code
        """Such as `AccessDenied` or `EntityAlreadyExists`."""
        self.action = action
        """What was asked for, as policies name it: `ecs:RunTask`."""
        self.remedy = remedy
        """What a person can do about it. The message ends with it."""
        self.resource_ids = resource_ids
        """What exists already, for a request that was made before in another form."""

    @property
    def is_denied(self) -> bool:
        """Return whether a permission is missing, and not something else wrong."""
        return self.aws_code in _DENIED_CODES


class SignInRefused(AwsRefused):
    """AWS does not let this identity in."""


class AwsThrottled(CloudSilent):
    """AWS answers that it was asked too often, and still did after repetitions."""


_DENIED_CODES = frozenset(
    {"AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation", "UnauthorizedAccess"}
)
_THROTTLED_CODES = frozenset(
    {
        "ConcurrentModification",
        "ConcurrentModificationException",
        "EC2ThrottledException",
        "PriorRequestNotComplete",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottledException",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_THROTTLED_WORDS = re.compile(r"Rate exceeded|ErrorCode: Throttling|RequestLimitExceeded")
"""ECS passes the throttling of other services on as `InvalidParameterException`."""
_TEMPORARY_CODES = frozenset(
    {"IDPCommunicationError", "InternalError", "InternalFailure", "OperationAbortedException", "ServerException"}
)
ENDED_SESSION_CODES = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
"""A call with a session that has ended. With a new session it may succeed."""


class _Remedy(NamedTuple):
    codes: str
    words: str
    """A pattern in the message of AWS."""
    remedy: str


_CLOCK = "Compare the clock of the server with the time of day: AWS accepts a difference of at most five minutes."
_SIGN_IN_REMEDIES = (
    _Remedy(
        "InvalidIdentityToken",
        "No OpenIDConnect provider found",
        "Make the identity provider in this account: the page of the cloud identity shows it as an OpenTofu snippet.",
    ),
    _Remedy(
        "InvalidIdentityToken",
        "(?i)audience",
        "Add the audience of the cloud identity to the client ids of the identity provider in IAM.",
    ),
    _Remedy(
        "InvalidIdentityToken|IDPCommunicationError",
        "(?i)verification key|thumbprint|certificate|communicat|connect|reach|discovery",
        "AWS must be able to read the discovery document and the keys of the issuer over https with a public certificate. "
        "For a server in a private network, put them into a public bucket with `terracrew server issuer export` and set `issuer_url`.",
    ),
    _Remedy("ExpiredTokenException|ExpiredToken|InvalidIdentityToken", "(?i)expire|before|issued|iat|nbf", _CLOCK),
    _Remedy(
        "InvalidIdentityToken|IDPRejectedClaim",
        "",
        "Compare the issuer in IAM with the `issuer_url` of the server, and whether the published keys are those that it signs with.",
    ),
    _Remedy(
        "AccessDenied",
        "",
        "The role does not exist, or its trust policy does not name this identity. Compare the trust policy of the role with the one "
        "on the page of the cloud identity: its external id, or its issuer, audience and subject.",
    ),
    _Remedy(
        "RegionDisabledException",
        "",
        "Activate STS for this region in the account settings of IAM, or choose another region.",
    ),
    _Remedy(
        "InvalidClientTokenId|UnrecognizedClientException|ExpiredToken|AuthFailure",
        "",
        "The AWS credentials of the machine that the server runs on are not valid. Give it a role: an instance profile, "
        "a task role or a pod identity.",
    ),
    _Remedy("ValidationError", "(?i)roleArn|arn", "Correct the ARN of the role in the cloud identity."),
)
_REMEDIES = (
    _Remedy(
        "SignatureDoesNotMatch|InvalidSignatureException|RequestTimeTooSkewed|RequestExpired|AuthFailure",
        "(?i)expired|skew|not yet current|earlier than|later than|clock",
        _CLOCK,
    ),
    _Remedy(
        "AccessDenied.*|UnauthorizedOperation|AuthorizationError",
        "(?i)explicit deny",
        "A policy of the account or of its organization forbids this. Only who manages that policy can change it.",
    ),
    _Remedy(
        "AccessDenied.*|UnauthorizedOperation|AuthorizationError",
        "",
        "Add this permission to the role. The page of the cloud identity shows all that are needed.",
    ),
    _Remedy(
        "OptInRequired|UnrecognizedClientException|InvalidClientTokenId",
        "",
        "This region may not be enabled for the account, or the session was revoked.",
    ),
)
_NO_CREDENTIALS = frozenset({"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"})


def translated(error: Exception, service: str, operation: str) -> AwsRefused | CloudSilent:
    """Return an error of ours for one of the library. It has the words of AWS, and never what was sent."""
    is_sign_in = service == "sts" and operation.startswith("assume_role")
    action = action_name(service, operation)
    kind = type(error).__name__
    response: Any = getattr(error, "response", None)
    if not isinstance(response, dict):
        if kind in _NO_CREDENTIALS:
            return SignInRefused(
                f"{action}: {error}. The machine that the server runs on has no AWS credentials of its own. Give it a role "
                "(an instance profile, a task role or a pod identity), or let the cloud identity sign in with a web identity.",
                aws_code=kind,
                action=action,
            )
        if kind in ("ParamValidationError", "UnknownServiceError", "InvalidRegionError"):
            return AwsRefused(_cut(f"{action}: {error}"), aws_code=kind, action=action)
        return CloudSilent(_cut(f"{action}: {kind}: {error}"))
    answer: dict[str, Any] = response  # pyright: ignore[reportUnknownVariableType]
    code = str(answer.get("Error", {}).get("Code", ""))
    message = str(answer.get("Error", {}).get("Message", ""))
    words = _cut(f"{action}: {code}: {message}")
    status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in _THROTTLED_CODES or status == 429 or _THROTTLED_WORDS.search(message):
        return AwsThrottled(words)
    remedy = _remedy(code, message, is_sign_in=is_sign_in)
    if status >= 500 or status in (0, 407, 408) or code in _TEMPORARY_CODES:
        return CloudSilent(_joined(words, remedy))
    refusal = SignInRefused if is_sign_in else AwsRefused
    existing = [str(each) for each in answer.get("resourceIds", [])]
    return refusal(_joined(words, remedy), aws_code=code, action=action, remedy=remedy, resource_ids=existing)


def action_name(service: str, operation: str) -> str:
    """Return what policies call an operation of the library: `ecs`, `run_task` is `ecs:RunTask`."""
    camel = "".join(_UPPER.get(part, part.capitalize()) for part in operation.split("_"))
    return f"{_PREFIXES.get(service, service)}:{camel}"


_UPPER = {"iam": "IAM", "arn": "ARN"}
_PREFIXES = {"resourcegroupstaggingapi": "tag", "service-quotas": "servicequotas"}


def _remedy(code: str, message: str, *, is_sign_in: bool) -> str:
    for each in (*_SIGN_IN_REMEDIES, *_REMEDIES) if is_sign_in else _REMEDIES:
        if re.fullmatch(each.codes, code) and re.search(each.words, message):
            return each.remedy
    return ""


def _joined(words: str, remedy: str) -> str:
    return f"{words.rstrip('.')}. {remedy}" if remedy else words


def _cut(words: str) -> str:
    return words[:_MAX_WORDS_CHARACTERS]
