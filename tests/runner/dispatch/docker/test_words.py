"""What the daemon says of a container that has ended becomes words for people. Needs no daemon."""

from typing import Any

import pytest

from terracrew.runner.dispatch.docker.dispatcher import how_ended

pytestmark = pytest.mark.feature("D6.watched")


@pytest.mark.parametrize(
    ("state", "code", "words"),
    [
        ({"ExitCode": 0}, 0, ""),
        ({"ExitCode": 137}, -9, "its container was ended by signal 9"),
        ({"ExitCode": 137, "OOMKilled": True}, -9, "memory ran out: the limit of 512 MiB was reached"),
        ({"ExitCode": 70}, 70, "the executor ended with exit code 70"),
        ({"ExitCode": 255}, None, "its container was found dead, as after a restart of its machine"),
    ],
)
def test_the_end_of_a_container_is_said_in_words(state: dict[str, Any], code: int | None, words: str) -> None:
    """Symptom: after a restart of its machine «its container was ended by signal 127», which does not exist."""
    ended = how_ended({"State": state, "HostConfig": {"Memory": 512 << 20}})
    assert ended.code == code
    assert words in ended.reason
    assert bool(ended.reason) == bool(words)
