"""What a runner says about the isolation of its engines."""

import logging
from pathlib import Path

import pytest

from terracrew.executor.isolation import landlock, seccomp
from terracrew.protocol.start import IsolationSettings
from terracrew.runner import isolation

pytestmark = pytest.mark.feature("X4.isolation")


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    return monkeypatch


def test_a_kernel_without_landlock_is_named_in_the_log(
    kernel: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)  # another test may have asked for more
    isolation.describe(IsolationSettings(), [])
    assert "engines are not isolated" in caplog.text
    assert isolation.in_force(IsolationSettings()) == "unavailable"
    caplog.clear()
    kernel.setattr(landlock, "abi", lambda: 6)
    isolation.describe(IsolationSettings(), [])
    assert (caplog.text, isolation.in_force(IsolationSettings())) == ("", "landlock")
    isolation.describe(IsolationSettings("none"), [])
    assert "`none`" in caplog.text
    assert isolation.in_force(IsolationSettings("none")) == "none"


def test_a_machine_without_filters_of_system_calls_is_named_in_the_log(
    kernel: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kernel.setattr(landlock, "abi", lambda: 6)
    kernel.setattr(seccomp, "is_available", lambda: False)
    isolation.describe(IsolationSettings(), [])
    assert "cannot filter system calls" in caplog.text


def test_a_path_that_opens_the_runners_own_files_is_warned_about(
    kernel: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    kernel.setattr(landlock, "abi", lambda: 6)
    with caplog.at_level(logging.WARNING):
        isolation.describe(IsolationSettings(write_paths=[str(tmp_path / "other")]), [str(tmp_path / "work")])
        assert caplog.text == ""
        isolation.describe(IsolationSettings(read_paths=[str(tmp_path)]), [str(tmp_path / "work")])
    assert f"has {tmp_path}, which holds this runner's own files" in caplog.text
