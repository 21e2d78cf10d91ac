"""Sets up the samples: groups, modules with their sources and inputs, a hook, and a secret."""

import secrets
from typing import Any

from terracrew.client.http import Api, segment
from terracrew.demo import repository
from terracrew.demo.samples import SAMPLES, SECRET_GROUP, SECRET_NAME, Sample
from terracrew.errors import NotFound
from terracrew.source_rules import archive


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
        return {"kind": "git", "url": url, "version": sample.version, "subdirectory": repository.SAMPLE}
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
