"""`nacre agents`: list agents, teams and types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nacre.cli.agents.lifecycle import run_member, stop
from nacre.cli.agents.mail import inbox, send
from nacre.cli.memory.open import json_option
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import (
    cut_last,
    human_age,
    human_count,
    is_terminal,
    print_error,
    print_json,
    print_table,
    printable,
)
from nacre.clock import SYSTEM_CLOCK
from nacre.formatting import usd_text

if TYPE_CHECKING:
    from nacre.agents.directory import ListedAgent, ListedTeam

SHORT_ID = 8
"""Characters of an id in output."""


@click.group()
def agents() -> None:
    """List agents and teams, write to them, read their mail, stop them.

    NAME is an agent of this directory's sessions, a member of a team, or the beginning of an agent's id; the
    beginning of a session's id names the session itself.
    """


@agents.command("list", short_help="List agents and teams.")
@click.option("--all", "everywhere", is_flag=True, help="Include every directory, not only this one.")
@json_option
@click.pass_obj
def list_(options: RunOptions, /, *, everywhere: bool, as_json: bool) -> None:
    """List agents that are running or ended within a day, and teams with their members and tasks."""
    from nacre.agents.directory import directory_json, is_recent, list_agents, list_teams

    settings = load_settings(options)
    now = SYSTEM_CLOCK.now()
    cwd = None if everywhere else settings.cwd
    found = [each for each in list_agents(settings.home, cwd) if is_recent(each, now)]
    teams = list_teams(settings.home, cwd)
    if as_json:
        print_json(directory_json(found, teams))
        return
    _print_agents(found, everywhere=everywhere)
    for n, team in enumerate(teams):
        if found or n:
            print()
        _print_team(team)
    if not found and not teams:
        where = "" if everywhere else f" in {printable(str(settings.cwd))}; --all looks in every directory"
        print(f"No agent is running or has ended recently{where}.")


def _print_agents(found: list[ListedAgent], *, everywhere: bool) -> None:
    now = SYSTEM_CLOCK.now()
    header = [
        "name", "id", "type", "status", "age", "tokens", "money", "session",
        *["directory"] * everywhere, "doing",
    ]  # fmt: skip
    rows = [
        [
            each.state.name,
            each.state.id[:SHORT_ID],
            each.state.type,
            each.state.status,
            human_age(each.state.started, now),
            human_count(each.state.tokens),
            usd_text(each.state.cost_usd),
            each.session[:SHORT_ID],
            *[each.cwd or "-"] * everywhere,
            (each.state.doing if each.is_running else each.state.description) or "-",
        ]
        for each in found
    ]
    if rows and is_terminal():
        cut_last(header, rows)
    print_table(rows, header=header if rows else (), right=(5, 6))


def _print_team(team: ListedTeam) -> None:
    pending, working, done = (team.tasks[state] for state in ("pending", "in_progress", "completed"))
    tasks = f"{pending} open, {working} in progress, {done} done"
    print(f"team {printable(team.name)}: {tasks if pending + working + done else 'no tasks'}")
    now = SYSTEM_CLOCK.now()
    print_table(
        [
            [
                f"  {each.member.name}",
                "lead" if each.member.name == team.lead else each.member.type or "-",
                "alive" if each.is_alive else "gone",
                human_age(each.member.joined, now),
                f"{each.waiting} letter{'s' * (each.waiting != 1)} waiting" if each.waiting else "-",
            ]
            for each in team.members
        ]
    )


@agents.command(short_help="List agent types.")
@json_option
@click.pass_obj
def types(options: RunOptions, /, *, as_json: bool) -> None:
    """List the agent types that can be started here, and where each is defined."""
    from nacre.agents.types import agent_types

    found = agent_types(load_settings(options))
    listed = [found.types[name] for name in sorted(found.types)]
    if as_json:
        print_json(
            [
                {
                    "type": each.name,
                    "description": each.description,
                    "model": each.model,
                    "tools": None if each.tools is None else [*sorted(each.tools)],
                    "disallowed": [*sorted(each.disallowed)],
                    "max_turns": each.max_turns,
                    "memory": each.memory,
                    "background": each.background,
                    "isolation": each.isolation,
                    "origin": str(each.origin) if each.origin else None,
                }
                for each in listed
            ]
        )
    else:
        header = ["type", "model", "tools", "from", "description"]
        rows = [
            [
                each.name,
                each.model,
                "all" if each.tools is None else str(len(each.tools)),
                str(each.origin) if each.origin else "built in",
                " ".join(each.description.split()),
            ]
            for each in listed
        ]
        if is_terminal():
            cut_last(header, rows)
        print_table(rows, header=header)
    for notice in found.notices:
        print_error(notice)


for command in (send, inbox, run_member, stop):
    agents.add_command(command)
