"""Finds or starts a platform by its name. To add one, write a class with the methods of `Platform` and name it in `known_platforms`."""

import os
from collections.abc import Iterable
from functools import cache
from typing import Protocol

import pytest

CHOICE = "TERRACREW_TEST_PLATFORMS"
"""The variable that `make test-platforms` sets: `all`, or the names of the platforms to start, separated by commas."""


class Platform(Protocol):
    def find(self) -> str | None:
        """Return the address of one that runs already at its usual place, without help of the tests."""
        ...

    def missing(self) -> str | None:
        """Return why it cannot be started on this machine."""
        ...

    def prepare(self) -> None:
        """Build what it needs and what this machine does not have yet, which may take longer than a test may."""
        ...

    def join(self) -> str:
        """Start it, unless another run of the tests has done so, and return its address."""
        ...

    def leave(self) -> None:
        """End it, unless another run of the tests uses it."""
        ...


_joined: dict[str, Platform] = {}


def need(name: str) -> str:
    """Return the address of a platform. Starts it in `make test-platforms`; elsewhere it must run already."""
    if why := why_left_out([name]):
        pytest.skip(why)
    if not _is_chosen(name):
        found = find(name)
        assert found is not None
        return found
    return _started(name)


def prepare() -> None:
    """Prepare every chosen platform that this machine can start."""
    for name, platform in known_platforms().items():
        if _is_chosen(name) and platform.missing() is None:
            platform.prepare()


def why_left_out(names: Iterable[str]) -> str | None:
    """Return the reason why this run leaves out the tests that use these platforms."""
    absent = sorted(name for name in names if not _is_chosen(name) and find(name) is None)
    return f"{' and '.join(absent)}: `make test-platforms` runs these tests" if absent else None


def leave_all() -> None:
    """Leave every platform that this process has joined."""
    while _joined:
        _joined.popitem()[1].leave()


@cache
def known_platforms() -> dict[str, Platform]:
    from tests.machine.platforms.aws import Aws
    from tests.machine.platforms.docker import Docker
    from tests.machine.platforms.ec2_metadata import Ec2MetadataMock
    from tests.machine.platforms.gitea import Gitea
    from tests.machine.platforms.keycloak import Keycloak
    from tests.machine.platforms.kubernetes import Kubernetes
    from tests.machine.platforms.ministack import MiniStack
    from tests.machine.platforms.opa import Opa
    from tests.machine.platforms.vault import Vault

    return {
        "aws": Aws(),
        "docker": Docker(),
        "ec2-metadata": Ec2MetadataMock(),
        "gitea": Gitea(),
        "keycloak": Keycloak(),
        "kubernetes": Kubernetes(),
        "ministack": MiniStack(),
        "opa": Opa(),
        "vault": Vault(),
    }


@cache
def find(name: str) -> str | None:
    return known_platforms()[name].find()


@cache
def _started(name: str) -> str:
    """Return the address of one that was started for the tests, or of one that somebody else runs where that cannot be."""
    platform = known_platforms()[name]
    if why := platform.missing():
        if found := find(name):
            return found
        pytest.fail(f"{name} is missing, and {CHOICE} asks for it: {why}")
    address = platform.join()
    _joined[name] = platform
    return address


def _is_chosen(name: str) -> bool:
    chosen = {word.strip() for word in os.environ.get(CHOICE, "").split(",")}
    return bool(chosen & {"all", name})
