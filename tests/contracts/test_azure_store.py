"""Azure Key Vault keeps the contract of a store of external settings, with every way to get a token."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from terracrew.settings import layers
from terracrew.settings.external.stores import azure as azure_store
from tests.contracts.settings_store import SECRET, SECRET_NAME, Place, StoreContract, chain, refused, write
from tests.machine import azure_key_vault
from tests.machine.azure_key_vault import CLIENT, CLIENT_SECRET, FEDERATED_TOKEN, TENANT, AzureKeyVault

pytestmark = pytest.mark.usefixtures("no_settings")


class AzurePlace:
    has_fields = True
    holds_large_values = True

    def __init__(self, azure: AzureKeyVault) -> None:
        self._azure = azure
        self.section: dict[str, Any] = {
            "azure": {
                "auth": "client-secret",
                "tenant_id": TENANT,
                "client_id": CLIENT,
                "client_secret": CLIENT_SECRET,
                "authority": azure.url,
            }
        }

    def put(self, name: str, value: str) -> str:
        self._azure.secrets[name] = value
        return f"azure:{self._azure.url}/secrets/{name}"

    def missing(self) -> str:
        return f"azure:{self._azure.url}/secrets/missing"

    def hang(self) -> str | None:
        return f"azure:{self._azure.url}/secrets/hangs"


@pytest.fixture
def azure() -> Generator[AzureKeyVault]:
    with azure_key_vault.running() as found:
        yield found


class TestAzure(StoreContract):
    @pytest.fixture
    def place(self, azure: AzureKeyVault, monkeypatch: pytest.MonkeyPatch) -> Place:
        for name in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE"):
            monkeypatch.delenv(name, raising=False)
        return AzurePlace(azure)

    @pytest.mark.feature("T3.azure")
    def test_a_workload_identity_needs_only_the_variables_of_its_pod(
        self, place: Place, azure: AzureKeyVault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        token = tmp_path / "azure-token"
        token.write_text(FEDERATED_TOKEN)
        monkeypatch.setenv("AZURE_TENANT_ID", TENANT)
        monkeypatch.setenv("AZURE_CLIENT_ID", CLIENT)
        monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(token))
        section = {"azure": {"auth": "federated", "authority": azure.url}}
        file = write(tmp_path, section, {SECRET_NAME: place.put("secret", SECRET)})
        assert layers.load(file).client_secret == SECRET

    @pytest.mark.feature("T3.azure")
    def test_a_machine_uses_its_managed_identity(self, place: Place, azure: AzureKeyVault, tmp_path: Path) -> None:
        section = {"azure": {"metadata_url": azure.url}}
        file = write(tmp_path, section, {SECRET_NAME: place.put("secret", SECRET)})
        assert layers.load(file).client_secret == SECRET
        assert azure.requests == ["/metadata/identity/oauth2/token", "/secrets/secret"]

    @pytest.mark.feature("T3.azure", "T3.hidden")
    def test_a_refused_identity_is_named_without_its_secret(self, place: Place, tmp_path: Path) -> None:
        """Entra repeats what it was sent in the description of its errors."""
        section = {"azure": {**place.section["azure"], "client_secret": "wrong-hush"}}
        error = refused(write(tmp_path, section, {SECRET_NAME: place.put("secret", SECRET)}))
        assert "refused the identity (invalid_client)" in error.message
        assert not [text for text in chain(error) if "wrong-hush" in text]

    @pytest.mark.feature("T3.azure", "T3.errors")
    def test_what_an_identity_lacks_is_named_all_at_once(self, place: Place, tmp_path: Path) -> None:
        section = {"azure": {"auth": "client-secret"}}
        error = refused(write(tmp_path, section, {SECRET_NAME: place.put("secret", SECRET)}))
        names = [line.strip().partition(":")[0] for line in error.details["problems"]]
        assert names == ["external.azure.tenant_id", "external.azure.client_id", "external.azure.client_secret_file"]

    @pytest.mark.feature("T3.private")
    def test_no_job_may_read_the_file_with_the_secret_of_the_identity(self, place: Place, tmp_path: Path) -> None:
        secret = tmp_path / "entra"
        secret.write_text(CLIENT_SECRET)
        section = {"azure": {**place.section["azure"], "client_secret_file": str(secret)}}
        del section["azure"]["client_secret"]
        config = layers.load(write(tmp_path, section, {SECRET_NAME: place.put("secret", SECRET)}))
        assert str(secret) in config.isolation.private_paths


@pytest.mark.feature("T3.azure")
@pytest.mark.parametrize(
    ("host", "resource"),
    [
        ("crew.vault.azure.net", "https://vault.azure.net"),
        ("crew.vault.azure.cn", "https://vault.azure.cn"),
        ("127.0.0.1", "https://vault.azure.net"),
    ],
)
def test_a_token_is_for_the_cloud_of_the_vault(host: str, resource: str) -> None:
    assert azure_store.resource_of(host) == resource
