"""The module registry protocol: finds the service of a host, the versions of a module, and where one can be downloaded."""

from typing import Any, cast
from urllib.parse import quote, urljoin

import msgspec

from terracrew.errors import Invalid, NotFound
from terracrew.executor.sources.registry.web import RegistryHttp, WebAnswer, shown
from terracrew.source_rules import version_ranges
from terracrew.source_rules.registry import Address
from terracrew.source_rules.version_ranges import Version

_SERVICE = "modules.v1"


class RegistryModule:
    """A module of a registry."""

    def __init__(self, web: RegistryHttp, address: Address) -> None:
        self._web, self._address = web, address
        self._base = ""

    def newest(self, wanted: str) -> str:
        """Return the highest version in a range, or of all versions that are not pre-releases."""
        found = self._web.get(f"{self._service()}/versions")
        versions = _versions(_decoded(found), self._address)
        range_ = version_ranges.parse_range(wanted or ">= 0.0.0")
        highest = range_.highest(versions)
        if highest is None:
            known = ", ".join(versions[each] for each in sorted(versions, key=lambda version: version.order)[-5:])
            raise NotFound(
                f"{self._address.path} has no version in the range {range_.text!r} at {self._address.host}; "
                f"its highest versions are: {known or 'none'}"
            )
        return versions[highest]

    def location(self, version: str) -> str:
        """Return the address from which a version can be downloaded, as the registry says it."""
        asked = f"{self._service()}/{quote(version, safe='')}/download"
        answer = self._web.get(asked)
        location = answer.headers.get("x-terraform-get", "")
        if not location and answer.body:
            document = _decoded(answer)
            location = str(document.get("location", ""))
        if not location:
            raise Invalid(
                f"{self._address.host} does not say where version {version} of {self._address.path} can be downloaded"
            )
        is_relative = location.startswith(("/", "./", "../"))
        return urljoin(answer.url, location) if is_relative else location

    def _service(self) -> str:
        """Return the address of the module at the service of its host, found by service discovery."""
        if not self._base:
            host = self._address.host
            found = self._web.get(f"https://{host}/.well-known/terraform.json")
            base = _decoded(found).get(_SERVICE)
            if not isinstance(base, str):
                raise NotFound(
                    f"{host} is not a registry of modules: its /.well-known/terraform.json does not name {_SERVICE}"
                )
            self._base = urljoin(found.url, base).rstrip("/")
        return f"{self._base}/{self._address.path}"


def _versions(document: dict[str, Any], address: Address) -> dict[Version, str]:
    """Return the versions that the registry has, with the spelling that it uses for each."""
    found: dict[Version, str] = {}
    try:
        for each in document["modules"][0]["versions"]:
            text = each["version"]
            if (version := version_ranges.parse_version(text)) is not None:
                found[version] = text
    except (KeyError, IndexError, TypeError) as error:
        raise Invalid(f"{address.host} gave a list of versions of {address.path} that cannot be read") from error
    return found


def _decoded(answer: WebAnswer) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Invalid(f"{shown(answer.url)} did not answer with JSON: {error}") from error
    if not isinstance(document, dict):
        raise Invalid(f"{shown(answer.url)} did not answer with a JSON object")
    return cast("dict[str, Any]", document)
