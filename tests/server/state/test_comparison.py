"""Two states are compared by resource and attribute, whatever the engine; a state that tells nothing is not taken for an empty one."""

import json
from typing import Any

import pytest

from terracrew.errors import Invalid
from terracrew.plan_diff.document import DiffDocument
from terracrew.server.state import differences
from tests.server.simulated_runner import SimulatedRunner
from tests.server.state.checkpoints import checkpoint, resource
from tests.server.state.stored_states import applied

SECRET_MARK = "4dabf18193072939515e22adb298388d"
ENCRYPTED = json.dumps({"serial": 1, "lineage": "a", "meta": {}, "encrypted_data": "c2VjcmV0"}).encode()


def secret(text: str) -> dict[str, str]:
    return {SECRET_MARK: "1b47061264138c4ac30d75fd1eb44270", "ciphertext": text}


def stack(files: dict[str, Any], **outputs: Any) -> bytes:
    root = {"urn": "urn:pulumi:dev::app::pulumi:pulumi:Stack::app-dev", "type": "pulumi:pulumi:Stack"}
    provider = resource("default") | {"type": "pulumi:providers:testing", "outputs": {"version": outputs}}
    found = [resource(name, id=f"/{name}", outputs=values) for name, values in files.items()]
    return checkpoint([root | {"outputs": outputs}, provider, *found], [])


@pytest.mark.feature("J15.versions")
def test_two_checkpoints_of_pulumi_are_compared_by_resource_and_property() -> None:
    """Any two states of Pulumi were compared as OpenTofu's, with the result that nothing differs."""
    before = stack(
        {"same": {"a": 1}, "changed": {"a": 1, "s": secret("x")}, "gone": {"a": 1}}, url="one", key=secret("x")
    )
    after = stack(
        {"same": {"a": 1}, "changed": {"a": 2, "s": secret("y")}, "new": {"a": 1}}, url="two", key=secret("y")
    )
    page = DiffDocument(differences.compared(before, after)).page()
    found = {each.address.rpartition("::")[2]: each for each in page.resources}
    assert {name: each.action for name, each in found.items()} == {
        "changed": "update",
        "gone": "delete",
        "new": "create",
    }
    assert [(each.name, bool(each.is_sensitive)) for each in found["changed"].attributes] == [("a", False), ("s", True)]
    assert {each.name: bool(each.is_sensitive) for each in page.head.outputs} == {"url": False, "key": True}
    assert "ciphertext" not in str(page)


@pytest.mark.feature("J15.versions")
async def test_a_state_that_its_engine_has_encrypted_is_not_taken_for_an_empty_one(runner: SimulatedRunner) -> None:
    """The page of such a module said that there is nothing to destroy, and two of its states that nothing differs."""
    attempt = await applied(runner, ENCRYPTED)
    found = (await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}/resources")).json()
    assert (found["count"], found["addresses"]) == (None, [])
    with pytest.raises(Invalid, match="may have encrypted it"):
        differences.compared(ENCRYPTED, ENCRYPTED)
