"""Which names hold a secret, and which values are masked because of their names."""

import json
import weakref

import pytest

from terracrew.masking import names


@pytest.mark.feature("L5.executor")
@pytest.mark.parametrize(
    "name",
    [
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "DB_PASSWORD",
        "PGPASSWORD",
        "GITHUB_TOKEN",
        "ARM_CLIENT_SECRET",
        "GOOGLE_CREDENTIALS",
        "TF_VAR_db_password",
        "apiKey",
        "dbPassword",
        "db_pwd",
        "db_pw",
        "VAULT_SECRET_ID",
        "private_key_pem",
        "DIGITALOCEAN_ACCESS_TOKEN",
        "client_secret",
        "STRIPE_APIKEY",
        "ssh_private_key",
        "TF_TOKEN_registry_example_com",
        "TF_TOKEN_modules_example_provider",
        "TF_TOKEN_localhost",
    ],
)
def test_a_name_that_looks_secret_is_recognized(name: str) -> None:
    assert names.is_secret(name)


@pytest.mark.feature("L5.executor")
@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "PWD",
        "OLDPWD",
        "HOME",
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "key_name",
        "token_ttl",
        "kms_key_arn",
        "KEYCLOAK_URL",
        "monkey",
        "keyboard",
        "password_length",
        "PUBLIC_KEY",
        "region",
        "tokenizer",
        "compass",
        "",
    ],
)
def test_an_ordinary_name_is_not_taken_for_a_secret(name: str) -> None:
    assert not names.is_secret(name)


@pytest.mark.feature("L5.executor")
def test_secrets_are_found_at_any_depth_and_short_values_are_not_masked() -> None:
    inputs = {
        "region": "eu-central-1",
        "password": "short",
        "database": {
            "user": "app",
            "password": "hunter2-hunter2",
            "tokens": ["first-token", {"value": "second-token"}],
        },
        "pin": 12345678,
        "is_secret": True,
        "database_url": "postgres://app:p%40ssw0rd@db:5432/app",
        "deep": [[{"api_key": "nested-key"}]],
    }
    assert set(names.secrets_of(inputs)) == {
        "hunter2-hunter2",
        "first-token",
        "second-token",
        "12345678",
        "p%40ssw0rd",
        "p@ssw0rd",
        "nested-key",
    }


@pytest.mark.feature("L5.executor")
def test_the_secrets_inside_a_json_document_are_masked_as_well() -> None:
    """Only the file as a whole was known, so its private key, printed by itself, was not masked."""
    document = json.dumps({"project_id": "my-project", "private_key": "-----BEGIN-----\nabcdefgh\n-----END-----\n"})
    found = names.secrets_of({"GOOGLE_CREDENTIALS": document})
    assert "-----BEGIN-----\nabcdefgh\n-----END-----\n" in found
    assert "my-project" not in found


@pytest.mark.feature("L5.executor")
def test_values_nested_without_end_and_in_great_number_are_bounded() -> None:
    deep: dict[str, object] = {}
    inner = deep
    for _ in range(5000):
        inner["token"] = inner = {}  # type: ignore[assignment]
    assert names.secrets_of(deep) == []
    many = {f"token_{number}": f"value-{number}" for number in range(5000)}
    assert len(names.secrets_of(many)) == names.MAX_SECRETS


@pytest.mark.feature("L5.executor")
def test_the_passwords_and_tokens_of_all_addresses_in_a_value_are_masked() -> None:
    """A list of two addresses, and an address with a token in place of a name, were not recognized."""
    found = names.secrets_of(
        {
            "BROKERS": "amqp://a:first-pass@one:5672,amqp://b:second%2Fpass@two:5672/v",
            "ORIGIN": "https://ghp_0123456789abcdef0123@github.com/acme/network.git",
            "REMOTE": "ssh://git@github.com/acme/network.git",
            "MAIL": "somebody@example.com",
        }
    )
    assert found == ["first-pass", "second%2Fpass", "second/pass", "ghp_0123456789abcdef0123"]


def test_a_long_name_is_not_kept_in_memory() -> None:
    """A thousand documents, each with a key of two megabytes, would have stayed in the memory of the server."""

    class Name(str):
        __slots__ = ("__weakref__",)

    long = Name("password_" * 1000)
    kept = weakref.ref(long)
    assert names.is_secret(long)
    del long
    assert kept() is None
