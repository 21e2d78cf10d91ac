"""A job that imports lost resources: what was replaced leaves the state, and what cannot be imported is named."""

import json

import pytest

from terracrew.executor.engines.hcl import failure
from terracrew.executor.engines.hcl import state as states

STATE = json.dumps(
    {
        "version": 4,
        "serial": 7,
        "lineage": "a",
        "outputs": {"big": {"value": 123456789012345678901234567890, "type": "number"}},
        "resources": [
            {"mode": "managed", "type": "a", "name": "one", "instances": [{"attributes": {"id": "old", "n": 1e400}}]}
            | {"provider": "p"},
            {
                "mode": "managed",
                "type": "a",
                "name": "each",
                "instances": [
                    {"index_key": "k\n", "attributes": {"id": "2"}},
                    {"index_key": "l", "attributes": {"id": "3"}},
                    {"index_key": "k\n", "deposed": "ab", "attributes": {"id": "2"}},
                ],
            },
        ],
    }
).replace("Infinity", "1e400")


@pytest.mark.feature("J15.lost")
def test_only_what_was_destroyed_leaves_the_state_and_the_rest_stays_as_it_was() -> None:
    left = states.without_destroyed(STATE.encode(), {"a.one": "old", r'a.each["k\n"]': "2", 'a.each["l"]': "other"})
    found = json.loads(left)
    assert [each["name"] for each in found["resources"]] == ["each"]
    assert [(each["index_key"], each.get("deposed")) for each in found["resources"][0]["instances"]] == [
        ("l", None),
        ("k\n", "ab"),
    ]
    assert (found["serial"], found["lineage"]) == (7, "a")
    assert b"123456789012345678901234567890" in left
    assert states.without_destroyed(STATE.encode(), {"a.one": "other"}).count(b"1e400") == 1


@pytest.mark.parametrize("state", [b"", b"[]", b'{"encrypted_data": "x"}', b'{"resources": {}}', b"{" * 10_000])
def test_a_state_in_another_format_is_not_changed(state: bytes) -> None:
    assert states.without_destroyed(state, {"a.one": "old"}) == state


@pytest.mark.feature("J15.lost")
def test_the_resource_that_a_provider_does_not_import_is_named() -> None:
    printed = """\
testing_file.rep: Preparing import... [id=/made/1]
testing_file.rep: Refreshing state... [id=/made/1]
testing_file.each["a b"]: Preparing import... [id=/made/absent]
│ Error: cannot import the file
│
│ stat /made/absent: no such file or directory
"""
    addresses = ["testing_file.rep", 'testing_file.each["a b"]', "testing_file.other"]
    assert failure.refused_imports(printed, addresses) == ['testing_file.each["a b"]']


@pytest.mark.parametrize(
    "printed",
    [
        "│ Error: Configuration for import target does not exist\n│\n│   on x.tf line 9:\n│ The configuration for the given\n"
        "│ import a.gone does not\n│ exist. All target instances must have an associated configuration\n",
        "Error: Cannot import to non-existent resource address\n\nImporting to resource address a.gone[2] is not\n"
        "possible, because that address does not exist in configuration.\n",
    ],
)
def test_a_resource_that_left_the_configuration_is_named(printed: str) -> None:
    assert failure.refused_imports(printed, ["a.kept", "a.gone[2]"]) == ["a.gone[2]"]
