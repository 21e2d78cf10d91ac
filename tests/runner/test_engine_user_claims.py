"""Runners of root on one machine find user ids for their engines that belong to nobody else."""

import grp
import os
import pwd
from pathlib import Path

import pytest

from terracrew.errors import Invalid
from terracrew.runner import engine_users
from terracrew.runner.engine_users import USER_IDS, claim

pytestmark = [
    pytest.mark.feature("X4.isolation"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only the runner of root has users for its engines"),
]


def working(folder: Path, name: str) -> str:
    (folder / name).mkdir()
    return str(folder / name)


def test_two_runners_have_different_users_and_keep_them(tmp_path: Path) -> None:
    claims = tmp_path / "claims"
    one, other = working(tmp_path, "one"), working(tmp_path, "other")
    first, second = claim(one, 3, claims), claim(other, 2, claims)
    assert len({each.uid for each in (*first, *second)}) == 5
    assert all(each.uid == each.gid and each.uid in USER_IDS for each in (*first, *second))
    assert claim(one, 3, claims) == first
    larger = claim(one, 5, claims)
    assert larger[:3] == first
    assert not {each.uid for each in larger} & {each.uid for each in second}


def test_the_users_of_a_runner_that_is_gone_are_given_to_others(tmp_path: Path) -> None:
    claims = tmp_path / "claims"
    gone = working(tmp_path, "gone")
    everything = claim(gone, len(USER_IDS), claims)
    with pytest.raises(Invalid, match="only 0 are free on this machine, and 2 attempts"):
        claim(working(tmp_path, "later"), 2, claims)
    os.rmdir(gone)
    assert claim(str(tmp_path / "later"), 2, claims) == everything[:2]


def test_the_ids_of_users_and_groups_of_the_machine_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = {each.gr_gid for each in grp.getgrall()} | {each.pw_uid for each in pwd.getpwall()}
    monkeypatch.setattr(engine_users, "USER_IDS", range(1, 1000))
    found = claim(working(tmp_path, "one"), 100, tmp_path / "claims")
    assert not taken & {each.uid for each in found}
