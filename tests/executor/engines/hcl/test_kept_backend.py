"""The configuration of a backend is kept only if there is no credential in it."""

import json
from typing import Any

import pytest

from terracrew.errors import Invalid
from terracrew.executor.engines.hcl import kept_backend


def content(kind: str, **config: Any) -> bytes:
    return json.dumps({"version": 3, "backend": {"type": kind, "config": config, "hash": 1}}).encode()


def test_what_terracrew_configures_is_kept_only_if_it_is_empty() -> None:
    kept_backend.check(content("http", address=None, password=None), has_our_backend=True)
    with pytest.raises(Invalid, match="has password"):
        kept_backend.check(content("http", address=None, password="x"), has_our_backend=True)
    with pytest.raises(Invalid, match="not that of Terracrew"):
        kept_backend.check(content("local"), has_our_backend=True)


def test_of_another_backend_only_the_place_of_the_state_is_kept() -> None:
    kept_backend.check(content("s3", bucket="b", key="k", region="r", secret_key=None), has_our_backend=False)
    for config in ({"secret_key": "x"}, {"assume_role": {"external_id": "x"}}, {"access_key": "x"}, {"token": "x"}):
        with pytest.raises(Invalid, match="the configuration of the backend s3 has"):
            kept_backend.check(content("s3", bucket="b", **config), has_our_backend=False)


@pytest.mark.parametrize("kind", ["remote", "cloud", "http", "pg", "consul"])
def test_a_backend_that_is_not_known_is_not_kept(kind: str) -> None:
    with pytest.raises(Invalid):
        kept_backend.check(content(kind), has_our_backend=False)


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[" * 10_000, b'{"backend": 3}', b'{"backend": {"type": "s3", "config": 4}}']
)
def test_a_file_that_cannot_be_read_is_not_kept(text: bytes) -> None:
    with pytest.raises(Invalid):
        kept_backend.check(text, has_our_backend=False)
