"""A cluster of EKS is found, and its token made, with the runner's AWS identity."""

import base64
import importlib
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from terracrew.kubernetes_api.access import AccessError
from terracrew.runner.dispatch.kubernetes import eks
from terracrew.runner.dispatch.kubernetes.eks import Eks
from tests.machine import platforms

pytestmark = pytest.mark.feature("D4.kubernetes")


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)


def _url_of(token: str) -> str:
    kind, _, encoded = token.partition(".")
    assert kind == "k8s-aws-v1"
    assert "=" not in encoded
    return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()


def test_a_token_is_a_signed_request_to_sts_for_one_cluster_and_without_the_secret() -> None:
    url = urlsplit(_url_of(Eks("main", "eu-central-1").token()))
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    assert (url.scheme, url.hostname) == ("https", "sts.eu-central-1.amazonaws.com")
    assert (query["Action"], query["X-Amz-Expires"]) == ("GetCallerIdentity", "60")
    assert set(query["X-Amz-SignedHeaders"].split(";")) == {"host", "x-k8s-aws-id"}
    assert query["X-Amz-Credential"].startswith("AKIAEXAMPLE/")
    assert "s3cret" not in url.query


async def test_without_an_answer_of_aws_there_is_no_access_and_the_reason_has_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(AccessError, match="no access to the EKS cluster main") as caught:
        await Eks("main", "eu-central-1").headers()
    assert "s3cret" not in str(caught.value)


@pytest.mark.platform("aws")
async def test_the_address_of_a_cluster_is_asked_for_and_the_token_is_renewed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", platforms.need("aws"))
    boto3: Any = importlib.import_module("boto3")
    client = boto3.client("eks", region_name="eu-central-1")
    network = {"subnetIds": ["subnet-1", "subnet-2"]}
    made = client.create_cluster(
        name="renewed", roleArn="arn:aws:iam::123456789012:role/x", resourcesVpcConfig=network
    )["cluster"]
    try:
        access = Eks("renewed", "eu-central-1")
        made_tokens: list[str] = []
        make = access.token
        monkeypatch.setattr(access, "token", lambda: made_tokens.append(make()) or made_tokens[-1])
        assert await access.headers() == await access.headers() == {"Authorization": f"Bearer {made_tokens[0]}"}
        assert access.server == made["endpoint"].rstrip("/")
        began = time.monotonic()
        assert eks.RENEW_SECONDS < 15 * 60
        monkeypatch.setattr(eks.time, "monotonic", lambda: began + eks.RENEW_SECONDS + 2)
        await access.headers()
        assert len(made_tokens) == 2
    finally:
        client.delete_cluster(name="renewed")
