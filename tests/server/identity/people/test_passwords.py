"""A password matches its own hash only, and one of unsuitable length is refused."""

import pytest

from terracrew.errors import Invalid
from terracrew.server.identity.people import passwords


async def test_a_password_matches_its_own_hash_only() -> None:
    stored = await passwords.hashed("correct horse battery")
    assert stored.startswith("$argon2id$")
    assert await passwords.matches("correct horse battery", stored)
    assert not await passwords.matches("correct horse batterz", stored)
    assert not await passwords.matches("correct horse battery", "no hash at all")


async def test_who_has_no_password_matches_none() -> None:
    assert not await passwords.matches("", None)
    assert not await passwords.matches("nobody has this password", None)


@pytest.mark.parametrize("password", ["", "short", "x" * 1025])
async def test_a_password_that_is_too_short_or_too_long_is_refused_and_not_quoted(password: str) -> None:
    with pytest.raises(Invalid) as error:
        await passwords.hashed(password)
    assert not password or password not in str(error.value)
