"""Errors that the Messages API returns before it reads its cache, with the API's messages where they are
known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from nacre.cache.models import ModelProfile
from nacre.devtools.cache_models.anthropic_render import THINKING, blocks_of, objects, references
from nacre.devtools.cache_models.anthropic_state import ApiRefusal, Call, Rendered
from nacre.messages.blocks import Json, JsonObject

MAX_MESSAGES = 100_000
"""The API's own limit."""
EDITING_BETA = "context-management-2025-06-27"
LIFETIMES = ("5m", "1h")


def refuse(call: Call, profile: ModelProfile) -> ApiRefusal | None:
    """Return the first error of a request that its body alone shows."""
    body = call.body
    for check in (
        _shape(body),
        _marked(body, profile.max_markers),
        _deferred(body, profile),
        _placed(body, profile),
        _paired(body),
        _settings(call, profile),
    ):
        for problem in check:
            return _invalid(problem)
    return None


def markers_of(body: JsonObject, blocks: Sequence[Rendered]) -> tuple[tuple[int, str], ...] | ApiRefusal:
    """Return the positions of the prompt's cache markers, including the automatic one."""
    markers = [(index, block.marker) for index, block in enumerate(blocks) if block.marker]
    automatic = body.get("cache_control")
    if isinstance(automatic, dict):
        ttl = str(automatic.get("ttl") or "5m")
        target = next((i for i in range(len(blocks) - 1, -1, -1) if is_markable(blocks[i])), None)
        if target is not None and (not markers or markers[-1][0] != target):
            markers.append((target, ttl))
        elif target is not None and markers[-1][1] != ttl:
            return _invalid(
                f"cache_control.ttl: '{ttl}' conflicts with the ttl='{markers[-1][1]}' of the last block."
            )
    early = next((index for index, ttl in markers if ttl == "5m"), len(blocks))
    late = next((index for index, ttl in markers if ttl == "1h" and index > early), None)
    if late is not None:
        index, inner = blocks[late].at
        path = f"{blocks[late].level}.{index}" + ("" if inner < 0 else f".content.{inner}")
        return _invalid(
            f"{path}.cache_control.ttl: a ttl='1h' cache_control block must not come "
            "after a ttl='5m' cache_control block. Note that blocks are processed in the following order: "
            "`tools`, `system`, `messages`."
        )
    return tuple(markers)


def is_markable(block: Rendered) -> bool:
    """Return whether a cache marker is allowed on this block."""
    if block.kind in THINKING or block.kind == "output_config":
        return False
    return block.kind != "text" or bool(block.wire.get("text"))


def _invalid(message: str) -> ApiRefusal:
    return ApiRefusal(400, "invalid_request_error", message)


def _shape(body: JsonObject) -> Iterator[str]:
    messages = body.get("messages")
    if not isinstance(messages, list):
        yield "messages: Field required" if messages is None else "messages: Input should be a valid list"
        return
    if not messages:
        yield "messages: at least one message is required"
    if len(messages) > MAX_MESSAGES:
        yield f"messages: at most {MAX_MESSAGES} messages are allowed"
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            yield f"messages.{index}: Input should be a valid dictionary"
            continue
        role = message.get("role")
        if not isinstance(role, str) or role not in {"user", "assistant", "system"}:
            yield f"messages.{index}.role: Input should be 'user', 'assistant' or 'system'"
        content = message.get("content")
        if isinstance(content, list):
            yield from _shaped(content, f"messages.{index}.content")
        elif not isinstance(content, str) and "output_config" not in message:
            yield f"messages.{index}.content: Field required"
    system = body.get("system")
    tools = body.get("tools")
    yield from _shaped(system if isinstance(system, list) else [], "system")
    yield from _shaped(tools if isinstance(tools, list) else [], "tools", needs="name")


def _shaped(blocks: list[Json], path: str, needs: str = "type") -> Iterator[str]:
    for inner, block in enumerate(blocks):
        if not isinstance(block, dict):
            yield f"{path}.{inner}: Input should be a valid dictionary"
            continue
        kind = block.get("type")
        wanted = (
            {"tool_use": "id", "tool_result": "tool_use_id"}.get(kind, needs)
            if isinstance(kind, str)
            else needs
        )
        if not isinstance(block.get(wanted), str):
            yield f"{path}.{inner}.{wanted}: Field required"


