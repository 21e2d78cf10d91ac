"""`terracrew job lost-resources`, and the options of the commands that plan with imports of lost resources."""

from collections.abc import Sequence

import click
import msgspec

from terracrew.api.job_views import JobView
from terracrew.api.lost_resources import ImportLost, LostResources
from terracrew.cli.arguments import name_completion, options
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.errors import Invalid
from terracrew.wording import plan_words

import_lost = options.combine(
    click.option(
        "--import-lost",
        "lost_job",
        is_flag=False,
        flag_value="",
        default=None,
        metavar="[JOB]",
        shell_complete=name_completion.jobs,
        help="Import what JOB created before it was cut short; without JOB, what all jobs did that put the module in doubt. "
        "Give it after the other arguments.",
    ),
    click.option(
        "--leave-out",
        "left_out",
        multiple=True,
        metavar="ADDRESS",
        help="With --import-lost: do not import this resource. Can be repeated.",
    ),
)


def wanted(lost_job: str | None, left_out: Sequence[str]) -> ImportLost | None:
    """Return the imports that the options ask for."""
    if lost_job is not None:
        return ImportLost(lost_job, list(left_out))
    if left_out:
        raise Invalid("--leave-out is for a plan with --import-lost")
    return None


@click.command("lost-resources")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option(
    "--import-blocks", "is_blocks", is_flag=True, help="Print the blocks that import them, for a file of the source."
)
@output.with_target
def lost_resources(target: Target, job_id: str, is_blocks: bool) -> output.CommandResult:
    """Show what the job JOB created, changed or destroyed before it was cut short, and no state records.

    The list comes from the log of the job, compared with the module's current state. If the log is not complete, a warning says from
    when on nothing is known, and the list also has what the plan was to create, replace or destroy after that.
    """
    api = target.api()
    pages = list(api.pages(f"/jobs/{segment(job_id)}/lost-resources", LostResources))
    found = msgspec.structs.replace(pages[-1], items=[each for page in pages for each in page.items])
    blocks = "\n".join(each.import_block for each in found.items if each.import_block)
    notes = [f"warning: {each.explanation}" for each in found.gaps]
    if is_blocks:
        return output.message(found, blocks.removesuffix("\n"), *notes)
    rows = [
        (
            each.address,
            plan_words.LOGGED_CHANGES[each.action],
            each.id,
            output.age(each.changed_at),
            each.remedy,
        )
        for each in found.items
    ]
    notes += [
        f"{remedy}: {explained}"
        for remedy, explained in sorted({(each.remedy, each.explanation) for each in found.items})
    ]
    if blocks and not output.wants_json():
        module = api.get(f"/jobs/{segment(job_id)}", JobView).module_path
        notes.append(f"to import what can be imported: terracrew job run {module} --apply --import-lost {job_id}")
    nothing = f"job {job_id} has lost nothing" if found.is_complete else "the log reports nothing"
    return output.listing(found, ("ADDRESS", "ACTION", "ID", "WHEN", "REMEDY"), rows, empty=nothing, notes=notes)
