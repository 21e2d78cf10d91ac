"""A valid settings file of a runner, and what its refusals say."""

import json
from pathlib import Path

import pytest

from terracrew.errors import Invalid
from terracrew.settings import layers

RUNNER, ORGANIZATION = "rnr_" + "1" * 32, "org_" + "2" * 32
FULL = {
    "server": {"url": "https://terracrew.example/"},
    "runner": {
        "id": RUNNER,
        "instance": "one",
        "organization_id": "2" * 32,
        "credentials": {"client_id": "sac_3", "client_secret": "hush-hush"},
    },
}


def write(file: Path, **sections: object) -> Path:
    """Write the valid settings with these sections in place of its own."""
    file.write_text(json.dumps({**FULL, **sections}, indent=1))
    return file


def problems_of(file: Path | None = None, **options: object) -> list[str]:
    with pytest.raises(Invalid) as refused:
        layers.load(file, options)
    return refused.value.details["problems"]
