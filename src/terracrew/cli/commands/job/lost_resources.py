"""`terracrew job lost-resources`: what an apply changed before it was cut short, and no state records."""

from typing import Any

import click

from terracrew import plan_words
from terracrew.cli.arguments import name_completion
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output


@click.command("lost-resources")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option(
    "--import-blocks", "is_blocks", is_flag=True, help="Print the blocks that import them, for a file of the source."
)
@output.json_option
@pass_target
def lost_resources(target: Target, job_id: str, is_blocks: bool, as_json: bool) -> None:
    """Show what the job JOB created, changed or destroyed before it was cut short, and no state records.

    The list comes from the log of the job, compared with the module's current state. If the log is not complete, a warning says from
    when on nothing is known, and the list also has what the plan was to create, replace or destroy after that.
    """
    from terracrew.client.http import segment

    api = target.api()
    pages = list(api.pages(f"/jobs/{segment(job_id)}/lost-resources"))
    items: list[dict[str, Any]] = [each for page in pages for each in page["items"]]
    gaps: list[dict[str, Any]] = pages[-1]["gaps"]
    if as_json:
        return output.as_json({"items": items, "is_complete": pages[-1]["is_complete"], "gaps": gaps})
    blocks = [each["import_block"] for each in items if each["import_block"]]
    if is_blocks:
        click.echo("\n".join(blocks), nl=False)
        return _warn(gaps)
    rows = [
        (
            each["address"],
            plan_words.LOGGED_CHANGES[each["action"]],
            each["id"],
            output.age(each["changed_at"]),
            each["remedy"],
        )
        for each in items
    ]
    nothing = f"job {job_id} has lost nothing" if pages[-1]["is_complete"] else "the log reports nothing"
    output.table(("ADDRESS", "ACTION", "ID", "WHEN", "REMEDY"), rows, empty=nothing)
    _warn(gaps)
    for remedy in sorted({each["remedy"] for each in items}):
        found = sorted({each["explanation"] for each in items if each["remedy"] == remedy})
        for explanation in found:
            output.note(f"{remedy}: {explanation}")
    if blocks:
        module = api.get(f"/jobs/{segment(job_id)}")["module_path"]
        output.note(f"to import what can be imported: terracrew job run {module} --apply --import-lost {job_id}")
    return None


def _warn(gaps: list[dict[str, Any]]) -> None:
    for each in gaps:
        output.note(f"warning: {each['explanation']}")
