"""Everything the embedded provider can say, in both languages; no sentence claims more than is known."""

from __future__ import annotations

from nacre.providers.embedded_phrases import Language

SENTENCES: dict[Language, dict[str, str]] = {
    "en": {
        "unknown": "No language model is configured, so I cannot answer that: set ANTHROPIC_API_KEY or"
        " OPENAI_API_KEY, or OPENAI_BASE_URL for a local server such as Ollama, or choose one with --model.",
        "recalled": "No language model is configured, but memory has something on that:\n\n{result}",
        "rest": "The rest of your message needs a language model, and none is configured.",
        "hello": "Hello. No language model is configured; ask “what can you do?” to see what works"
        " without one.",
        "thanks": "You are welcome.",
        "bye": "Goodbye.",
        "help": "Without a language model I follow plain requests: “remember that …”, “forget what I said"
        " about …”,"
        " “actually it's …, not …”, “what do you know about …?”, “when did I mention …?”, “read FILE”,"
        " “list files”,"
        " “search for …”. For everything else set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL,"
        " or pass --model.",
        "never_mind": "All right. Nothing was changed.",
        "run": "I do not run commands without a language model; I can read, list and search files.",
        "remember.what": "What exactly should be remembered? Please put it in the same sentence:"
        " “remember that …”. Nothing was saved.",
        "forget.what": "What exactly should be forgotten? Please name the subject: “forget what I said"
        " about …”."
        " Nothing was changed.",
        "correct.what": "What exactly should be corrected? Nothing was changed.",
        "remember.absent": "This session has no memory tool I can use, so nothing was saved to memory."
        " What you said is kept only in this session's transcript, if it has one; with --incognito it has"
        " none.",
        "forget.absent": "This session has no memory tool I can use, so there was nothing to forget and"
        " nothing was changed. This session's transcript, if it has one, keeps what you said earlier.",
        "correct.absent": "This session has no memory tool I can use, so no memory was corrected. Your"
        " correction is kept only in this session's transcript, if it has one; with --incognito it has none.",
        "files.absent": "This session has no {tool} tool I can use, so I cannot do that here.",
        "recall.found": "This session has no memory tool I can use, so I looked through this conversation"
        " only."
        " Earlier in this session you said: {quotes}",
        "recall.nothing": "This session has no memory tool I can use, and I find nothing about “{query}”"
        " in what you"
        " said in this conversation.",
        "when.found": "I see no clock times here, only this conversation: {quotes}",
        "when.quote": "in your message {number} you said “{sentence}”",
        "recall.quote": "“{sentence}”",
        "remember.done": "I passed “{words}” to memory. It answered: {result}",
        "forget.done": "I asked memory to forget “{words}”. It answered: {result}",
        "correct.done": "I passed the correction “{words}” to memory. It answered: {result}",
        "recall.done": "I asked memory about “{words}”. It answered: {result}",
        "read.done": "{words}:\n{result}",
        "list.done": "Files matching {words}:\n{result}",
        "search.done": "Lines matching {words}:\n{result}",
        "other.done": "{words} answered: {result}",
        "remember.error": "“{words}” was not saved. The memory tool reported an error: {result}",
        "forget.error": "Nothing is known to be forgotten about “{words}”. The memory tool reported an"
        " error: {result}",
        "correct.error": "The correction “{words}” was not recorded. The memory tool reported an error:"
        " {result}",
        "recall.error": "I could not look up “{words}”. The memory tool reported an error: {result}",
        "read.error": "I could not read {words}: {result}",
        "list.error": "I could not list {words}: {result}",
        "search.error": "I could not search for {words}: {result}",
        "other.error": "{words} reported an error: {result}",
        "empty": "(nothing)",
        "cut": "… ({lines} more lines, {chars} more characters)",
        "kept": "… (all of it is in {path})",
        "kept.cut": "… (the tool returned only a part of it, which is in {path})",
        "join": "; ",
    },
    "zh": {
        "unknown": "没有配置语言模型，我无法回答：请设置 ANTHROPIC_API_KEY 或 OPENAI_API_KEY，"
        "本地服务（例如 Ollama）请设置 OPENAI_BASE_URL，或用 --model 指定模型。",
        "recalled": "没有配置语言模型，但记忆里有相关内容：\n\n{result}",
        "rest": "消息的其余部分需要语言模型，而现在没有配置。",
        "hello": "你好。没有配置语言模型；问“你能做什么”可以看到没有模型时能用的功能。",
        "thanks": "不客气。",
        "bye": "再见。",
        "help": "没有语言模型时，我能照做这些简单的要求：“记住……”、“忘掉关于……的事”、“不对，是……不是……”、"
        "“你知道关于……什么”、“我什么时候说过……”、“读一下 文件”、“列出文件”、“搜索 ……”。"
        "其他事情请设置 ANTHROPIC_API_KEY、OPENAI_API_KEY 或 OPENAI_BASE_URL，或用 --model 指定模型。",
        "never_mind": "好的，什么都没有改动。",
        "run": "没有语言模型时我不执行命令；我可以读取、列出和搜索文件。",
        "remember.what": "具体要记住什么？请写在同一句话里：“记住……”。什么都没有保存。",
        "forget.what": "具体要忘掉什么？请说出主题：“忘掉关于……的事”。什么都没有改动。",
        "correct.what": "具体要更正什么？什么都没有改动。",
        "remember.absent": "这个会话没有我能用的记忆工具，所以没有保存到记忆里。"
        "你说的话只留在本会话的记录里（如果有记录；--incognito 没有记录）。",
        "forget.absent": "这个会话没有我能用的记忆工具，没有可以忘掉的记忆，什么都没有改动。"
        "如果本会话有记录，你说过的话仍在记录里。",
        "correct.absent": "这个会话没有我能用的记忆工具，没有更正任何记忆。"
        "你的更正只留在本会话的记录里（如果有记录；--incognito 没有记录）。",
        "files.absent": "这个会话没有我能用的 {tool} 工具，所以这里做不到。",
        "recall.found": "这个会话没有我能用的记忆工具，我只查看了这次对话。你在本会话里说过：{quotes}",
        "recall.nothing": "这个会话没有我能用的记忆工具，在这次对话里也没有找到你说过的关于“{query}”的话。",
        "when.found": "我看不到具体时间，只能看到这次对话：{quotes}",
        "when.quote": "你在第 {number} 条消息里说过“{sentence}”",
        "recall.quote": "“{sentence}”",
        "remember.done": "我把“{words}”交给了记忆。它回答：{result}",
        "forget.done": "我请记忆忘掉“{words}”。它回答：{result}",
        "correct.done": "我把更正“{words}”交给了记忆。它回答：{result}",
        "recall.done": "我向记忆查询了“{words}”。它回答：{result}",
        "read.done": "{words}：\n{result}",
        "list.done": "匹配 {words} 的文件：\n{result}",
        "search.done": "匹配 {words} 的行：\n{result}",
        "other.done": "{words} 回答：{result}",
        "remember.error": "“{words}”没有存下来。记忆工具报告了错误：{result}",
        "forget.error": "无法确认已经忘掉“{words}”。记忆工具报告了错误：{result}",
        "correct.error": "更正“{words}”没有记录下来。记忆工具报告了错误：{result}",
        "recall.error": "没能查询“{words}”。记忆工具报告了错误：{result}",
        "read.error": "没能读取 {words}：{result}",
        "list.error": "没能列出 {words}：{result}",
        "search.error": "没能搜索 {words}：{result}",
        "other.error": "{words} 报告了错误：{result}",
        "empty": "（空）",
        "cut": "……（还有 {lines} 行、{chars} 个字符）",
        "kept": "……（全部内容在 {path}）",
        "kept.cut": "……（工具只返回了一部分，在 {path}）",
        "join": "；",
    },
}


def say(language: Language, key: str, **words: str | int) -> str:
    """The sentence with its words filled in."""
    return SENTENCES[language][key].format(**words)
