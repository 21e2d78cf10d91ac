"""Secret inputs of a Pulumi module are encrypted in the settings of its stack, in the format of its passphrase provider."""

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from terracrew.executor.engines.pulumi import stack_settings
from terracrew.executor.engines.pulumi.stack_settings import StackPassphrase
from terracrew.executor.steps import preparation

pytestmark = pytest.mark.feature("J6.pulumi")
KEY = StackPassphrase(base64.b64encode(b"k" * 32).decode(), is_random=True)
SECRET = "hush, nobody may read this"


def decrypted(passphrase: str, salt: str, value: str) -> str:
    """Decrypt as Pulumi does (sdk/go/common/resource/config/crypt.go)."""
    key = hashlib.pbkdf2_hmac("sha256", passphrase.encode(), base64.b64decode(salt.split(":")[1]), 1_000_000, 32)
    version, nonce, sealed = value.split(":")
    assert version == "v1"
    return AESGCM(key).decrypt(base64.b64decode(nonce), base64.b64decode(sealed), None).decode()


def settings(folder: Path, passphrase: StackPassphrase | None, **inputs: Any) -> dict[str, Any]:
    stack_settings.write_secrets(folder, "app", "dev", inputs, passphrase)
    return yaml.safe_load((folder / "Pulumi.dev.yaml").read_text())


def test_no_secret_is_readable_in_the_workspace(tmp_path: Path) -> None:
    stack_settings.write(tmp_path, "app", "dev", {"size": "large"})
    found = settings(tmp_path, KEY, token=SECRET, keys={"a": [1]})
    assert found["config"]["app:size"] == "large"
    salt = found["encryptionsalt"]
    assert decrypted(KEY.text, salt, salt.split(":", 2)[2]) == "pulumi", "Pulumi checks the passphrase by this"
    assert decrypted(KEY.text, salt, found["config"]["app:token"]["secure"]) == SECRET
    assert decrypted(KEY.text, salt, found["config"]["app:keys"]["secure"]) == '{"a":[1]}'
    assert SECRET not in "".join(each.read_text() for each in tmp_path.iterdir())
    assert (tmp_path / "Pulumi.dev.yaml").stat().st_mode & 0o777 == 0o600
    again = settings(tmp_path, KEY, token=SECRET)
    assert again["encryptionsalt"] == salt
    assert again["config"]["app:token"] != found["config"]["app:token"], "each has a nonce of its own"


def test_a_source_with_encrypted_settings_keeps_its_salt(tmp_path: Path) -> None:
    own = StackPassphrase("chosen by a person", is_random=False)
    salt = settings(tmp_path, own, first="one one one")["encryptionsalt"]
    assert settings(tmp_path, own, second="two")["encryptionsalt"] == salt
    found = yaml.safe_load((tmp_path / "Pulumi.dev.yaml").read_text())
    assert decrypted(own.text, salt, found["config"]["app:first"]["secure"]) == "one one one"
    other = tmp_path / "other"
    other.mkdir()
    assert settings(other, own, first="one")["encryptionsalt"] != salt, (
        "nothing is derived from a passphrase to be guessed"
    )


@pytest.mark.parametrize("has_provider", [True, False])
def test_settings_with_another_provider_or_an_unknown_passphrase_are_left_as_they_are(
    tmp_path: Path, has_provider: bool
) -> None:
    if has_provider:
        (tmp_path / "Pulumi.dev.yaml").write_text("secretsprovider: awskms://alias/x\n")
    found = settings(tmp_path, KEY if has_provider else None, token=SECRET)
    assert found["config"] == {"app:token": SECRET}
    assert "encryptionsalt" not in found


def test_an_input_is_secret_by_its_name_or_by_a_value_in_it() -> None:
    inputs = {
        "db_password": "x",
        "size": 3,
        "url": "https://h/?t=s3cr3t-value",
        "tree": {"a": ["s3cr3t-value"]},
        "b": "plain",
    }
    assert set(preparation.secret_inputs(inputs, ["s3cr3t-value"])) == {"db_password", "url", "tree"}


@pytest.mark.parametrize(
    "secret",
    ["-----BEGIN-----\nline of it\n-----END-----\n", 'with "quotes" in it', "back\\slash", "schlüssel", "1234567"],
)
def test_an_input_is_secret_that_has_a_text_in_it_which_json_writes_differently(secret: str) -> None:
    inputs = {
        "in_a_list": {"hosts": ["a", f"before {secret} after"]},
        "as_a_name": {secret: True},
        "as_it_is": secret,
        "number": {"n": 1234567},
        "other": {"hosts": ["a", "line of it"]},
    }
    found = {"in_a_list", "as_a_name", "as_it_is"} | ({"number"} if secret == "1234567" else set[str]())
    assert set(preparation.secret_inputs(inputs, [secret])) == found
