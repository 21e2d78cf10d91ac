"""What the state records is not lost, and what can be done about the rest is said for each resource."""

from datetime import UTC, datetime

import pytest

from terracrew.api.lost_resources import ChangeAction
from terracrew.server.jobs.lost_resources import compare
from terracrew.server.jobs.lost_resources.model import StoredChange
from terracrew.server.state import instance_ids
from terracrew.server.state.instance_ids import InstanceIds

STATE = b"""{"version": 4, "serial": 1, "lineage": "a", "resources": [
  {"mode": "managed", "type": "a", "name": "kept", "instances": [{"attributes": {"id": "1"}}]},
  {"mode": "managed", "type": "a", "name": "each", "module": "module.m[\\"x\\"]",
    "instances": [{"index_key": "k\\n${", "attributes": {"id": "2"}}, {"index_key": 3, "attributes": {"id": "3"}}]},
  {"mode": "managed", "type": "a", "name": "old", "instances": [{"deposed": "ab12", "attributes": {"id": "4"}}]},
  {"mode": "data", "type": "a", "name": "read", "instances": [{"attributes": {"id": "5"}}]}]}"""


def change(address: str, action: ChangeAction, id_: str = "", *, event: int = 9, replaced: str = "") -> StoredChange:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return StoredChange(address, action, id_, replaced, event, at, job_id="job", attempt=1, number=1, state_event=5)


@pytest.mark.feature("J15.lost")
@pytest.mark.parametrize(
    ("logged", "remedy"),
    [
        (change("a.new", "created", "7"), "import"),
        (change("a.new", "created", "7", event=3), "import"),
        (change("a.new", "created"), "look"),
        (change("a.new", "created", "arn:***:x"), "look"),
        (change('a.new["***"]', "created", "7"), "look"),
        (change("a.new }", "created", "7"), "look"),
        (change("a.new", "creating"), "look"),
        (change("a.kept", "created", "1"), None),
        (change("a.kept", "creating"), None),
        (change("a.kept", "creating", replaced="0"), None),
        (change("a.kept", "creating", replaced="1"), "look"),
        (change("a.kept", "created", "8"), "decide"),
        (change("a.kept", "created", "8", replaced="1"), "import"),
        (change(r'module.m["x"].a.each["k\n$${"]', "created", "2"), None),
        (change('module.m["x"].a.each[3]', "created", "3"), None),
        (change("a.read", "created", "5"), "import"),
        (change("a.kept", "changed", "1"), "refresh"),
        (change("a.kept", "changed", "1", event=3), None),
        (change("a.kept", "destroyed", "1"), "refresh"),
        (change("a.kept", "destroyed", "1", event=3), "refresh"),
        (change("a.kept", "destroyed", "0"), None),
        (change("a.old", "destroyed", "4"), "refresh"),
        (change("a.gone", "destroyed", "6"), None),
        (change("a.gone", "destroying", "6"), None),
    ],
)
def test_a_change_is_lost_only_if_the_state_does_not_record_it(logged: StoredChange, remedy: str | None) -> None:
    """A line may be printed before a state that was begun before it, so the order of events does not prove anything."""
    found = compare.lost(logged, instance_ids.read(STATE, 1), "tofu")
    assert (found and found.remedy) == remedy
    assert bool(found and found.import_block) == (remedy == "import")


def test_without_a_state_the_order_of_the_events_decides() -> None:
    assert compare.lost(change("a.x", "created", "1", event=3), None, "tofu") is None
    found = compare.lost(change("a.x", "created", "1"), None, "tofu")
    assert found is not None
    assert (found.remedy, found.type, found.provider) == ("import", "a", "a")
    assert compare.lost(change("a.x", "destroyed", "1", event=3), None, "tofu") is None


def test_an_engine_without_import_blocks_gets_none() -> None:
    found = compare.lost(change("a.x", "created", "1"), InstanceIds(), "pulumi")
    assert found is not None
    assert (found.remedy, found.import_block) == ("look", "")
