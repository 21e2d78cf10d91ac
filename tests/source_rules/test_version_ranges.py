"""Semantic versions are ordered as their specification says, and ranges mean what they mean in Terraform."""

import packaging.version
import pytest

from terracrew.errors import Invalid
from terracrew.source_rules.version_ranges import Version, parse_range, parse_version


def version(text: str) -> Version:
    found = parse_version(text)
    assert found is not None, text
    return found


def test_versions_are_ordered_by_the_rules_of_their_specification() -> None:
    ordered = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0", "1.0.1"]
    ordered += ["1.2.0", "1.10.0", "2.0.0"]
    assert sorted(map(version, reversed(ordered)), key=lambda each: each.order) == [version(each) for each in ordered]
    assert version("v1.2") == version("1.2.0+build.5")
    assert str(version("v1.2.3-rc.1+5")) == "1.2.3-rc.1"


def test_a_version_is_written_as_packages_of_python_write_it() -> None:
    for text in ("0.1.0", "1.2.3-rc.1", "1.2.3-alpha.0", "1.0.0-beta.12"):
        assert version(text).python_form == str(packaging.version.Version(text))
    for text in ("1.0.0-rc", "1.0.0-nightly.1", "1.0.0-rc.1.2", "1.0.0-rc.x", "1.0.0-rc.01"):
        assert version(text).python_form is None


@pytest.mark.parametrize(
    "text", ["", "v", "1.2.3.4", "01.2.3", "1.2.x", "latest", "-1.0.0", "1.0.0-", "1.2.3\n", "１.2.3"]
)
def test_other_texts_are_not_versions(text: str) -> None:
    assert parse_version(text) is None


@pytest.mark.parametrize(
    ("conditions", "inside", "outside"),
    [
        ("1.2.3", "1.2.3", "1.2.4 1.2.3-rc.1"),
        ("= v1.2", "1.2.0", "1.2.1"),
        ("~> 1.2", "1.2.0 1.2.9 1.9.0", "1.1.9 2.0.0"),
        ("~> 1.2.3", "1.2.3 1.2.99", "1.3.0 1.2.2"),
        ("~> 1", "1.0.0 1.9.9", "2.0.0 0.9.9"),
        (">= 1.0, < 2.0, != 1.5.0", "1.0.0 1.4.9 1.5.1", "0.9.0 1.5.0 2.0.0 2.0.0-rc.1"),
        ("> 1.0.0", "1.0.1", "1.0.0"),
        ("<= 1.0.0", "1.0.0 0.1.0", "1.0.1 1.0.0-beta"),
        ("1.0.0-rc.1", "1.0.0-rc.1", "1.0.0 1.0.0-rc.2"),
        ("!= 1.0.0", "1.0.1", "1.0.0 1.0.1-rc.1"),
    ],
)
def test_a_range_has_the_versions_that_meet_all_conditions(conditions: str, inside: str, outside: str) -> None:
    found = parse_range(conditions)
    assert [each for each in inside.split() if version(each) not in found] == []
    assert [each for each in outside.split() if version(each) in found] == []


def test_the_highest_version_of_a_range_is_not_the_last_one_by_its_letters() -> None:
    assert parse_range("~> 1.0").highest(map(version, ["1.9.0", "1.10.0", "1.2.0", "2.0.0"])) == version("1.10.0")
    assert parse_range("~> 3.0").highest([version("1.0.0")]) is None


@pytest.mark.parametrize(
    "text", ["", " ", "latest", "^1.2", ">= ", "1.2 || 1.3", "~> 1.2,", "=> 1", "1 2", "1.0," * 80]
)
def test_other_texts_are_not_ranges(text: str) -> None:
    with pytest.raises(Invalid, match="is not a range of versions"):
        parse_range(text)
