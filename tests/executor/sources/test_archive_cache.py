"""The cache of archives on a runner stays within its bounds, and an attempt whose archive was removed downloads it again."""

import hashlib
import os
import time
from pathlib import Path

import pytest

from terracrew.executor.sources import archive
from terracrew.executor.sources.archive import ArchiveCache
from terracrew.system import trees


def put(cache: ArchiveCache, content: bytes) -> str:
    sha256 = hashlib.sha256(content).hexdigest()
    cache.put(sha256, content)
    return sha256


def age(file: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(file, (then, then))


def test_the_least_recently_used_archives_go_when_the_cache_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner's cache of archives was never cleaned, and filled the disk."""
    monkeypatch.setattr(archive, "MAX_BYTES", 250)
    cache = ArchiveCache(tmp_path / "archives")
    first, second = put(cache, b"1" * 100), put(cache, b"2" * 100)
    age(tmp_path / "archives" / first, 20)
    age(tmp_path / "archives" / second, 10)
    assert cache.get(first) == b"1" * 100  # it is used, so the second goes
    third = put(cache, b"3" * 100)
    assert [cache.get(each) is not None for each in (first, second, third)] == [True, False, True]
    large = put(cache, b"4" * 300)
    assert cache.get(large) == b"4" * 300  # the one that was just put stays


def test_what_nobody_has_used_for_long_and_old_drafts_go(tmp_path: Path) -> None:
    cache = ArchiveCache(tmp_path)
    old = put(cache, b"old")
    draft, fresh = tmp_path / ".abc.1", tmp_path / ".def.2"
    draft.write_bytes(b"x")
    fresh.write_bytes(b"x")
    age(tmp_path / old, archive.MAX_UNUSED_SECONDS + 1)
    age(draft, trees.MAX_DRAFT_SECONDS + 1)
    new = put(cache, b"new")
    assert {each.name for each in tmp_path.iterdir()} == {new, fresh.name}


def test_a_damaged_archive_is_not_used(tmp_path: Path) -> None:
    cache = ArchiveCache(tmp_path)
    sha256 = put(cache, b"content")
    (tmp_path / sha256).write_bytes(b"damaged")
    assert cache.get(sha256) is None
    assert cache.get("../secret") is None
