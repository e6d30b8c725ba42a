"""`nacre agents run`: run a member of a team in this process until it is asked to stop."""

from __future__ import annotations

from dataclasses import replace

import click

from nacre.cli.agents.mail import team_option
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import print_error, printable
from nacre.cli.signals import run_to_end


@click.command("run", short_help="Run a member of a team in this terminal.")
@click.argument("name")
@team_option
@click.option("--type", "kind", metavar="TYPE", default="general", show_default=True, help="Agent type.")
@click.option("--model", metavar="MODEL", default="", help="Overrides the model of its type.")
@click.option("--prompt", metavar="TEXT", default="", help="First prompt; without it, waits for messages.")
@click.pass_obj
def run_member(options: RunOptions, /, name: str, *, team: str, kind: str, model: str, prompt: str) -> int:
    """Run NAME, a member of a team, in this directory: one turn per message, with reports to the lead.

    If a process with this name was killed, its work continues. It ends on `nacre agents stop` or Ctrl-C.
    """
    if not team:
        raise click.UsageError("a teammate belongs to a team; name it with --team")
    return run_to_end(_run(options, name, team, kind=kind, model=model, prompt=prompt))


async def _run(options: RunOptions, name: str, team: str, *, kind: str, model: str, prompt: str) -> int:
    from nacre.agents.directory import team_of
    from nacre.app.teammate import open_teammate
    from nacre.messages.events import Event, Notice, Reply

    settings = load_settings(options)

    def hear(event: Event) -> None:
        match event:
            case Reply() if event.message.text.strip():
                print(printable(event.message.text.strip()), flush=True)
            case Notice(text):
                print_error(text)
            case _:
                pass

    settings = replace(settings, is_interactive=False)
    async with open_teammate(settings, name, team, kind=kind, model=model) as mate:
        for told in (*(problem.line for problem in settings.problems), *mate.ready.notices):
            print_error(told)
        mate.hear = hear
        roster = team_of(settings.home, team)
        lead = roster.member(roster.lead())
        if lead is None or not roster.is_alive(lead):
            print_error(f"{team} has no lead now; reports of {mate.name} wait until a chat leads it")
        print(f"{printable(mate.name)} of team {printable(team)} waits for messages", flush=True)
        await mate.serve(prompt)
    print(f"{printable(mate.name)} has ended", flush=True)
    return 0
