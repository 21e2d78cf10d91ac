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
                raise Invalid.in_field(field, f"an identity for {_KIND_WORDS[wanted.kind]} has none")
    if len(wanted.description) > MAX_DESCRIPTION_CHARACTERS:
        count = len(wanted.description)
        raise Invalid.in_field("description", f"{count} characters are too many: at most {MAX_DESCRIPTION_CHARACTERS}")
    if wanted.kind == "aws":
        return _aws_account(wanted)
    return _cluster(wanted)


def checked_audience(kind: CloudKind, audience: str) -> str:
    """Return the audience, or the default one of the cloud."""
    if not audience:
        return DEFAULT_AUDIENCES[kind]
    if len(audience) > MAX_AUDIENCE_CHARACTERS or not _PRINTABLE_ASCII.fullmatch(audience):
        raise Invalid.in_field(
            "audience", f"use at most {MAX_AUDIENCE_CHARACTERS} letters, digits and signs, without spaces"
        )
    if audience == AUDIENCE:
        raise Invalid.in_field("audience", f"{AUDIENCE} is this server's own: tokens for clouds have another one")
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
        example = "it looks like arn:aws:iam::123456789012:role/terracrew"
        raise Invalid.in_field("role_arn", f"{wanted.role_arn[:200]!r} is not the ARN of a role: {example}")
    if not _REGION.fullmatch(wanted.region):
        words = f"{wanted.region[:100]!r} is not the name of an AWS region: it looks like eu-central-1"
        raise Invalid.in_field("region", words)
    _require_region_of_partition(match["partition"], wanted.region)
    return AwsAccount(role_arn=wanted.role_arn, region=wanted.region, way=wanted.way)


def _require_region_of_partition(partition: str, region: str) -> None:
    expected = next((name for name, start in _REGIONS_OF_PARTITIONS.items() if region.startswith(start)), "aws")
    is_known = partition == "aws" or partition in _REGIONS_OF_PARTITIONS
    if is_known and partition != expected:
        words = f"the role is in the partition {partition}, and the region {region} is in {expected}"
        raise Invalid.in_field("region", f"{words}: both must be in the same one")


def _cluster(wanted: NewIdentity) -> KubernetesCluster:
    if wanted.way == "workload" and (wanted.api_url or wanted.ca_certificate):
        field = "api_url" if wanted.api_url else "ca_certificate"
        words = (
            "as its own workload, the server signs in to the cluster that it runs in: leave address and certificate out"
        )
        raise Invalid.in_field(field, f"{words}, or choose web_identity")
    if wanted.way == "web_identity" and not wanted.api_url:
        raise Invalid.in_field(
            "api_url", "the address of the cluster's API is missing: `kubectl cluster-info` shows it"
        )
    namespace = wanted.namespace or DEFAULT_NAMESPACE
    if not _NAMESPACE.fullmatch(namespace):
        words = (
            f"{namespace[:100]!r} is not the name of a namespace: use at most 63 lowercase letters, digits and hyphens"
        )
        raise Invalid.in_field("namespace", words)
    api_url = _checked_api_url(wanted.api_url) if wanted.api_url else ""
    certificate = _checked_certificates(wanted.ca_certificate) if wanted.ca_certificate.strip() else ""
    return KubernetesCluster(api_url=api_url, ca_certificate=certificate, namespace=namespace, way=wanted.way)


def _checked_api_url(text: str) -> str:
    words = f"{text[:200]!r} is not the https address of a cluster's API"
    example = "it looks like https://203.0.113.7:6443"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise Invalid.in_field("api_url", f"{words}: {example}") from None
    if not _PRINTABLE_ASCII.fullmatch(text) or len(text) > 500 or not parts.hostname:
        raise Invalid.in_field("api_url", f"{words}: {example}")
    if parts.scheme != "https":
        raise Invalid.in_field("api_url", f"{words}: without TLS, anybody on the way could use the token")
    if "@" in parts.netloc or "?" in text or "#" in text:
        raise Invalid.in_field("api_url", f"{words}: it has a user, a query or a fragment")
    host = parts.netloc if port is None else parts.netloc.rpartition(":")[0]
    if not _HOST.fullmatch(host.removesuffix(":")):
        raise Invalid.in_field("api_url", f"{words}: {example}")
    return text.rstrip("/")


def _checked_certificates(text: str) -> str:
    if len(text) > MAX_PEM_CHARACTERS:
        raise Invalid.in_field("ca_certificate", f"more than {MAX_PEM_CHARACTERS} characters")
    if "PRIVATE KEY" in text:
        raise Invalid.in_field(
            "ca_certificate", "this contains a private key, which must stay where it is: paste only the certificates"
        )
    try:
        x509.load_pem_x509_certificates(text.encode("ascii"))
    except ValueError:
        words = "this is not a list of certificates as PEM, which begin with -----BEGIN CERTIFICATE-----"
        raise Invalid.in_field("ca_certificate", words) from None
    return text.strip() + "\n"
