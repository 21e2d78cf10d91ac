"""Errors cross the border between server and client as the same class, with the field that they are about."""

import msgspec

from terracrew import errors
from terracrew.client import problems


def received(problem: dict[str, object]) -> errors.TerracrewError | None:
    return problems.own({"Content-Type": problems.MEDIA_TYPE}, msgspec.json.encode(problem))


def test_an_invalid_field_is_named_on_both_sides() -> None:
    raised = errors.Invalid("priority: 500 is more than 100", field="priority")
    found = received({"code": raised.code, "detail": raised.message, **raised.details})
    assert isinstance(found, errors.Invalid)
    assert (found.field, found.message, found.reason) == ("priority", raised.message, "500 is more than 100")


def test_an_error_about_no_field_has_none() -> None:
    found = received({"code": "too_large", "detail": "too much"})
    assert isinstance(found, errors.TooLarge)
    assert (found.field, found.reason, found.details) == (None, "too much", {})
