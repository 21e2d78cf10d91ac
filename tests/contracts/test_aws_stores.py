"""Secrets Manager and Parameter Store keep the contract of a store of external settings, on an emulator of AWS."""

import contextlib
import importlib
import uuid
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.settings_store import SECRET, SECRET_NAME, Place, StoreContract, refused, write
from tests.machine import platforms
from tests.machine.silent_server import silent_server

pytestmark = [pytest.mark.usefixtures("no_settings"), pytest.mark.platform("aws")]


class AwsPlace:
    has_fields = True
    holds_large_values = False

    def __init__(self, url: str) -> None:
        self._url, self.prefix = url, uuid.uuid4().hex
        self.section: dict[str, Any] = {"aws": {"region": "eu-west-1", "endpoint_url": url}}
        self._silence = contextlib.ExitStack()

    def _client(self, service: str) -> Any:
        boto3: Any = importlib.import_module("boto3")
        return boto3.client(service, region_name="eu-west-1", endpoint_url=self._url)

    def hang(self) -> str | None:
        self.section = {"aws": {"region": "eu-west-1", "endpoint_url": self._silence.enter_context(silent_server())}}
        return self.missing()

    def close(self) -> None:
        self._silence.close()

    def missing(self) -> str:
        raise NotImplementedError


class SecretsPlace(AwsPlace):
    def put(self, name: str, value: str) -> str:
        if not value:
            raise ValueError(name)
        client, full = self._client("secretsmanager"), f"{self.prefix}/{name}"
        try:
            client.create_secret(Name=full, SecretString=value)
        except client.exceptions.ResourceExistsException:
            client.put_secret_value(SecretId=full, SecretString=value)
        return f"aws-secret:{full}"

    def missing(self) -> str:
        return f"aws-secret:{self.prefix}/missing"


class ParametersPlace(AwsPlace):
    def put(self, name: str, value: str) -> str:
        if not value:
            raise ValueError(name)
        full = f"/{self.prefix}/{name}"
        self._client("ssm").put_parameter(Name=full, Value=value, Type="SecureString", Overwrite=True)
        return f"aws-parameter:{full}"

    def missing(self) -> str:
        return f"aws-parameter:/{self.prefix}/missing"


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws-hush")
    return platforms.need("aws")


class TestSecretsManager(StoreContract):
    @pytest.fixture
    def place(self, address: str) -> Generator[Place]:
        place = SecretsPlace(address)
        yield place
        place.close()

    @pytest.mark.feature("T3.aws", "T3.errors")
    def test_a_machine_without_credentials_is_told_so(
        self, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reference = place.put("secret", SECRET)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        words = refused(write(tmp_path, place.section, {SECRET_NAME: reference})).message
        assert "there are no AWS credentials here" in words


class TestParameterStore(StoreContract):
    @pytest.fixture
    def place(self, address: str) -> Generator[Place]:
        place = ParametersPlace(address)
        yield place
        place.close()
