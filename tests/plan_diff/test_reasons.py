"""The reasons of changes, as sentences."""

from typing import Any

import pytest

from tests.plan_diff.plans import compared

pytestmark = pytest.mark.feature("J11.diff")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            {"action": "replace", "reason": "cannot_update", "replace_paths": [["kms_key_id"], ["disk", 0, "size"]]},
            "Replaced because `kms_key_id` and `disk[0].size` cannot change in place. The old one is destroyed first.",
        ),
        (
            {"action": "replace", "reason": "tainted", "is_create_first": True},
            "Replaced because an earlier change of it failed. The new one is created first.",
        ),
        (
            {"action": "replace", "reason": "requested"},
            "Replaced because that was requested. The old one is destroyed first.",
        ),
        (
            {"action": "delete", "reason": "delete_because_each_key", "key": "10.4.0.0/16"},
            'Destroyed because the key `"10.4.0.0/16"` is no longer in `for_each`.',
        ),
        (
            {"action": "delete", "reason": "delete_because_count_index", "key": 3},
            "Destroyed because the index `3` is beyond `count`.",
        ),
        (
            {"action": "delete", "reason": "delete_because_no_resource_config"},
            "Destroyed because it is no longer in the configuration.",
        ),
        (
            {"action": "delete", "deposed": "ab12"},
            "Destroyed because it was left over when its replacement was created.",
        ),
        ({"action": "move", "previous_address": "a.old"}, "Moved from `a.old`."),
        ({"action": "import", "import_id": "i-1"}, "Imported by the ID `i-1`."),
        ({"action": "import", "import_id": ""}, "Imported by an ID that is not known yet."),
        ({"action": "forget"}, "It is no longer managed, and not destroyed."),
        ({"action": "update"}, ""),
    ],
)
def test_a_reason_is_a_sentence(more: dict[str, Any], why: str) -> None:
    assert compared({}, {}, **more).why == why
