"""The configuration of a backend is kept only if it is that of Terracrew, with nothing in it."""

import json
from typing import Any

import pytest

from terracrew.errors import Invalid
from terracrew.executor.engines.hcl import kept_init


def content(kind: str, **config: Any) -> bytes:
    return json.dumps({"version": 3, "backend": {"type": kind, "config": config, "hash": 1}}).encode()


def test_what_terracrew_configures_is_kept_only_if_it_is_empty() -> None:
    kept_init.check_backend(content("http", address=None, password=None), has_our_backend=True)
    with pytest.raises(Invalid, match="has password"):
        kept_init.check_backend(content("http", address=None, password="x"), has_our_backend=True)
    with pytest.raises(Invalid, match="not that of Terracrew"):
        kept_init.check_backend(content("local"), has_our_backend=True)


@pytest.mark.parametrize("kind", ["s3", "local", "remote", "http", "pg"])
def test_nothing_of_another_backend_is_kept(kind: str) -> None:
    with pytest.raises(Invalid, match="backend of its own"):
        kept_init.check_backend(content(kind, bucket="b"), has_our_backend=False)


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[" * 10_000, b'{"backend": 3}', b'{"backend": {"type": "s3", "config": 4}}']
)
def test_a_file_that_cannot_be_read_is_not_kept(text: bytes) -> None:
    with pytest.raises(Invalid):
        kept_init.check_backend(text, has_our_backend=True)
