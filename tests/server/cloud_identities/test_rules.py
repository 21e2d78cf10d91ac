"""What people enter about a cloud account is checked, and what is wrong with it is said."""

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from terracrew.api.cloud_identities import NewIdentity
from terracrew.clouds.model import AwsAccount, KubernetesCluster
from terracrew.errors import Invalid
from terracrew.server.cloud_identities import rules

ROLE = "arn:aws:iam::123456789012:role/terracrew"


def aws(role_arn: str = ROLE, region: str = "eu-central-1", **more: str) -> NewIdentity:
    return NewIdentity(name="a", role_arn=role_arn, region=region, **more)  # pyright: ignore[reportArgumentType]


def cluster(api_url: str = "https://203.0.113.7:6443", **more: str) -> NewIdentity:
    return NewIdentity(name="a", kind="kubernetes", api_url=api_url, **more)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("role_arn", "region"),
    [
        (ROLE, "eu-central-1"),
        ("arn:aws:iam::123456789012:role/with/path/r_o+l=e,x.y@z-1", "us-east-1"),
        ("arn:aws-cn:iam::123456789012:role/r", "cn-northwest-1"),
        ("arn:aws-us-gov:iam::123456789012:role/r", "us-gov-east-1"),
        ("arn:aws-iso-b:iam::123456789012:role/r", "us-isob-east-1"),
        ("arn:aws-eusc:iam::123456789012:role/r", "eusc-de-east-1"),
    ],
)
def test_a_role_of_every_partition_is_accepted(role_arn: str, region: str) -> None:
    assert rules.checked(aws(role_arn, region)) == AwsAccount(role_arn=role_arn, region=region)
    assert rules.account_of(role_arn) == "123456789012"


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (aws(""), "role_arn: '' is not the ARN of a role"),
        (aws("arn:aws:iam::12345:role/r"), "role_arn: "),
        (aws("arn:aws:iam::123456789012:user/u"), "role_arn: "),
        (aws("arn:aws:iam::123456789012:role/r\n"), "role_arn: "),
        (aws("arn:aws:iam::١٢٣٤٥٦٧٨٩٠١٢:role/r"), "role_arn: "),
        (aws(f"{ROLE} and more"), "it looks like arn:aws:iam::123456789012:role/terracrew"),
        (aws(region="Frankfurt"), "region: 'Frankfurt' is not the name of an AWS region"),
        (aws(region=""), "it looks like eu-central-1"),
        (aws(region="eu-central-1; x"), "region: "),
        (aws(region="cn-north-1"), "the role is in the partition aws, and the region cn-north-1 is in aws-cn"),
        (aws("arn:aws-cn:iam::123456789012:role/r"), "the role is in the partition aws-cn"),
        (aws(namespace="n"), "namespace: an identity for AWS has none"),
        (aws(description="x" * 501), "description: 501 characters are too many"),
        (cluster(role_arn=ROLE), "role_arn: an identity for Kubernetes has none"),
        (cluster(""), "the address of the cluster's API is missing"),
        (cluster("http://203.0.113.7:6443"), "without TLS, anybody on the way could use the token"),
        (cluster("https://"), "api_url: "),
        (cluster("https://user@host"), "it has a user, a query or a fragment"),
        (cluster("https://host/?x=1"), "it has a user, a query or a fragment"),
        (cluster("https://host:99999"), "api_url: "),
        (cluster("https://ho st"), "api_url: "),
        (cluster("https://[::1"), "api_url: "),
        (cluster("https://ho\\st"), "api_url: "),
        (cluster(namespace="Big"), "namespace: 'Big' is not the name of a namespace"),
        (cluster(namespace="-a"), "namespace: "),
        (cluster(namespace="a/b"), "namespace: "),
        (cluster(way="workload"), "leave address and certificate out"),
        (cluster("", way="workload", ca_certificate="x"), "ca_certificate: as its own workload"),
        (cluster(ca_certificate="hello"), "this is not a list of certificates as PEM"),
        (cluster(ca_certificate="ä"), "this is not a list of certificates as PEM"),
        (cluster(ca_certificate="x" * 70_000), "more than 65536 characters"),
    ],
)
def test_what_is_wrong_is_refused_with_the_field(wanted: NewIdentity, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        rules.checked(wanted)
    assert words in str(refused.value)
    assert str(refused.value).startswith(f"{refused.value.details['field']}: ")


def test_a_cluster_has_certificates_and_a_namespace() -> None:
    pem, key = _certificate()
    found = rules.checked(cluster("https://[2001:db8::1]:6443/k8s/c-1/", ca_certificate=f"\n{pem}{pem}\n"))
    assert found == KubernetesCluster(
        api_url="https://[2001:db8::1]:6443/k8s/c-1", ca_certificate=pem + pem, namespace="terracrew"
    )
    assert rules.checked(cluster("", way="workload")) == KubernetesCluster(
        api_url="", namespace="terracrew", way="workload"
    )
    with pytest.raises(Invalid, match="contains a private key"):
        rules.checked(cluster(ca_certificate=pem + key))


def test_an_audience_is_not_this_servers_own() -> None:
    assert rules.checked_audience("aws", "") == "sts.amazonaws.com"
    assert rules.checked_audience("kubernetes", "https://host") == "https://host"
    for audience, words in (
        ("terracrew", "is this server's own"),
        ("a b", "without spaces"),
        ("x" * 256, "at most 255"),
    ):
        with pytest.raises(Invalid, match=words):
            rules.checked_audience("aws", audience)


def _certificate() -> tuple[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cluster")])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form, encryption = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return made.public_bytes(pem).decode(), key.private_bytes(pem, form, encryption).decode()
