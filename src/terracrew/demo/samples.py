"""The sample modules: their inputs, how each job is expected to end, and how they are set up."""

import secrets
from pathlib import Path
from typing import Any

import msgspec

from terracrew.client.address import segment
from terracrew.client.http import Api
from terracrew.demo import git_server
from terracrew.errors import NotFound
from terracrew.source_rules import archive

FOLDER = Path(__file__).with_name("samples")


class Sample(msgspec.Struct, frozen=True):
    path: str
    folder: str
    description: str
    expected: str = "SUCCEEDED"
    inputs: dict[str, Any] = {}
    needs_approval: bool = False
    """Its job is left waiting, so that the person who watches the demo can approve it."""
    version: str = ""
    """It comes from the git repository of the demo, at the highest tag in this range. Otherwise it is uploaded."""
    uses: dict[str, str] = {}
    """The inputs that are outputs of another module: `{"subnets": "platform/network:subnets"}`."""
    after_apply: str = ""
    """A hook: the script that runs after the apply."""

    @property
    def source(self) -> Path:
        return FOLDER / self.folder

    @property
    def group(self) -> str:
        return self.path.rpartition("/")[0]


SECRET_GROUP, SECRET_NAME = "payments", "BACKUP_KEY"
"""A secret of a group, which is an environment variable of all modules below it."""
_BACK_UP = f"""#!/bin/sh
echo "the ledger is backed up, encrypted with the key ${SECRET_NAME}"
"""

SAMPLES = (
    Sample("platform/network", "network", "comes from a git repository, at its newest 1.x tag", version="~> 1.0"),
    Sample(
        "platform/firewall",
        "firewall",
        "uses an output of platform/network",
        uses={"subnets": "platform/network:subnets"},
    ),
    Sample("platform/chatty", "chatty", "prints three thousand lines"),
    Sample("payments/broken", "broken", "breaks a rule on purpose", "FAILED"),
    Sample(
        "payments/ledger",
        "ledger",
        "runs a hook that uses a secret of its group",
        inputs={"owner": "payments"},
        after_apply=_BACK_UP,
    ),
    Sample("payments/gateway", "gateway", "waits until you approve its plan", "AWAITING_APPROVAL", needs_approval=True),
)


def ensure(api: Api, url: str) -> None:
    """Create or change everything that the jobs of the demo need. `url` is that of the demo's git repository."""
    for group in {sample.group for sample in SAMPLES}:
        _ensure_group(api, group)
    _ensure_secret(api)
    for sample in SAMPLES:
        _ensure_module(api, sample, _source(api, sample, url))
    for sample in SAMPLES:
        for name, output in sample.uses.items():
            module, _, output_name = output.rpartition(":")
            reference = {"module": module, "output": output_name}
            api.post("/inputs", {"place": sample.path, "name": name, "output": reference})
        if sample.after_apply:
            hook = {"after": {"script": sample.after_apply}}
            api.replace(f"/modules/{segment(sample.path)}/steps/apply", hook)


def _ensure_group(api: Api, path: str) -> None:
    try:
        api.get(f"/groups/{segment(path)}")
    except NotFound:
        api.post("/groups?parents=true", {"path": path})


def _ensure_secret(api: Api) -> None:
    """Set the secret once: a new value would make the plan outdated that waits for approval."""
    known = api.get("/inputs", place=SECRET_GROUP, inherited="false")["items"]
    if any(each["name"] == SECRET_NAME for each in known):
        return
    value = secrets.token_urlsafe(16)
    api.post("/inputs", {"place": SECRET_GROUP, "target": "environment", "name": SECRET_NAME, "secret": value})


def _source(api: Api, sample: Sample, url: str) -> dict[str, Any]:
    if sample.version:
        return {"kind": "git", "url": url, "version": sample.version, "subdirectory": git_server.SAMPLE}
    uploaded = api.upload("/archives", archive.pack(sample.source), "application/gzip")
    return {"kind": "archive", "archive_id": uploaded["id"]}


def _ensure_module(api: Api, sample: Sample, source: dict[str, Any]) -> None:
    settings = {
        "source": source,
        "inputs": sample.inputs,
        "description": sample.description,
        "needs_approval": sample.needs_approval,
    }
    try:
        api.patch(f"/modules/{segment(sample.path)}", settings)
    except NotFound:
        api.post("/modules", {"path": sample.path, **settings})
