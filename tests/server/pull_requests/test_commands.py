"""Commands are the first line of a comment, and nothing else is."""

import pytest

from terracrew.errors import Invalid
from terracrew.server.pull_requests.commands import Command, parse

COMMIT = "0123456789" * 4


@pytest.mark.parametrize(
    ("body", "command"),
    [
        ("terracrew plan", Command("plan")),
        (
            "  Terracrew  APPLY platform/network /edge/ platform/network\nplease",
            Command("apply", ("platform/network", "edge")),
        ),
        ("terracrew", Command("help")),
        (f"terracrew allow {COMMIT}", Command("allow", (COMMIT,))),
        ("I say terracrew apply", None),
        ("> terracrew apply", None),
        ("terracrews apply", None),
        ("", None),
        ("please\nterracrew apply", None),
    ],
)
def test_a_comment_is_a_command_or_none(body: str, command: Command | None) -> None:
    assert parse(body) == command


@pytest.mark.parametrize(
    "body",
    [
        "terracrew destroy",
        "terracrew allow",
        f"terracrew allow {COMMIT[:39]}",
        "terracrew plan " + " ".join(map(str, range(60))),
    ],
)
def test_a_wrong_command_is_explained(body: str) -> None:
    with pytest.raises(Invalid):
        parse(body)
