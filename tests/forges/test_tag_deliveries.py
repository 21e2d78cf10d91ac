"""What forges deliver of tags is told apart from branches, and hooks of GitLab ask for it."""

import json
from datetime import UTC, datetime

import pytest

from terracrew.forges import shared_api
from terracrew.forges.gitlab import answers
from terracrew.forges.model import BranchMoved

pytestmark = pytest.mark.feature("P7.tags")
COMMIT = "9f2c" * 10
NAME = "acme/network"
URL = "https://forge.example.com"


@pytest.mark.parametrize(
    ("ref", "after", "expected"),
    [
        ("refs/heads/main", COMMIT, [BranchMoved(NAME, "main", COMMIT)]),
        ("refs/tags/vpc/v1.0.0", COMMIT, [BranchMoved(NAME, "vpc/v1.0.0", COMMIT, is_tag=True)]),
        ("refs/tags/v1.0.0", "0" * 40, []),
        ("refs/heads/main", "0" * 40, []),
        ("refs/tags/a..b", COMMIT, []),
        ("refs/tags/", COMMIT, []),
        ("refs/notes/x", COMMIT, []),
        ("main", COMMIT, []),
    ],
)
def test_a_push_of_a_tag_is_told_as_one(ref: str, after: str, expected: list[BranchMoved]) -> None:
    body = {"ref": ref, "after": after, "repository": {"full_name": NAME}}
    assert shared_api.delivered("push", json.dumps(body).encode(), URL) == expected
    kind = "tag_push" if "tags" in ref else "push"
    body = {"object_kind": kind, "ref": ref, "after": after, "project": {"path_with_namespace": NAME}}
    assert answers.delivered(json.dumps(body).encode(), URL, datetime.now(UTC)) == expected
