"""Reads external settings from AWS: Secrets Manager and Parameter Store, with the credentials that every AWS tool finds."""

import importlib
from typing import Any

from terracrew.errors import Forbidden, Invalid, NotFound, TerracrewError, Unavailable
from terracrew.settings.external.references import AWS_SECRET, Reference
from terracrew.settings.external.section import AwsStores
from terracrew.settings.external.stores import contract
from terracrew.settings.external.stores.contract import ReadDeadline

_MAX_CONNECT_SECONDS = 10.0
_SERVICES = {"aws-secret": ("secretsmanager", "Secrets Manager"), "aws-parameter": ("ssm", "Parameter Store")}
_MISSING = ("ParameterNotFound", "ParameterVersionNotFound", "ResourceNotFoundException")
_REFUSED = (
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "UnrecognizedClientException",
)


class Aws:
    reread_seconds = None

    def __init__(self, settings: AwsStores, deadline: ReadDeadline) -> None:
        self._settings, self._deadline = settings, deadline
        self._texts: dict[tuple[str, str], str] = {}

    def read(self, reference: Reference) -> str:
        key = (reference.scheme, reference.target)
        if key not in self._texts:
            self._texts[key] = self._text(*key)
        return contract.field_of(self._texts[key], reference.field)

    def close(self) -> None:
        """The clients hold nothing but idle connections."""

    def _text(self, scheme: str, name: str) -> str:
        try:
            importlib.import_module("boto3")
        except ImportError:
            raise Invalid("references to AWS need the extra `aws`: install `terracrew[aws]`") from None
        failure: TerracrewError
        try:
            return self._fetched(scheme, name)
        except TerracrewError as error:
            failure = error
        except Exception as error:  # the library has no common class for its own errors and those of its session
            failure = _translated(error, _SERVICES[scheme][1], name)
        raise failure  # outside, so that no error of the library, which may hold an answer, is in the chain

    def _fetched(self, scheme: str, name: str) -> str:
        client = self._client(_SERVICES[scheme][0])
        if scheme == AWS_SECRET:
            found = client.get_secret_value(SecretId=name)
            content = found["SecretString"].encode() if "SecretString" in found else bytes(found["SecretBinary"])
        else:
            content = client.get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"].encode()
        return contract.text_of(content)

    def _client(self, service: str) -> Any:
        boto3: Any = importlib.import_module("boto3")
        config: Any = importlib.import_module("botocore.config")
        seconds = self._deadline.seconds_left
        limits = config.Config(
            connect_timeout=min(seconds, _MAX_CONNECT_SECONDS), read_timeout=seconds, retries={"total_max_attempts": 2}
        )
        # A session of its own finds credentials again, and may be used in a thread.
        return boto3.session.Session().client(
            service, region_name=self._settings.region, endpoint_url=self._settings.endpoint_url, config=limits
        )


def _translated(error: Exception, service: str, name: str) -> TerracrewError:
    """Return an error of ours. Only codes and the names of the library's classes are repeated."""
    response: Any = getattr(error, "response", None)
    code = str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    if code in _MISSING:
        return NotFound(f"{service} has no {name}")
    if code in _REFUSED:
        return Forbidden(f"{service} refused to give {name}: {code}")
    if code:
        return Unavailable(f"{service} answered with the error {code[:80]}")
    match type(error).__name__:
        case "NoCredentialsError" | "PartialCredentialsError" | "CredentialRetrievalError" | "ProfileNotFound":
            return Forbidden(
                "there are no AWS credentials here: give a role, a profile or AWS_ACCESS_KEY_ID and its secret"
            )
        case "NoRegionError":
            return Invalid("no AWS region is known: set external.aws.region")
        case "EndpointConnectionError" | "ConnectTimeoutError" | "ReadTimeoutError" | "ConnectionClosedError":
            return Unavailable(f"{service} does not answer")
        case kind:
            return Unavailable(f"{service} cannot be read: {kind}")
