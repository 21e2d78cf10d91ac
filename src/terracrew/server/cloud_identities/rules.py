"""Checks what people enter about a cloud account, and says what is wrong with it. All functions are pure."""

import re
from urllib.parse import urlsplit

from cryptography import x509

from terracrew.api.cloud_identities import CloudKind, NewIdentity
from terracrew.clouds.model import AwsAccount, CloudSettings, KubernetesCluster
from terracrew.errors import Invalid
from terracrew.server.cloud_identities.model import DEFAULT_AUDIENCES, DEFAULT_NAMESPACE
from terracrew.server.principals.model import AUDIENCE

MAX_DESCRIPTION_CHARACTERS = 500
MAX_PEM_CHARACTERS = 65_536
MAX_AUDIENCE_CHARACTERS = 255
_ROLE_ARN = re.compile(
    r"arn:(?P<partition>aws[a-z0-9-]*):iam::(?P<account>[0-9]{12}):role/[\w+=,.@/-]{1,512}", re.ASCII
)
_REGION = re.compile(r"[a-z]{2,5}(-[a-z]{2,16}){1,3}-[0-9]{1,2}")
_REGIONS_OF_PARTITIONS = {"aws-cn": "cn-", "aws-us-gov": "us-gov-"}
"""How the regions of a partition begin. The regions of the other partitions begin with neither."""
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_HOST = re.compile(r"[A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\]")
_PRINTABLE_ASCII = re.compile(r"[!-~]+")
_FIELDS: dict[CloudKind, tuple[str, ...]] = {
    "aws": ("role_arn", "region"),
    "kubernetes": ("api_url", "ca_certificate", "namespace"),
}
_KIND_WORDS: dict[CloudKind, str] = {"aws": "AWS", "kubernetes": "Kubernetes"}


def checked(wanted: NewIdentity) -> CloudSettings:
    """Return what is stored about the account, or raise an error that names the field that is wrong."""
    for kind, fields in _FIELDS.items():
        for field in fields:
            if kind != wanted.kind and getattr(wanted, field):
                raise Invalid(f"{field}: an identity for {_KIND_WORDS[wanted.kind]} has none", field=field)
    if len(wanted.description) > MAX_DESCRIPTION_CHARACTERS:
        words = f"description: {len(wanted.description)} characters are too many: at most {MAX_DESCRIPTION_CHARACTERS}"
        raise Invalid(words, field="description")
    if wanted.kind == "aws":
        return _aws_account(wanted)
    return _cluster(wanted)


def checked_audience(kind: CloudKind, audience: str) -> str:
    """Return the audience, or the default one of the cloud."""
    if not audience:
        return DEFAULT_AUDIENCES[kind]
    if len(audience) > MAX_AUDIENCE_CHARACTERS or not _PRINTABLE_ASCII.fullmatch(audience):
        words = f"audience: use at most {MAX_AUDIENCE_CHARACTERS} letters, digits and signs, without spaces"
        raise Invalid(words, field="audience")
    if audience == AUDIENCE:
        raise Invalid(
            f"audience: {AUDIENCE} is this server's own: tokens for clouds have another one", field="audience"
        )
    return audience


def account_of(role_arn: str) -> str:
    """Return the number of the account that a role belongs to."""
    match = _ROLE_ARN.fullmatch(role_arn)
    return match["account"] if match else ""


def location(settings: CloudSettings) -> str:
    """Return where things are made, in words. It stays while a runner is deployed there, or its things could not be removed."""
    if isinstance(settings, AwsAccount):
        return f"account {account_of(settings.role_arn)} in {settings.region}"
    where = settings.api_url or "the server's own cluster"
    return f"namespace {settings.namespace} of {where}"


