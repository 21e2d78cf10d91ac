"""The lock file of a module, which may contain anything. The executor reads it on the loop that also enforces the limits of a job."""

import time
from pathlib import Path

import pytest

from terracrew.executor.engines.hcl import lockfile

_MAX_CPU_SECONDS = 5.0
_BLOCK = 'provider "registry.opentofu.org/hashicorp/time" {\n  version = "0.13.1"\n  hashes = ["h1:abc="]\n}\n'
_SLOW = {
    "a block of empty lines": 'provider "a/b/c" {' + "\n" * 900_000 + "}\n",
    "blocks without an end": _BLOCK + 'provider "a/b/c" {\n' * 45_000,
    "blocks without an end on one line": _BLOCK + 'provider "a/b/c" {' * 45_000,
    "a line of blanks": _BLOCK + " " * 900_000,
}


@pytest.mark.timeout(60)
@pytest.mark.feature("J3.warm")
@pytest.mark.parametrize("form", list(_SLOW))
def test_no_lock_file_takes_long_to_read(tmp_path: Path, form: str) -> None:
    (tmp_path / lockfile.NAME).write_text(_SLOW[form])
    before = time.process_time()
    found = lockfile.read(tmp_path)
    assert time.process_time() - before < _MAX_CPU_SECONDS
    assert [each.provider.version for each in found] == (["0.13.1"] if _BLOCK in _SLOW[form] else [])
