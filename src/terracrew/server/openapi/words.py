"""Completes the OpenAPI document with what people read: introduction, sections, descriptions of fields, and commands."""

import re
from typing import Any

import msgspec

from terracrew.api import fields
from terracrew.server.openapi.commands import COMMANDS

INTRODUCTION = """Everything that the dashboard and the command line do goes through this API.

Send an API token as `Authorization: Bearer …`; `terracrew token create NAME` makes one. Bodies are JSON, and unknown
fields and query parameters are refused. Lists come in pages: send the `next` of a page as `after` to get the one behind
it. A group, a module or a runner is named by its id or its path, in which each slash is written `%2F`; a job is named by
its id or number. Times are in UTC.

Every error is a problem document (RFC 9457): `code` is stable and meant for programs, `detail` is meant for people, and
`errors` names each field that is wrong."""

TAGS = {
    "modules": "A source, an engine and the inputs of one root module.",
    "inputs": "What the jobs of modules are given: variables, environment variables and secrets, at any place of the tree.",
    "jobs": "Plans, applies and destroys of a module, and the decisions about them.",
    "logs": "What jobs print.",
    "states": "The states that engines wrote, their outputs, those that arrived too late, and the locks that people hold.",
    "groups": "The tree that modules and runners are in.",
    "pull requests": "What pull requests touch, their plans, and how they are applied.",
    "schedules": "What the server starts by itself, and when.",
    "overview": "What needs the caller, what waits, and figures of jobs and runners over a day, a week or a month.",
    "drift": "What was changed outside of the engine: checks, what they tell, and what is muted.",
    "steps": "Hooks and flags that groups and modules add to the steps of their jobs.",
    "forges": "Connections to GitHub, GitLab, Gitea, Forgejo and plain git, the repositories that they watch, and what is delivered.",
    "policies": "Policies in Rego that look at plans before they are applied, and what they have said.",
    "discovery": "Rules that make modules from the folders of a repository, and what they have found.",
    "registry": "What groups publish for the configurations of others, and its versions.",
    "cloud identities": "The ways into cloud accounts in which runners are started.",
    "runners": "The processes that run jobs, and what they are assigned to.",
    "fleet jobs": "Jobs that deploy, update and remove cloud-hosted runners, and test connections to clouds.",
    "releases": "The published versions of Terracrew, their files, and the tokens with which they are published.",
    "live": "A stream of what has changed.",
    "access": "People, service accounts, tokens and roles.",
    "audit": "Who changed what.",
    "server": "What the server stores, what retention would remove, and the change of the master key; for administrators.",
}
_PAGE = re.compile(rb"Page_[\w.]*?(\w+)_(?=\")")


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with these texts. The name `Page_terracrew.server.jobs.model.JobListed_` becomes `PageOfJobListed`."""
    document = msgspec.json.decode(_PAGE.sub(rb"PageOf\1", msgspec.json.encode(document)))
    document["info"]["description"] = INTRODUCTION
    used = {tag for methods in document["paths"].values() for each in methods.values() for tag in each.get("tags", [])}
    known = {tag: text for tag, text in TAGS.items() if tag in used} | dict.fromkeys(sorted(used - TAGS.keys()), "")
    document["tags"] = [{"name": tag, "description": text} for tag, text in known.items()]
    structs = _structs()
    for name, schema in document["components"]["schemas"].items():
        kind = structs.get(schema.get("title", name))
        described = {} if kind is None else fields.docstrings(kind)
        for field, content in schema.get("properties", {}).items():
            if field in described and "$ref" not in content:
                content.setdefault("description", described[field])
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            operation["operationId"] = _identifier(operation.get("summary", ""))
            if command := COMMANDS.get(f"{method.upper()} {path}"):
                operation["x-terracrew-command"] = f"terracrew {command}"
    return document


def _structs() -> dict[str, type[msgspec.Struct]]:
    """Return the structs of Terracrew by their names."""
    found: dict[str, type[msgspec.Struct]] = {}
    waiting = [msgspec.Struct]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            if kind.__module__.startswith("terracrew."):
                found.setdefault(kind.__name__, kind)
            waiting.append(kind)
    return found


def _identifier(summary: str) -> str:
    """Return an identifier made from a summary: `Run a job on a module` becomes `run_a_job_on_a_module`."""
    return re.sub(r"[^a-z0-9]+", "_", summary.lower().replace("'s", "")).strip("_")
