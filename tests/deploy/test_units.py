"""What the units of systemd say, without a systemd that starts them."""

from pathlib import Path

import pytest

from terracrew.server.process.waiting import BACKLOG_CONNECTIONS
from terracrew.settings.server import ServerSettings

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"


def values(unit: str, name: str, kind: str = "service") -> list[str]:
    lines = (UNITS / f"terracrew-{unit}.{kind}").read_text().splitlines()
    return [line.partition("=")[2] for line in lines if line.startswith(f"{name}=")]


@pytest.mark.feature("D8.systemd")
@pytest.mark.parametrize("name", ["User", "StateDirectory"])
def test_server_and_runner_share_neither_user_nor_directory(name: str) -> None:
    """A module changed the modes of the server's files and ended its process: the runner had the same user."""
    [server], [runner] = values("server", name), values("runner", name)
    assert server != runner


@pytest.mark.feature("D8.systemd")
@pytest.mark.parametrize("unit", ["server", "runner"])
def test_a_unit_allows_what_isolates_engines(unit: str) -> None:
    allowed = values(unit, "SystemCallFilter")[0].split()
    calls = ("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp")
    assert set(calls) <= set(allowed)


@pytest.mark.feature("D8.systemd")
def test_the_socket_unit_keeps_the_address_that_a_server_has_without_it() -> None:
    settings = ServerSettings()
    assert values("server", "ListenStream", "socket") == [f"{settings.host}:{settings.port}"]
    assert values("server", "Accept", "socket") == ["no"]
    assert values("server", "Backlog", "socket") == [str(BACKLOG_CONNECTIONS)]
