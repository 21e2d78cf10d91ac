"""`terracrew job list` and `show`."""

import click

from terracrew.cli.arguments import name_completion, numbers
from terracrew.cli.arguments.moments import Moment
from terracrew.cli.commands.job import diff, render, status_line
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output


@click.command(
    "list",
    epilog=output.examples(
        "terracrew job list --active",
        "terracrew job list --status AWAITING_APPROVAL",
        "terracrew job list --module platform/network --limit 5 --json",
    ),
)
@click.option(
    "--status",
    type=click.Choice(status_line.STATUSES, case_sensitive=False),
    metavar="STATUS",
    help=f"Only jobs with this status: {', '.join(status_line.STATUSES).lower()}.",
)
@click.option("--module", metavar="PATH", shell_complete=name_completion.modules, help="Only jobs of this module.")
@click.option("--active", is_flag=True, help="Only jobs that have not ended.")
@click.option(
    "--type",
    "job_type",
    type=click.Choice(("PLAN", "APPLY", "DESTROY"), case_sensitive=False),
    metavar="TYPE",
    help="Only jobs of this type: plan, apply, destroy.",
)
@click.option("--who", metavar="NAME", shell_complete=name_completion.users, help="Only jobs that NAME has queued.")
@click.option("--runner", metavar="PATH", shell_complete=name_completion.runners, help="Only jobs of this runner.")
@click.option("--since", type=Moment(), metavar="WHEN", help="Only jobs from then on: 7d, 2026-11-16.")
@click.option("--until", type=Moment(), metavar="WHEN", help="Only jobs from before that time.")
@click.option("--limit", type=numbers.Whole(1, 200), default=50, show_default=True, help="The number of jobs to list.")
@output.json_option
@pass_target
def list_jobs(
    target: Target,
    status: str | None,
    module: str | None,
    active: bool,
    job_type: str | None,
    who: str | None,
    runner: str | None,
    since: str | None,
    until: str | None,
    limit: int,
) -> output.Result:
    """List jobs, newest first."""
    wanted = {"type": job_type, "who": who, "runner": runner, "since": since, "until": until}
    page = target.api().get("/jobs", status=status, module=module, active=active or None, limit=limit, **wanted)
    items = page["items"]
    rows = [
        (
            f"#{i['number']}",
            output.job_type(i),
            i["status"],
            i["module_path"],
            i.get("runner_path") or "",
            output.age(i["created_at"]),
            output.duration(i["created_at"], i.get("finished_at")),
            status_line.why(i),
        )
        for i in items
    ]
    columns = ("JOB", "TYPE", "STATUS", "MODULE", "RUNNER", "CREATED", "TOOK", "WHY")
    empty = "no jobs: `terracrew job run MODULE`"
    if not output.is_narrow():
        return output.listing(items, columns, rows, empty=empty)
    notes = [f"{number}: {why}" for number, *_, why in rows if why]
    return output.listing(items, columns[:-1], [row[:-1] for row in rows], empty=empty, notes=notes)


@click.command(
    "show",
    epilog=output.examples(
        "terracrew job show 12",
        "terracrew job show 12 --diff --search subnet",
    ),
)
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option("--diff", "is_diff", is_flag=True, help="Show what its plan changes in each resource, by attribute.")
@click.option("--search", metavar="TEXT", default="", help="With --diff: only resources that contain this text.")
@click.option(
    "--limit",
    type=numbers.Whole(1, diff.MAX_RESOURCES),
    default=diff.DEFAULT_COUNT,
    show_default=True,
    help="With --diff: the number of resources to show.",
)
@output.json_option
@pass_target
def show_job(target: Target, job_id: str, is_diff: bool, search: str, limit: int) -> output.Result:
    """Show the job JOB: why it waits, its steps and attempts, its plan, who holds the lock."""
    from terracrew.client.http import segment

    api = target.api()
    if search and not is_diff:
        raise click.UsageError("--search looks through the plan: use it together with --diff")
    found = api.get(f"/jobs/{segment(job_id)}")
    if is_diff:
        shown = diff.read(api, found["id"], search=search, limit=limit)
        return output.Result(shown, lambda: diff.show(shown, found))
    return output.Result(found, lambda: render.job(api, found))
