"""The state of Pulumi: its identity, its resources, and which outputs are secret."""

import json

import pytest

from terracrew.errors import Invalid
from terracrew.executor.engines.pulumi import checkpoint

pytestmark = pytest.mark.feature("J15.pulumi")
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:…"}
URN = "urn:pulumi:prod::shop::"


def state(*resources: dict[str, object], time: str = "2026-11-16T08:00:00.123456Z") -> bytes:
    latest = {"manifest": {"time": time, "version": "v3.255.0"}, "resources": list(resources)}
    return json.dumps({"version": 3, "checkpoint": {"stack": "organization/shop/prod", "latest": latest}}).encode()


def resource(kind: str, name: str, **more: object) -> dict[str, object]:
    return {"urn": f"{URN}{kind}::{name}", "type": kind, **more}


def test_only_what_exists_somewhere_is_a_resource() -> None:
    content = state(
        resource("pulumi:pulumi:Stack", "shop-prod"),
        resource("pulumi:providers:aws", "default", custom=True),
        resource("shop:index:Page", "front"),
        resource("aws:s3/bucket:Bucket", "web", custom=True),
        resource("aws:s3/bucket:Bucket", "elsewhere", custom=True, external=True),
    )
    found = checkpoint.identify(content)
    assert (found.serial, found.lineage, found.resources) == (1794816000123456, "organization/shop/prod", 1)
    assert checkpoint.addresses(content) == ["aws:s3/bucket:Bucket::web"]


def test_a_new_stack_is_older_than_every_other_state_of_it() -> None:
    first = checkpoint.identify(checkpoint.initial("shop", "prod"))
    assert (first.serial, first.lineage, first.resources) == (0, checkpoint.identify(state()).lineage, 0)


def test_an_emptied_state_follows_the_one_that_it_replaces() -> None:
    content = state(resource("aws:s3/bucket:Bucket", "web", custom=True))
    emptied = checkpoint.identify(checkpoint.emptied(content))
    assert emptied.serial == checkpoint.identify(content).serial + 1
    assert emptied.resources == 0
    assert checkpoint.identify(checkpoint.emptied(checkpoint.initial("shop", "prod"))).serial == 1


def test_a_state_is_unfinished_while_it_names_an_operation_that_has_begun() -> None:
    document = json.loads(state(resource("aws:s3/bucket:Bucket", "web", custom=True)))
    assert not checkpoint.identify(json.dumps(document).encode()).is_unfinished
    document["checkpoint"]["latest"]["pending_operations"] = [
        {"type": "creating", "resource": resource("aws:s3/bucket:Bucket", "logs", custom=True)}
    ]
    assert checkpoint.identify(json.dumps(document).encode()).is_unfinished
    assert not checkpoint.identify(checkpoint.emptied(json.dumps(document).encode())).is_unfinished


def test_an_output_is_secret_if_a_part_of_it_is() -> None:
    outputs = {"plain": {"a": [1, "x"]}, "secret": SECRET, "deep": {"a": [{"b": SECRET}]}}
    content = state(resource("pulumi:pulumi:Stack", "shop-prod", outputs=outputs))
    assert checkpoint.secret_outputs(content) == {"secret", "deep"}
    assert checkpoint.secret_outputs(checkpoint.initial("shop", "prod")) == set()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'{"checkpoint": {}}',
        b'{"checkpoint": {"stack": 1}}',
        b'{"checkpoint": {"stack": "s", "latest": {"resources": [1]}}}',
        b'{"checkpoint": {"stack": "s", "latest": {"manifest": {"time": "yesterday"}}}}',
        b'{"version": 4, "serial": 1, "lineage": "of another engine", "resources": []}',
        b'{"checkpoint":' * 100_000,
    ],
)
def test_something_else_is_not_a_state(content: bytes) -> None:
    with pytest.raises(Invalid, match="not a checkpoint"):
        checkpoint.identify(content)
