"""Answers are compressed only for those who accept that."""

import pytest

from terracrew.server.http import streams


@pytest.mark.parametrize(
    ("accepted", "is_accepted"),
    [
        ("gzip", True),
        ("br, GZIP", True),
        ("deflate, gzip;q=0.5", True),
        ("gzip; q=1.0", True),
        ("gzip;q=0", False),
        ("br, gzip ; q=0.000", False),
        ("x-gzip-like, identity", False),
        ("", False),
    ],
)
def test_a_weight_of_zero_is_a_no(accepted: str, is_accepted: bool) -> None:
    assert streams.is_gzip_accepted({"accept-encoding": accepted}) == is_accepted
