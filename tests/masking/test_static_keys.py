"""Which names of inputs hold a static key of a cloud."""

import pytest

from terracrew.executor.steps import cloud_variables
from terracrew.masking import names

pytestmark = pytest.mark.feature("X1.runners")


@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "aws_secret_access_key", "ARM_CLIENT_SECRET", "VAULT_TOKEN"])
def test_a_static_key_gets_a_warning_with_the_way_that_needs_none(name: str) -> None:
    words = names.static_key_warning(name)
    assert words.startswith(f"{name} is a static key of ")
    assert "docs/cloud.md" in words


@pytest.mark.parametrize("name", ["AWS_REGION", "AWS_PROFILE", "GOOGLE_PROJECT", "secret_access_key_ttl", "region", ""])
def test_what_only_chooses_something_gets_none(name: str) -> None:
    assert names.static_key_warning(name) == ""


def test_every_key_is_one_that_a_cloud_identity_takes_the_place_of() -> None:
    for name, cloud in names.CLOUD_OF_KEY.items():
        assert name in cloud_variables.CREDENTIALS[cloud]
