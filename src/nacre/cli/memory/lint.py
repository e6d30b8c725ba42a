"""`nacre memory lint`: list problems of the memories; `--fix` repairs what it can."""

from __future__ import annotations

import click

from nacre.cli.memory.open import by_hand, json_option, read_only, run, scope_option, writable
from nacre.cli.options import RunOptions
from nacre.cli.output import print_json, printable
from nacre.messages.blocks import JsonObject


@click.command(short_help="Report problems of the memories.")
@click.option("--fix", is_flag=True, help="Repair what can be, in one commit.")
@scope_option
@json_option
@click.pass_obj
def lint(options: RunOptions, /, *, fix: bool, scope: str, as_json: bool) -> int:
    """Report problems of the index, the frontmatter and the links; exit code 1 if there are any."""
    from nacre.memory.checks.lint import LintFixResult, apply_fixes
    from nacre.memory.checks.lint import lint as look

    opened = run(writable(options, scope) if fix else read_only(options, scope))
    mended = LintFixResult(files=(), commit="")
    if fix:
        mended = run(apply_fixes(opened.location, by_hand("lint --fix")))
    problems = look(opened.location.directory)
    if as_json:
        rows: list[JsonObject] = [
            {
                "file": each.file,
                "kind": each.kind,
                "message": each.message,
                "fixable": each.fixable,
                "level": each.level,
            }
            for each in problems
        ]
        print_json({"problems": [*rows], "fixed": [*mended.files], "commit": mended.commit})
        return 1 if problems else 0
    for file in mended.files:
        print(printable(f"fixed {file}"))
    for each in problems:
        print(printable(f"{each.file}: {each.message} [{each.kind}{', fixable' if each.fixable else ''}]"))
    fixable = sum(each.fixable for each in problems)
    count = f"{len(problems):,} problem{'s' * (len(problems) != 1)}" if problems else "no problems found"
    print(f"{count}; `nacre memory lint --fix` puts {fixable:,} right" if fixable and not fix else count)
    return 1 if problems else 0
