"""`terracrew runner alerts`: signs that somebody else may use the credentials of a runner."""

from typing import Any

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.commands.runner.api_path import api_path
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.wording import alert_words


@click.command("alerts")
@click.argument("path", shell_complete=name_completion.runners)
@click.option("--acknowledge", is_flag=True, help="Acknowledge the alerts that this command shows.")
@output.json_option
@pass_target
def alerts(target: Target, path: str, acknowledge: bool) -> output.Result:
    """Show the alerts about the runner PATH that nobody has acknowledged: takeovers, moves, and uses of earlier tokens."""
    api = target.api()
    found: list[dict[str, Any]] = api.get(f"{api_path(path)}/alerts")["items"]
    if acknowledge and found:
        # What happened after this list was read was not shown, so it is not acknowledged.
        api.post(f"{api_path(path)}/alerts/acknowledge", {"until": found[0]["last_at"]})

    def show() -> None:
        if not found:
            click.echo(f"There are no alerts about {path}.")
        for each in found:
            click.echo(
                f"{sentence(each)}, {output.age(each['last_at'])}. {alert_words.WHAT_TO_DO.get(each['kind'], '')}".strip()
            )
        if acknowledge and found:
            output.note("Acknowledged.")

    return output.Result(found, show)


def sentence(alert: dict[str, Any]) -> str:
    return alert_words.sentence(
        alert["kind"],
        alert["instance"],
        alert["address"],
        alert["former_address"],
        alert["count"],
        is_other_machine=alert["is_other_machine"],
    )
