"""The copy of a source that is a folder on the runner's machine."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.executor.sources import local

LIMIT_BYTES = (1 << 20) + 4096


@pytest.fixture
def file_size_limit() -> Iterator[None]:
    """Let files grow no further than this, as on a disk that is almost full: a write that crosses the limit is cut short."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("file_size_limit")
def test_a_file_that_does_not_fit_fails_the_copy_instead_of_being_cut_off(tmp_path: Path) -> None:
    """Symptom: the job ran with a source file that lacked its end, although the digest of the whole was reported."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    large = source / "main.tf"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    large.write_bytes(b"#" * (LIMIT_BYTES + 4096))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with pytest.raises(OSError, match="File too large"):
        local.copy(source, target)
