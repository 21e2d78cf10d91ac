"""Checks without credentials that a registry has an image, and has it for an architecture."""

import json
import re
from typing import Any
from urllib.parse import urlencode

import msgspec

from terracrew.api.deployments import Architecture
from terracrew.clouds.contract import CheckFailed, CloudSilent
from terracrew.clouds.web import Fetch, Fetched, fetch_public

_INDEX_TYPES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_DOCKER_HUB = "registry-1.docker.io"


class ImageName(msgspec.Struct, frozen=True):
    """The parts of the name of an image."""

    registry: str
    repository: str
    reference: str
    """Its tag, or its digest."""


def parsed(image: str) -> ImageName:
    """Return the parts of `registry/repository:tag@digest`. Without a registry it is Docker's own."""
    name, _, digest = image.partition("@")
    first, slash, rest = name.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    registry, path = (first, rest) if is_host else (_DOCKER_HUB, name)
    repository, colon, tag = path.rpartition(":")
    if not colon or "/" in tag:
        repository, tag = path, "latest"
    if registry in ("docker.io", "index.docker.io", _DOCKER_HUB):
        registry = _DOCKER_HUB
        repository = repository if "/" in repository else f"library/{repository}"
    return ImageName(registry, repository, digest or tag)


async def check(image: str, architecture: Architecture, fetch: Fetch = fetch_public) -> str:
    """Check that anybody may pull the image. Returns what was found. Raises CheckFailed.

    A registry that does not answer here may answer there, so that is said, and is no failure.
    """
    name = parsed(image)
    try:
        answer = await _manifest(name, fetch)
    except CloudSilent as error:
        return f"not checked: {error.message}"
    if answer.status in (401, 403):
        raise CheckFailed(
            f"{name.registry} does not let anybody pull {image} (status {answer.status})",
            "Make the image public, or copy it into a registry of the account, such as ECR.",
        )
    if answer.status == 404:
        raise CheckFailed(
            f"{name.registry} has no {name.repository} with {name.reference}",
            "Correct the name of the image, or push it.",
        )
    if answer.status != 200:
        return f"not checked: {name.registry} answers with status {answer.status}"
    return _described(answer, image, architecture)


async def _manifest(name: ImageName, fetch: Fetch) -> Fetched:
    url = f"https://{name.registry}/v2/{name.repository}/manifests/{name.reference}"
    accept = {"Accept": ", ".join((*_INDEX_TYPES, *_MANIFEST_TYPES))}
    answer = await fetch(url, accept)
    challenge = answer.headers.get("www-authenticate", "")
    if answer.status != 401 or not challenge.lower().startswith("bearer "):
        return answer
    # Public registries give everybody a token for what is public.
    asked: dict[str, str] = dict(_CHALLENGE.findall(challenge))
    realm = asked.pop("realm", "")
    if not realm.startswith("https://"):
        return answer
    wanted = {"service": asked.get("service", ""), "scope": f"repository:{name.repository}:pull"}
    given = _json(await fetch(f"{realm}?{urlencode(wanted)}", {}))
    token = given.get("token") or given.get("access_token")
    return await fetch(url, accept | {"Authorization": f"Bearer {token}"}) if token else answer


def _described(answer: Fetched, image: str, architecture: Architecture) -> str:
    manifest = _json(answer)
    listed: list[dict[str, Any]] = manifest.get("manifests") or []
    if not listed:
        layers: list[dict[str, Any]] = manifest.get("layers") or []
        size = sum(int(each.get("size", 0)) for each in layers)
        return f"{size / 1e6:.0f} MB" if size else ""
    wanted = _ARCHITECTURES[architecture]
    has = sorted({str(each.get("platform", {}).get("architecture", "")) for each in listed} - {"", "unknown"})
    if has and wanted not in has:
        raise CheckFailed(
            f"{image} is made for {' and '.join(has)}, not for {wanted}",
            "Choose the other architecture, or build the image for it.",
        )
    return f"for {', '.join(has)}" if has else ""


def _json(answer: Fetched) -> dict[str, Any]:
    try:
        found: Any = json.loads(answer.body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]
