"""The session's to-do list."""

from __future__ import annotations

from nacre.messages.blocks import JsonObject, ToolCall, ToolResult
from nacre.tools.run import run_all
from nacre.tools.tasks import Task, TaskBoard, restored, stored, task_list_tool


async def call(board: TaskBoard, arguments: JsonObject) -> ToolResult:
    [result] = await run_all([ToolCall("c", "TaskList", arguments)], {"TaskList": task_list_tool(board)})
    return result


async def test_the_list_is_set_whole_shown_and_kept() -> None:
    """Tools: pending / in progress / done / cancelled."""
    kept: list[tuple[Task, ...]] = []

    async def keep(tasks: tuple[Task, ...]) -> None:
        kept.append(tasks)

    board = TaskBoard()
    board.changed = keep
    given = [
        {"title": "read  the\ncode", "state": "done"},
        {"title": "fix it", "state": "in_progress"},
        {"title": "rest"},
    ]
    result = await call(board, {"tasks": given})  # type: ignore[dict-item]
    assert result.text == "1. [x] read the code\n2. [>] fix it\n3. [ ] rest"
    assert kept == [board.tasks]
    assert (await call(board, {})).text == result.text
    assert restored(stored(board.tasks)).tasks == board.tasks


async def test_a_bad_list_changes_nothing_and_says_why() -> None:
    board = TaskBoard([Task("stay")])
    for bad, word in [
        ([{"title": "x", "state": "maybe"}], "state"),
        ([{"title": "  "}], "title"),
        ([{"title": "x"}] * 101, "100"),
        ("text", "tasks"),
    ]:
        result = await call(board, {"tasks": bad})  # type: ignore[dict-item]
        assert result.is_error
        assert word in result.text
    assert board.tasks == (Task("stay"),)


def test_a_damaged_record_gives_what_can_be_read() -> None:
    assert restored([["a", "done"], ["b", "what"], 3, ["c"]]).tasks == (Task("a", "done"),)
    assert restored("x").tasks == ()
