"""The checkpoint of a Pulumi stack tells what it manages, and what had begun."""

import pytest

from terracrew.server.state import document, instance_ids
from tests.server.state.checkpoints import checkpoint, resource

pytestmark = pytest.mark.feature("J15.pulumi")


def test_what_it_manages_is_compared_by_address_and_id() -> None:
    stack = {"urn": "urn:pulumi:dev::app::pulumi:pulumi:Stack::app-dev", "type": "pulumi:pulumi:Stack"}
    provider = resource("default", type="pulumi:providers:testing")
    state = checkpoint([stack, provider, resource("web", id="w-1"), resource("web", id="w-0", delete=True)], [])
    found = instance_ids.read(state, 7)
    assert found.current == {"a:b:C$testing:index:File::web": "w-1"}
    assert found.deposed == {("a:b:C$testing:index:File::web", "w-0")}
    assert document.type_of("a:b:C$testing:index:File::web") == "testing:index:File"
    assert document.type_of("aws_vpc.main") == ""


def test_what_had_begun_is_named_and_reads_are_not() -> None:
    kinds = ("creating", "updating", "deleting", "reading", "importing")
    state = checkpoint([], [{"resource": resource(kind), "type": kind} for kind in kinds])
    found = {each.address.rpartition("::")[2]: each.action for each in document.pending(state)}
    assert found == {"creating": "creating", "updating": "changing", "deleting": "destroying", "importing": "creating"}
    assert document.pending(b'{"version": 3, "checkpoint": {"stack": "a"}}') == []
