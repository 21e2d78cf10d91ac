"""How a runner was installed: what its image, systemd and its environment say about it."""

import os
import sys
from pathlib import Path

import pytest

from terracrew.protocol.messages import Installation
from terracrew.runner import installation
from tests.runner.conftest import Runners

pytestmark = pytest.mark.feature("V2.outdated")
CGROUP = "0::/system.slice/terracrew-runner.service\n"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("container terracrew-runner:0.1.0", Installation("container", "terracrew-runner:0.1.0")),
        ("helm edge runners", Installation("helm", "edge", "runners")),
    ],
)
def test_an_image_and_a_chart_say_so_in_a_variable(said: str, expected: Installation) -> None:
    found = installation.find({installation.VARIABLE: said, "INVOCATION_ID": "1"})
    assert found == expected
    assert "image of its container" in installation.why_not_self_updating(found)


def test_a_program_that_runs_from_sources_says_where_they_are() -> None:
    found = installation.find({})
    assert found.kind == "source"
    assert (Path(found.place) / "pyproject.toml").exists()
    assert found.place in installation.why_not_self_updating(found)


@pytest.mark.parametrize(
    ("prefix", "kind"),
    [
        ("/opt/terracrew", "pip"),
        ("/home/ann/.local/share/pipx/venvs/terracrew", "pipx"),
        ("/home/ann/.local/share/uv/tools/terracrew", "uv"),
    ],
)
def test_an_environment_is_known_by_its_path(prefix: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(installation, "find_checkout", lambda: None)
    found = installation.find({})
    assert found == Installation(kind, prefix)
    assert installation.why_not_self_updating(found) == ""


def test_a_unit_of_systemd_is_named_only_by_its_main_process_and_its_child(tmp_path: Path) -> None:
    (cgroup := tmp_path / "cgroup").write_text(CGROUP)
    unit = "terracrew-runner.service"
    assert installation.unit({}, cgroup) == ""
    assert installation.unit({"INVOCATION_ID": "1"}, cgroup) == unit
    for pid, expected in ((os.getpid(), unit), (os.getppid(), unit), (1 << 22, "")):
        assert installation.unit({"INVOCATION_ID": "1", "SYSTEMD_EXEC_PID": str(pid)}, cgroup) == expected
    for line in (
        "0::/user.slice/user-0.slice/session-1.scope\n",
        "0::/user.slice/user@0.service/app.slice/x.scope\n",
        "",
    ):
        cgroup.write_text(line)
        assert installation.unit({"INVOCATION_ID": "1"}, cgroup) == ""


async def test_a_runner_says_it_in_its_hello(runners: Runners) -> None:
    said = Installation("systemd", "/opt/terracrew", "terracrew-runner.service")
    _, peer = await runners.connected(installation=said)
    assert peer.hello.installation == said
    assert not peer.hello.is_self_updating
