"""Which release is the latest one, and which versions lie between two."""

import random
from datetime import UTC, datetime

import msgspec
import pytest

from terracrew.errors import Invalid
from terracrew.server.releases import rules
from terracrew.server.releases.model import Release
from tests.server.releases.release_rows import new_release

ORDERED = [
    *("0.0.9", "0.1.0-alpha", "0.1.0-rc.1", "0.1.0-rc.2", "0.1.0-rc.10", "0.1.0-rc.x", "0.1.0"),
    *("0.1.1", "0.2.0", "0.10.0", "1.0.0-0", "1.0.0"),
]


def shuffled(*versions: str) -> list[Release]:
    releases = [new_release(each) for each in versions]
    random.Random(7).shuffle(releases)
    return releases


def withdrawn(release: Release) -> Release:
    return msgspec.structs.replace(release, withdrawn_at=datetime.now(UTC), withdrawn_reason="broken")


def version_of(release: Release | None) -> str | None:
    return release and release.version


@pytest.mark.feature("V1.latest")
def test_releases_are_in_the_order_of_semantic_versions() -> None:
    assert [each.version for each in rules.newest_first(shuffled(*ORDERED))] == ORDERED[::-1]


@pytest.mark.feature("V1.latest")
@pytest.mark.parametrize(
    ("versions", "server_version", "expected"),
    [
        ("", "0.1.0", None),
        ("0.1.0 0.2.0 0.10.0", "0.1.0", "0.10.0"),
        ("0.1.0 0.2.0-rc.1", "0.1.0", "0.1.0"),
        ("0.1.0-rc.1 0.1.0-rc.2", "0.1.0", None),
        ("0.1.0-rc.1 0.1.0-rc.10 0.1.0-rc.9", "0.1.0-rc.1", "0.1.0-rc.10"),
        ("0.1.0-rc.1 0.1.0", "0.1.0-rc.1", "0.1.0"),
        ("0.1.0-rc.1", "0.1.0.dev0+local", "0.1.0-rc.1"),
        ("0.0.1", "5.0.0", "0.0.1"),
    ],
)
def test_pre_releases_count_only_for_a_server_that_is_one(
    versions: str, server_version: str, expected: str | None
) -> None:
    assert version_of(rules.latest(shuffled(*versions.split()), server_version)) == expected


@pytest.mark.feature("V1.latest", "V1.withdraw")
def test_a_withdrawn_release_and_one_for_a_newer_server_are_not_the_latest() -> None:
    first, second = new_release("0.1.0"), withdrawn(new_release("0.2.0"))
    third = new_release("0.3.0", min_server_version="0.2.0")
    assert rules.latest([first, second, third], "0.1.9") == first
    assert rules.latest([first, second, third], "0.2.0") == third
    assert rules.latest([second], "0.2.0") is None


@pytest.mark.feature("V4.notes")
def test_the_first_version_is_left_out_and_the_last_one_is_included() -> None:
    releases = shuffled(*ORDERED)
    found = [each.version for each in rules.between(releases, "0.1.0-rc.2", "v0.1.1")]
    assert found == ["0.1.1", "0.1.0", "0.1.0-rc.x", "0.1.0-rc.10"]
    assert [each.version for each in rules.between(releases, since="0.10.0")] == ["1.0.0", "1.0.0-0"]
    assert [each.version for each in rules.between(releases, until="0.0.9")] == ["0.0.9"]
    assert rules.between(releases, "1.0.0", "0.1.0") == []
    with pytest.raises(Invalid, match="since: 'yesterday' is not a version"):
        rules.between(releases, "yesterday")


@pytest.mark.feature("V4.notes")
def test_breaking_releases_on_the_way_are_found_and_withdrawn_ones_are_not() -> None:
    releases = [
        new_release("0.1.0", is_breaking=True),
        new_release("0.2.0", is_breaking=True),
        withdrawn(new_release("0.3.0", is_breaking=True)),
        new_release("0.4.0"),
    ]
    assert [each.version for each in rules.breaking(releases, "0.1.0", "0.4.0")] == ["0.2.0"]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "1",
            "1.2",
            "v1.2.3",
            "1.2.3.4",
            "01.2.3",
            "1.2.3-",
            "1.2.3-01",
            "1.2.3-a..b",
            "1.2.3+",
            "1.2.3 ",
            "1.2.3\n",
        ),
        *("1.2.3-ä", "١.2.3", "1.2.3/..", "9" * 12 + ".0.0", "1.2.3-" + "a" * 90),
    ],
)
def test_a_release_has_exactly_three_numbers(text: str) -> None:
    with pytest.raises(Invalid, match="is not a semantic version"):
        rules.parse(text)
