"""`terracrew module`: lists and shows modules: their settings, their locks, and what blocks their jobs."""

from typing import Any

import click
import msgspec

from terracrew.cli.arguments import name_completion
from terracrew.cli.commands.job import render
from terracrew.cli.commands.module import contents, edit
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.protocol.spec import Source
from terracrew.wording import approval_words, module_words
from terracrew.wording.durations import written


@click.command("list")
@click.argument("group", default="", shell_complete=name_completion.groups)
@output.json_option
@pass_target
def list_modules(target: Target, group: str) -> output.CommandResult:
    """List the modules of the organization, or those below GROUP."""
    items = list(target.api().list("/modules", group=group or None, recursive=True))
    rows = [
        (item["path"], *_newest_job(item), item.get("state_version") or "", item["engine"], _source(item))
        for item in items
    ]
    columns = ("PATH", "STATUS", "NEWEST JOB", "STATE", "ENGINE", "SOURCE")
    return output.listing(items, columns, rows, empty="no modules yet: `terracrew module create`")


def _newest_job(item: dict[str, Any]) -> tuple[str, str]:
    """Return the status of a module's newest job, and which job it is."""
    doubt = "in doubt" if item.get("is_in_doubt") else ""
    if not (job := item.get("newest_job")):
        return doubt, ""
    kind = output.job_type(job)
    return ", ".join(filter(None, (job["status"], doubt))), f"{kind} #{job['number']}, {output.age(job['at'])}"


@click.command("show")
@click.argument("path", shell_complete=name_completion.modules)
@output.json_option
@pass_target
def show_module(target: Target, path: str) -> output.CommandResult:
    """Show the module PATH, and what blocks its jobs."""
    api = target.api()
    found = api.get(f"/modules/{segment(path)}")
    doubts, quarantined = _standing(found)
    rules: list[dict[str, Any]] = found.get("approval_rules") or []
    return output.details(
        found,
        [
            ("path", found["path"]),
            ("id", found["id"]),
            ("description", found["description"]),
            ("team", found.get("team")),
            ("engine", f"{found['engine']} {found.get('engine_version') or ''}".strip()),
            ("source", _source(found)),
            ("inputs", found["inputs"]),
            ("environment", sorted(found["environment"])),
            ("applied by itself", _triggers(found)),
            ("init", "runs in every job" if found.get("is_fresh") else ""),
            *render.placement(found.get("placement") or {}),
            ("priority of its jobs", found.get("priority")),
            ("limits", ", ".join(module_words.described_limits(found.get("limits") or {}))),
            ("oidc audiences", found.get("oidc_audiences")),
            ("dispatcher", _dispatcher(found)),
            ("cloud logins", render.cloud_logins(found.get("cloud") or {})),
            ("state", f"version {found['state_version']}" if found.get("state_version") else "none yet"),
            ("lock", render.lock(found.get("lock"))),
            ("backend lock", render.held_lock(found.get("held_lock"))),
            *(("set back", render.hold(each)) for each in found.get("holds") or ()),
            *(("in doubt", each) for each in doubts),
            *(("in quarantine", each) for each in quarantined),
            ("approval", f"{approval_words.requirement(rules)}, within {written(found['approval_seconds'])}"),
            ("used by", module_words.used_by(found["used_by"]) if found.get("used_by") else ""),
            *(("approval rule", each) for each in approval_words.described(rules)),
            ("created", output.age(found["created_at"])),
        ],
    )


def _dispatcher(found: dict[str, Any]) -> str:
    return ", ".join(
        module_words.described_choice(found.get("applying_dispatcher") or {}, found.get("dispatcher_from"))
    )


def _triggers(found: dict[str, Any]) -> str:
    return "when an output that it uses changes" if found.get("triggers") == "auto" else ""


def _standing(found: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Describe the doubts and the quarantined states of a module, and what to do about them."""
    known: list[dict[str, Any]] = found.get("doubts") or []
    states: list[dict[str, Any]] = found.get("quarantined") or []
    doubts = [_doubt(each) for each in known]
    if doubts:
        doubts.append(
            "every plan waits for approval: `terracrew job show` shows what is known; then approve or decline the plan"
        )
    quarantined = [_quarantined(each) for each in states]
    if quarantined:
        decide = f"`terracrew state list {found['path']} --quarantined`, then `terracrew state adopt` or `discard`"
        quarantined.append(f"no job runs before these are decided: {decide}")
    return doubts, quarantined


def _doubt(doubt: dict[str, Any]) -> str:
    where = " · ".join(filter(None, (doubt.get("runner_path"), doubt.get("instance_name"))))
    since = output.moment(doubt.get("ended_at"))
    return f"attempt {doubt['attempt']} of job #{doubt['number']} on {where}, {since}: {doubt.get('reason') or ''}"


def _quarantined(state: dict[str, Any]) -> str:
    came = output.moment(state["created_at"])
    what = f"not adoptable ({state['problem']})" if state.get("problem") else f"serial {state['serial']}"
    return f"{state['id']}, {what}, of attempt {state['attempt']} of job #{state['number']}, {came}"


def _source(found: dict[str, Any]) -> str:
    return module_words.described_source(msgspec.convert(found["source"], Source))


@click.group(cls=LazyGroup)
def module() -> None:
    """Create, change and inspect modules. A module is a source, an engine and its inputs."""


for _command in (list_modules, show_module, edit.create, edit.update, edit.move, edit.delete, edit.unlock):
    module.add_command(_command)
for _command in (contents.state, contents.outputs, contents.resources, contents.dependencies, contents.end_use):
    module.add_command(_command)
