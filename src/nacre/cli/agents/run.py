"""`nacre agents run`: be a member of a team, in this process, until somebody asks it to end."""

from __future__ import annotations

from dataclasses import replace

import click

from nacre.cli.agents.mail import team_option
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import print_error, printable
from nacre.cli.signals import run_to_end


@click.command("run", short_help="Be a member of a team, in this terminal.")
@click.argument("name")
@team_option
@click.option("--type", "kind", metavar="TYPE", default="general", show_default=True, help="Its kind.")
@click.option("--model", metavar="MODEL", default="", help="Instead of the one of its kind.")
@click.option("--prompt", metavar="TEXT", default="", help="What it begins with; else it waits for letters.")
@click.pass_obj
def run_member(options: RunOptions, /, name: str, *, team: str, kind: str, model: str, prompt: str) -> int:
    """Be NAME, a member of a team, in this directory: run a turn for every letter, and tell the lead.

    Where whoever had the name was killed, it goes on there. It ends when somebody asks it to (`nacre agents
    stop`), or at Ctrl-C.
    """
    if not team:
        raise click.UsageError("a teammate belongs to a team; say which with --team")
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
            print_error(f"nobody leads {team} now; what {mate.name} reports waits until a chat does")
        print(f"{printable(mate.name)} of team {printable(team)} waits for letters", flush=True)
        await mate.serve(prompt)
    print(f"{printable(mate.name)} has ended", flush=True)
    return 0
