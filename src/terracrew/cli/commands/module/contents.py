"""`terracrew module state`, `outputs` and `resources`: what the last jobs of a module have left."""

import click

from terracrew.cli.arguments import name_completion, references
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output, outputs_printing, streams


@click.command("state")
@click.argument("path", shell_complete=name_completion.modules)
@click.option("--versions", is_flag=True, help="List all versions instead.")
@click.option("--version", "version_id", metavar="N", help="Print this version (or id) instead of the current one.")
@output.json_option
@pass_target
def state(target: Target, path: str, versions: bool, version_id: str | None) -> output.Result | None:
    """Print the current state of the module PATH as its engine wrote it."""
    from terracrew.client.http import segment

    api = target.api()
    if not versions:
        found = references.state(api, version_id, path) if version_id else ""
        place = f"/states/{segment(found)}" if found else f"/modules/{segment(path)}/state"
        with streams.document_output() as stream:
            api.download(place, stream)
        return None
    items = list(api.list(f"/modules/{segment(path)}/states"))
    rows = [(i["version"] or i["id"], i["status"], i["serial"], i["size"], output.age(i["created_at"])) for i in items]
    return output.listing(
        items, ("STATE", "STATUS", "SERIAL", "BYTES", "ARRIVED"), rows, empty=f"{path} has no state yet"
    )


@click.command("outputs")
@click.argument("path", shell_complete=name_completion.modules)
@click.argument("name", required=False)
@click.option("--sensitive", is_flag=True, help="Also show sensitive values. This is recorded in the audit log.")
@output.json_option
@pass_target
def outputs(target: Target, path: str, name: str | None, sensitive: bool) -> output.Result:
    """Print the outputs of the module PATH, or the one called NAME."""
    from terracrew.client.http import segment

    found = target.api().get(f"/modules/{segment(path)}/outputs", sensitive=sensitive or None)
    if since := found.get("outdated_since"):
        origin = f"are from {found['job_id']}" if found.get("job_id") else "are of unknown origin"
        output.note(
            f"these outputs {origin}; job {found['outdated_by']} has changed the module since ({output.moment(since)})"
        )
    return outputs_printing.show(found, path, name, sensitive=sensitive)


@click.command("resources")
@click.argument("path", shell_complete=name_completion.modules)
@output.json_option
@pass_target
def resources(target: Target, path: str) -> output.Result:
    """List the resources in the current state of the module PATH."""
    from terracrew.client.http import segment

    found = target.api().get(f"/modules/{segment(path)}/resources")
    rows = [(each,) for each in found["addresses"]]
    more = (found["count"] or 0) - len(rows)
    notes = [f"and {more} more"] if more > 0 else []
    return output.listing(found, ("RESOURCE",), rows, empty=f"{path} has no known resources", notes=notes)