def _marked(body: JsonObject, most: int) -> Iterator[str]:
    found = 1 if isinstance(body.get("cache_control"), dict) else 0
    last: Json = None
    for path, block in _every_block(body):
        control = block.get("cache_control")
        last = control
        if not isinstance(control, dict):
            continue
        found += 1
        if block.get("type") in THINKING:
            yield f"{path}.{block['type']}.cache_control: Extra inputs are not permitted"
        if block.get("type") == "text" and not block.get("text"):
            yield f"{path}.text: cache_control cannot be set for empty text blocks"
        if (control.get("ttl") or "5m") not in LIFETIMES:
            yield f"{path}.cache_control.ephemeral.ttl: Input should be '5m' or '1h'"
    # The automatic marker takes no slot of its own if the last block is already marked.
    found -= 1 if isinstance(last, dict) and isinstance(body.get("cache_control"), dict) else 0
    if found > most:
        yield f"A maximum of {most} blocks with cache_control may be provided. Found {found}."


def _every_block(body: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    for index, tool in enumerate(objects(body.get("tools"))):
        yield f"tools.{index}", tool
    for index, block in enumerate(objects(body.get("system"))):
        yield f"system.{index}", block
    for index, message in enumerate(objects(body.get("messages"))):
        for inner, block in enumerate(objects(message.get("content"))):
            yield f"messages.{index}.content.{inner}", block


def _deferred(body: JsonObject, profile: ModelProfile) -> Iterator[str]:
    """Check that some tool is not deferred, and that every reference names a deferred tool of the request."""
    tools = objects(body.get("tools"))
    deferred = [str(tool.get("name")) for tool in tools if tool.get("defer_loading") is True]
    if deferred and not profile.tool_search:
        yield "tools: `defer_loading` is not supported by this model"
    if deferred and len(deferred) == len(tools):
        yield "At least one tool must have defer_loading=false. All tools cannot be deferred."
    for tool in tools:
        if tool.get("defer_loading") is True and "cache_control" in tool:
            yield f"Tool '{tool.get('name')}' cannot have both defer_loading=true and cache_control set."
    for name in references(body):
        if name not in deferred:
            yield f"Tool reference '{name}' not found in available tools"


def _placed(body: JsonObject, profile: ModelProfile) -> Iterator[str]:
    """Check that system messages follow a user and precede an assistant, and that a compaction is first."""
    messages = objects(body.get("messages"))
    for index, message in enumerate(messages):
        if message.get("role") != "system":
            continue
        if not profile.system_messages:
            yield f"messages.{index}.role: system messages are not supported by this model"
        before = messages[index - 1].get("role") if index else None
        after = messages[index + 1].get("role") if index + 1 < len(messages) else "assistant"
        if before not in {"user", "system"} or after not in {"assistant", "system"}:
            yield (
                f"messages.{index}: a system message must follow a user message "
                "and be last or precede an assistant message"
            )
    signed = [
        (index, inner)
        for index, message in enumerate(messages)
        for inner, block in enumerate(objects(message.get("content")))
        if block.get("type") == "compaction" and block.get("signature")
    ]
    if signed and signed != [(0, 0)]:
        yield "compaction_block_misplaced: exactly one compaction block must come first in `messages`"


def _paired(body: JsonObject) -> Iterator[str]:
    """Check that every call has a result at the start of the next user message, and every result a call."""
    open_calls: list[str] = []
    last = 0
    for last, role, blocks in _merged(objects(body.get("messages"))):
        leading = takewhile(lambda block: block.get("type") == "tool_result", blocks)
        results = [str(block.get("tool_use_id")) for block in leading] if role == "user" else []
        yield from _unanswered(last, [call for call in open_calls if call not in results])
        for block in blocks:
            call_id = block.get("tool_use_id")
            if block.get("type") == "tool_result" and call_id not in open_calls:
                yield (
                    f"messages.{last}.content: unexpected `tool_use_id` found in `tool_result` blocks: "
                    f"{call_id}. Each `tool_result` block must have a corresponding `tool_use` block in the "
                    "previous message."
                )
        if len(set(results)) < len(results):
            yield f"messages.{last}.content: each tool_use must have a single result."
        calls = [block for block in blocks if block.get("type") == "tool_use"]
        open_calls = [str(call.get("id")) for call in calls] if role == "assistant" else []
    yield from _unanswered(last, open_calls)


def _unanswered(index: int, calls: list[str]) -> Iterator[str]:
    if calls:
        yield (
            f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(calls)}. Each `tool_use` block must have a corresponding `tool_result` block "
            "in the next message."
        )


