"""Prints the bill of materials of an image as CycloneDX: packages of Debian, packages of Python, and engines.

    sbom.py IMAGE DPKG_STATUS ENVIRONMENT [ENGINES_JSON]

ENGINES_JSON is what `terracrew engine list --json` printed. The document has no random number, and its time is
SOURCE_DATE_EPOCH, or that of the newest file in the environment, so that equal images have equal documents.
"""

# The library is installed only in the stage of the Dockerfile that runs this file, so its types are unknown here.
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import json
import os
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot5
from packageurl import PackageURL


def main(image: str, status: Path, environment: Path, engines: Path | None) -> None:
    site = next(environment.glob("lib/python3*/site-packages"))
    newest = int(os.environ.get("SOURCE_DATE_EPOCH") or max(file.stat().st_mtime for file in site.iterdir()))
    version = next(one.version for one in distributions(path=[str(site)]) if one.name == "terracrew")
    root = Component(name=f"terracrew-{image}", version=version, type=ComponentType.CONTAINER, bom_ref=image)
    found = [*debian(status), *python(site), *(programs(engines) if engines else ())]
    bom = Bom(
        components=found,
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, "\n".join(sorted(str(one.purl) for one in found))),
        metadata=BomMetaData(component=root, timestamp=datetime.fromtimestamp(newest, UTC)),
    )
    print(JsonV1Dot5(bom).output_as_string(indent=2))


def debian(status: Path) -> Iterator[Component]:
    for paragraph in status.read_text().strip().split("\n\n"):
        lines = (line.partition(": ") for line in paragraph.splitlines() if not line.startswith(" "))
        fields = {name: text for name, _, text in lines}
        if not fields.get("Status", "").endswith(" installed"):
            continue
        name, version = fields["Package"], fields["Version"]
        where = {"arch": fields["Architecture"], "distro": "debian-12"}
        yield Component(
            name=name,
            version=version,
            purl=(purl := PackageURL("deb", "debian", name, version, where)),
            bom_ref=str(purl),
            properties=[Property(name="source", value=fields.get("Source", name).split()[0])],
        )


def python(site: Path) -> Iterator[Component]:
    licenses = LicenseFactory()
    for one in distributions(path=[str(site)]):
        stated = one.metadata.get("License-Expression") or one.metadata.get("License") or ""
        yield Component(
            name=one.name,
            version=one.version,
            purl=(purl := PackageURL("pypi", None, one.name.lower().replace("_", "-"), one.version)),
            bom_ref=str(purl),
            licenses=[licenses.make_from_string(stated)] if stated and "\n" not in stated else [],
        )


def programs(engines: Path) -> Iterator[Component]:
    for one in json.loads(engines.read_text()):
        yield Component(
            name=one["name"],
            version=one["version"],
            type=ComponentType.APPLICATION,
            purl=(purl := PackageURL("generic", None, one["name"], one["version"])),
            bom_ref=str(purl),
        )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]) if len(sys.argv) > 4 else None)