def _aws_account(wanted: NewIdentity) -> AwsAccount:
    match = _ROLE_ARN.fullmatch(wanted.role_arn)
    if match is None:
        words = (
            f"role_arn: {wanted.role_arn[:200]!r} is not the ARN of a role: "
            "it looks like arn:aws:iam::123456789012:role/terracrew"
        )
        raise Invalid(words, field="role_arn")
    if not _REGION.fullmatch(wanted.region):
        words = f"region: {wanted.region[:100]!r} is not the name of an AWS region: it looks like eu-central-1"
        raise Invalid(words, field="region")
    _require_region_of_partition(match["partition"], wanted.region)
    return AwsAccount(role_arn=wanted.role_arn, region=wanted.region, way=wanted.way)


def _require_region_of_partition(partition: str, region: str) -> None:
    expected = next((name for name, start in _REGIONS_OF_PARTITIONS.items() if region.startswith(start)), "aws")
    is_known = partition == "aws" or partition in _REGIONS_OF_PARTITIONS
    if is_known and partition != expected:
        words = f"region: the role is in the partition {partition}, and the region {region} is in {expected}"
        raise Invalid(f"{words}: both must be in the same one", field="region")


def _cluster(wanted: NewIdentity) -> KubernetesCluster:
    if wanted.way == "workload" and (wanted.api_url or wanted.ca_certificate):
        field = "api_url" if wanted.api_url else "ca_certificate"
        words = (
            "as its own workload, the server signs in to the cluster that it runs in: leave address and certificate out"
        )
        raise Invalid(f"{field}: {words}, or choose web_identity", field=field)
    if wanted.way == "web_identity" and not wanted.api_url:
        raise Invalid(
            "api_url: the address of the cluster's API is missing: `kubectl cluster-info` shows it", field="api_url"
        )
    namespace = wanted.namespace or DEFAULT_NAMESPACE
    if not _NAMESPACE.fullmatch(namespace):
        words = f"namespace: {namespace[:100]!r} is not the name of a namespace: use at most 63 lowercase letters, "
        raise Invalid(f"{words}digits and hyphens", field="namespace")
    api_url = _checked_api_url(wanted.api_url) if wanted.api_url else ""
    certificate = _checked_certificates(wanted.ca_certificate) if wanted.ca_certificate.strip() else ""
    return KubernetesCluster(api_url=api_url, ca_certificate=certificate, namespace=namespace, way=wanted.way)


def _checked_api_url(text: str) -> str:
    words = f"api_url: {text[:200]!r} is not the https address of a cluster's API"
    example = "it looks like https://203.0.113.7:6443"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise Invalid(f"{words}: {example}", field="api_url") from None
    if not _PRINTABLE_ASCII.fullmatch(text) or len(text) > 500 or not parts.hostname:
        raise Invalid(f"{words}: {example}", field="api_url")
    if parts.scheme != "https":
        raise Invalid(f"{words}: without TLS, anybody on the way could use the token", field="api_url")
    if "@" in parts.netloc or "?" in text or "#" in text:
        raise Invalid(f"{words}: it has a user, a query or a fragment", field="api_url")
    host = parts.netloc if port is None else parts.netloc.rpartition(":")[0]
    if not _HOST.fullmatch(host.removesuffix(":")):
        raise Invalid(f"{words}: {example}", field="api_url")
    return text.rstrip("/")


def _checked_certificates(text: str) -> str:
    if len(text) > MAX_PEM_CHARACTERS:
        raise Invalid(f"ca_certificate: more than {MAX_PEM_CHARACTERS} characters", field="ca_certificate")
    if "PRIVATE KEY" in text:
        words = "ca_certificate: this contains a private key, which must stay where it is: paste only the certificates"
        raise Invalid(words, field="ca_certificate")
    try:
        x509.load_pem_x509_certificates(text.encode("ascii"))
    except ValueError:
        words = (
            "ca_certificate: this is not a list of certificates as PEM, which begin with -----BEGIN CERTIFICATE-----"
        )
        raise Invalid(words, field="ca_certificate") from None
    return text.strip() + "\n"
