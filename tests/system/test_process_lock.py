"""Locks that one process at a time holds."""

import os
from pathlib import Path

import pytest

from terracrew.system import durable
from terracrew.system.durable import AlreadyLockedError


def test_a_second_holder_is_refused_by_name_until_the_first_lets_go(tmp_path: Path) -> None:
    first = durable.acquire_lock(tmp_path / "lock")
    with pytest.raises(AlreadyLockedError) as refused:
        durable.acquire_lock(tmp_path / "lock")
    assert (refused.value.holder, refused.value.doing) == (str(os.getpid()), "")
    durable.say(first, "sleeps well")
    with pytest.raises(AlreadyLockedError) as refused:
        durable.acquire_lock(tmp_path / "lock")
    assert (refused.value.holder, refused.value.doing) == (str(os.getpid()), "sleeps well")
    os.close(first)
    os.close(durable.acquire_lock(tmp_path / "lock"))


def test_what_a_killed_process_left_in_the_file_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("4194304999999999999999\n")
    os.close(durable.acquire_lock(tmp_path / "lock"))
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
