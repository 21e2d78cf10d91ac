"""Fetching and installing where the server or the disk gives up."""

import socket
from pathlib import Path

import pytest

from terracrew.errors import Invalid, Unreachable
from terracrew.protocol.messages import ArtifactRef
from terracrew.runner.updating import installing
from terracrew.runner.updating.fetching import ArtifactFetcher
from tests.machine import small_disk, wheels
from tests.runner.updating.conftest import INSTALLED

pytestmark = pytest.mark.feature("V3.update")


def test_a_server_that_stays_away_ends_the_fetch_and_leaves_what_has_arrived(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    (tmp_path / "a.whl").write_bytes(b"half")
    with pytest.raises(Unreachable, match="cannot be reached"):
        ArtifactFetcher(url, lambda: "token", tmp_path, retry_seconds=0.2).fetch(
            "1.0.0", ArtifactRef("a.whl", 8, "0" * 64, "")
        )
    assert (tmp_path / "a.whl").read_bytes() == b"half"


def test_a_name_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="is not a name for a file"):
        ArtifactFetcher("http://127.0.0.1:1", lambda: "", tmp_path).fetch(
            "1.0.0", ArtifactRef("../a.whl", 8, "0" * 64, "")
        )


def test_a_full_disk_leaves_no_half_of_a_version(tmp_path: Path) -> None:
    wheel = wheels.build(INSTALLED)
    with small_disk.mounted(tmp_path / "disk", "2m") as disk:
        with pytest.raises(OSError, match="No space left"):
            installing.install(disk, INSTALLED, [wheel])
        assert list(disk.iterdir()) == []