def _merged(messages: list[JsonObject]) -> list[tuple[int, str, list[JsonObject]]]:
    """Merge consecutive messages of one role; drop what a compaction replaces."""
    merged: list[tuple[int, str, list[JsonObject]]] = []
    for index, message in enumerate(messages):
        role = str(message.get("role"))
        blocks = blocks_of(message.get("content"))
        summaries = [i for i, b in enumerate(blocks) if b.get("type") == "compaction" and b.get("content")]
        if summaries:
            merged = []
            blocks = blocks[summaries[-1] :]
        if merged and merged[-1][1] == role:
            merged[-1] = (merged[-1][0], role, [*merged[-1][2], *blocks])
        else:
            merged.append((index, role, blocks))
    return merged


def _settings(call: Call, profile: ModelProfile) -> Iterator[str]:
    body = call.body
    ceiling = body.get("max_tokens")
    if isinstance(ceiling, int) and ceiling > profile.max_output:
        yield (
            f"max_tokens: {ceiling} > {profile.max_output}, which is the maximum allowed number of output "
            f"tokens for {profile.model}"
        )
    choice = body.get("tool_choice")
    forced = isinstance(choice, dict) and choice.get("type") in {"any", "tool"}
    if forced and not profile.forced_tool_choice:
        yield "tool_choice: forcing a tool is not supported by this model"
    if ceiling == 0:
        yield from _warming(body, forced=forced)
    yield from _thinking(body, profile)
    if "context_management" in body and EDITING_BETA not in call.betas:
        management = body["context_management"]
        edits = objects(management.get("edits")) if isinstance(management, dict) else []
        if not all(str(item.get("type")).startswith("compact_") for item in edits):
            yield "context_management: Extra inputs are not permitted"
    if isinstance(body.get("compaction"), dict):
        yield from _summarising(body, forced=forced)


def _thinking(body: JsonObject, profile: ModelProfile) -> Iterator[str]:
    """Check the form of thinking: a budget on older models, adaptive on newer ones, off where that exists."""
    asked = body.get("thinking")
    thinking = asked if isinstance(asked, dict) else {}
    kind = thinking.get("type")
    is_manual = profile.thinking_form == "budget"
    types = {"enabled", "disabled"} if is_manual else {"adaptive"}
    # Models that think only if they are asked to accept that they are not.
    types |= {"disabled"} if profile.thinking_off == "omit" else {profile.thinking_off} - {""}
    if asked is not None and not profile.thinking:
        yield "thinking: this model does not support thinking"
    elif kind == "enabled" and not is_manual:
        yield (
            '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
            '"output_config.effort" to control thinking behavior.'
        )
    elif asked is not None and kind not in types:
        yield f'"thinking.type.{kind}" is not supported for this model.'
    budget = thinking.get("budget_tokens")
    limit = body.get("max_tokens")
    if isinstance(budget, int) and isinstance(limit, int) and 0 < limit <= budget:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`."
    output = body.get("output_config")
    effort = output.get("effort") if isinstance(output, dict) else None
    if effort is not None and (is_manual or effort not in profile.efforts.split()):
        yield f"output_config.effort: {effort!r} is not supported by this model"
    last = next((m for m in reversed(objects(body.get("messages"))) if m.get("role") == "assistant"), {})
    kinds = [block.get("type") for block in objects(last.get("content"))]
    if kind == "enabled" and "tool_use" in kinds and kinds[0] not in THINKING:
        yield (
            f"Expected `thinking` or `redacted_thinking`, but found `{kinds[0]}`. When `thinking` is "
            "enabled, a final `assistant` message must start with a thinking block (preceding the lastmost "
            "set of `tool_use` and `tool_result` blocks)."
        )


def _format(body: JsonObject) -> Json:
    output = body.get("output_config")
    return output.get("format") if isinstance(output, dict) else None


def _warming(body: JsonObject, *, forced: bool) -> Iterator[str]:
    thinking = body.get("thinking")
    if body.get("stream") is True:
        yield "max_tokens: 0 cannot be combined with `stream`"
    if isinstance(thinking, dict) and thinking.get("type") == "enabled":
        yield "max_tokens: 0 cannot be combined with manual thinking"
    if _format(body) is not None or forced:
        yield "max_tokens: 0 cannot be combined with `output_config.format` or a forced `tool_choice`"


def _summarising(body: JsonObject, *, forced: bool) -> Iterator[str]:
    for key in ("context_management", "stop_sequences"):
        if body.get(key):
            yield f"compaction: cannot be combined with `{key}`"
    if forced or _format(body) is not None:
        yield "compaction: cannot be combined with a forced `tool_choice` or `output_config.format`"
    messages = _merged(objects(body.get("messages")))
    if all(block.get("type") == "compaction" for _, _, blocks in messages for block in blocks):
        yield "compaction_nothing_to_summarize: there are no messages to summarise"
