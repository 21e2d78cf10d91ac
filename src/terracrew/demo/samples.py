"""The sample modules: their inputs, how each job is expected to end, and how they are set up."""

import secrets
from pathlib import Path
from typing import Any

import msgspec

from terracrew.api.inputs import InputView, NewInput, OutputReference
from terracrew.api.modules import Archive, Module, ModuleChange, NewModule
from terracrew.api.steps import NewStepSettings, StepSettings
from terracrew.cli.arguments import source as sources
from terracrew.client.address import segment
from terracrew.client.http import Api
from terracrew.demo import git_server
from terracrew.errors import NotFound
from terracrew.protocol.spec import ArchiveSource, GitSource, Hook, Source
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
        sources.ensure_group(api, group)
    _ensure_secret(api)
    for sample in SAMPLES:
        _ensure_module(api, sample, _source(api, sample, url))
    for sample in SAMPLES:
        for name, output in sample.uses.items():
            module, _, output_name = output.rpartition(":")
            new = NewInput(name, sample.path, output=OutputReference(module, output_name))
            api.post("/inputs", new, InputView)
        if sample.after_apply:
            hook = NewStepSettings(after=Hook(sample.after_apply))
            api.replace(f"/modules/{segment(sample.path)}/steps/apply", hook, StepSettings)


def _ensure_secret(api: Api) -> None:
    """Set the secret once: a new value would make the plan outdated that waits for approval."""
    known = api.list("/inputs", InputView, place=SECRET_GROUP, inherited=False)
    if any(each.name == SECRET_NAME for each in known):
        return
    new = NewInput(SECRET_NAME, SECRET_GROUP, "environment", secret=secrets.token_urlsafe(16))
    api.post("/inputs", new, InputView)


def _source(api: Api, sample: Sample, url: str) -> Source:
    if sample.version:
        return GitSource(url, version=sample.version, subdirectory=git_server.SAMPLE)
    return ArchiveSource(api.upload("/archives", archive.pack(sample.source), "application/gzip", Archive).id)


def _ensure_module(api: Api, sample: Sample, source: Source) -> None:
    new = NewModule(
        path=sample.path,
        source=source,
        inputs=sample.inputs,
        description=sample.description,
        needs_approval=sample.needs_approval,
    )
    known = {name: getattr(new, name) for name in ("source", "inputs", "description", "needs_approval")}
    try:
        api.patch(f"/modules/{segment(sample.path)}", ModuleChange(**known), Module)
    except NotFound:
        api.post("/modules", new, Module)
