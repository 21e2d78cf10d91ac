"""What is said about an image, by what its registry answers."""

import json
from typing import Any

import pytest

from terracrew.api.deployments import Architecture
from terracrew.clouds import images
from terracrew.clouds.contract import CheckFailed, CloudSilent
from terracrew.clouds.web import Fetched

INDEX = {"manifests": [{"platform": {"architecture": each}} for each in ("amd64", "unknown")]}
PULL = 'Bearer realm="https://8.8.4.4/token",service="registry"'


CASES: list[tuple[list[Any], Architecture, str]] = [
    ([(200, {}, INDEX)], "x86_64", "for amd64"),
    ([(200, {}, INDEX)], "arm64", "is made for amd64, not for arm64"),
    ([(200, {}, {"layers": [{"size": 60_000_000}, {"size": 20_000_000}]})], "x86_64", "80 MB"),
    ([(401, {"www-authenticate": PULL}, {}), (200, {}, {"token": "t"}), (200, {}, INDEX)], "x86_64", "for amd64"),
    ([(401, {"www-authenticate": PULL}, {}), (200, {}, {})], "x86_64", "does not let anybody pull"),
    ([(401, {"www-authenticate": 'Bearer realm="http://10.0.0.1/"'}, {})], "x86_64", "does not let anybody pull"),
    ([(404, {}, {})], "x86_64", "has no team/runner with v1"),
    ([(503, {}, {})], "x86_64", "not checked: 8.8.8.8 answers with status 503"),
    ([], "x86_64", "not checked: gone"),
]


@pytest.mark.parametrize(("answers", "architecture", "words"), CASES)
async def test_what_a_registry_says_about_an_image(answers: list[Any], architecture: Architecture, words: str) -> None:
    left = list(answers)

    async def read(url: str, headers: dict[str, str]) -> Fetched:
        if not left:
            raise CloudSilent("gone")
        status, sent, body = left.pop(0)
        assert url.startswith("https://")
        return Fetched(status, sent, json.dumps(body).encode())

    try:
        said, remedy = await images.check("8.8.8.8/team/runner:v1", architecture, read), "nothing is wrong"
    except CheckFailed as error:
        said, remedy = error.message, error.remedy
    assert words in said
    assert remedy


@pytest.mark.parametrize("image", ["10.0.0.7/x:1", "localhost/x", "127.0.0.1:5000/x", "169.254.169.254/latest"])
async def test_a_registry_with_a_private_address_is_not_asked(image: str) -> None:
    """Whoever names an image must not be able to look around in the network of the server."""
    assert "no public address" in await images.check(image, "x86_64")


async def test_a_registry_without_an_address_is_said() -> None:
    assert "not checked" in await images.check("registry.invalid/x:1", "x86_64")


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("debian", ("registry-1.docker.io", "library/debian", "latest")),
        ("team/runner:v1", ("registry-1.docker.io", "team/runner", "v1")),
        ("ghcr.io/team/sub/runner", ("ghcr.io", "team/sub/runner", "latest")),
        ("host:5000/runner:v1@sha256:ab", ("host:5000", "runner", "sha256:ab")),
    ],
)
def test_the_parts_of_the_name_of_an_image(image: str, parts: tuple[str, str, str]) -> None:
    found = images.parsed(image)
    assert (found.registry, found.repository, found.reference) == parts
