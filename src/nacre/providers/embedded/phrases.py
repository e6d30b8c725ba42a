"""The phrases that the embedded provider understands, in English and Chinese; ambiguous ones are left out.

A phrase matches one whole sentence. `(a|b)` is a choice, `[a]` is optional, a space is any white space,
`<text:…>`, `<query:…>` and `<path:…>` capture the user's words, an UPPER-CASE word is a shorthand (a regular
expression with a name). Rules are tried in order and the first match wins, so narrow ones precede wide ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias

Language: TypeAlias = Literal["en", "zh"]


class Intent(StrEnum):
    """What a sentence asks for."""

    REMEMBER = "remember"
    FORGET = "forget"
    CORRECT = "correct"
    RECALL = "recall"
    WHEN = "when"
    READ = "read"
    LIST = "list"
    SEARCH = "search"
    RUN = "run"
    HELLO = "hello"
    THANKS = "thanks"
    BYE = "bye"
    HELP = "help"
    NEVER_MIND = "never_mind"
    UNKNOWN = "unknown"


class PhraseRule(NamedTuple):
    """One phrase with its intent."""

    intent: Intent
    pattern: str
    """A regular expression that matches the whole sentence."""
    unless: str
    """A regular expression; a sentence in which it is found has another meaning. Empty for none."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """The phrases of one language."""

    language: Language
    lead: re.Pattern[str]
    """Openings without meaning: "hey nacre, by the way,"."""
    tail: re.Pattern[str]
    """Endings without meaning: ", please"."""
    polite: re.Pattern[str]
    """The opening of a request in the form of a question: "could you please"."""
    headed: tuple[PhraseRule, ...]
    """Tried on the whole message: a heading with a colon applies to all that follows."""
    rules: tuple[PhraseRule, ...]
    """Tried on each sentence."""


def _rules(shorthands: dict[str, str], *groups: tuple[str, ...]) -> tuple[PhraseRule, ...]:
    """Return one rule per phrase; a group is an intent, the `unless` of its phrases, then the phrases."""
    symbols = {"(": "(?:", "[": "(?:", "]": ")?", ">": ")", " ": r"\s+"}
    symbols |= {f"<{group}:": f"(?P<{group}>" for group in ("text", "query", "path")}
    symbols |= {name: part.replace(" ", r"\s+") for name, part in shorthands.items()}
    # Longest first: shorthands are adjacent without a space, and one may be the beginning of another.
    symbol = re.compile("|".join(re.escape(name) for name in sorted(symbols, key=len, reverse=True)))
    return tuple(
        PhraseRule(Intent(intent), symbol.sub(lambda found: symbols[found.group()], phrase), unless)
        for intent, unless, *phrases in groups
        for phrase in phrases
    )


_EN_VERBS = (
    "is|are|was|were|am|isn't|aren't|has|have|had|will|won't|would|should|must|can|can't|cannot|does|doesn't"
    "|needs?|uses?|likes?|prefers?|wants?|lives?|works?|runs?|goes|means|belongs?|starts?|ends?|moved|hates?"
    "|loves?|owns?|expires?"
)
_EN_CLAUSE = r"[^,;:?]+?"

_EN: dict[str, str] = {
    "ASK": r"(?:(?:please|pls|kindly|just|always|do|also|make sure (?:to|you|that you)|be sure to|try to"
    r"|i(?:'d| would) (?:like|love) (?:for )?you to|i (?:want|need) you to"
    r"|you (?:should|must|need to|can|have to|may))\s+)*",
    "OPENER": r"(?:(?:actually|no|nope|wait|sorry|correction|not quite|wrong|incorrect|hm+|oh|ah"
    r"|(?:that's|that is|this is|that was|it's) (?:wrong|incorrect|not (?:right|correct|true))"
    r"|you(?:'re| are) wrong|you got (?:that|it|this) wrong|i was wrong|i misspoke)\s*[,.:;!—-]*\s+)+",
    "ANY": ".+",
    "CLAUSE": _EN_CLAUSE,
    "ABOUT": "(?:about|on|regarding|concerning)",
    "SAID": "(?:said|told you|mentioned|wrote|asked|noted)",
    "SAY": "(?:say|tell you|mention|write|talk|speak|ask you|ask)",
    "MEMORY": "(?:(?:your|the|my|long-term) )*memory",
    "DIRECTIVE": "(?:always|never|don't|do not|use|avoid|prefer|only)",
    "NOTE": "(?:remember|memori[sz]e|keep in mind|bear in mind|(?:don't|do not|never) forget)",
    "KEEP": "(?:save|store|add|put|commit)",
    "DROP": "(?:delete|remove|erase|drop|clear|wipe|purge)",
    "THIS": "(?:that|this|it)",
    # A person and what they do, a rule of conduct, or any subject with one of the common verbs.
    "STATEMENT": rf"(?:(?:i|we|you|he|she|they|it|there)(?:'\w+)?\s.+|(?:always|never|don't|do not|use|avoid"
    rf"|prefer)\s.+|{_EN_CLAUSE}(?:'s|\s(?:{_EN_VERBS}))\s.+)",
    "PATH": r"(?:`[^`]+`|'[^']*[./][^']*'|\"[^\"]*[./][^\"]*\"|[\w./~@-]*[./][\w./~@-]*|readme|license"
    r"|makefile|dockerfile|changelog)",
    "WHERE": r"[\w./~*-]*[./][\w./~*-]*",
    "CODE": "(?:(?:the|this|my|our) )?(?:code|codebase|code base|files|repo|repository|project|sources?)",
    "PLACE": r"(?!-)[\w./~*-]+",
    "WORDS": ".+?",
    "QUOTE": r"[`'\"“”]?",
    "GLOB": r"[^\s`'\"]*[*?][^\s`'\"]*",
    "NAME": r"[\w.*-]+",
    "COMMAND": r"(?:`[^`]+`|\S+ -.*|(?:git|ls|cat|grep|rg|find|make|npm|npx|yarn|cargo|go|pip|uv|python3?"
    r"|pytest|node|docker|touch|rm|mv|cp|mkdir|echo|curl|wget|bash|sudo|cd|pwd|date)(?: .*)?)",
    "COLON": r"\s*[:：]\s*",
    "COMMA": r"(?:\s*[,;:—-])?",
    "PAUSE": r"\s*[,;:—-]\s*",
}  # fmt: skip

_EN_ASKS = r"[?？]\s*$"
_EN_MUSING = (
    rf"{_EN_ASKS}|\b(?:remember|mind|forget)(?: that)? (?:when|how|why|what|where|who|whether|if|me|the time"
    r"|that (?:time|day|one|guy|night))\b"
)
_EN_ASIDE = (
    r"[,;?？]|\bfor (?:a|the|one|now|this|just)\b|\binstead\b|\bthen\b|\bforget that (?:time|day|night"
    r"|ever)\b|\band (?:just |now |please )?(?:fix|do|write|help|tell|focus|make|move|go|let|try|start|run"
    r"|use|answer|continue|show|give|look|get|work|think|concentrate)\b"
)

ENGLISH = Grammar(
    language="en",
    lead=re.compile(
        r"(?:(?:hi|hey|hello|ok|okay|so|also|and|oh|well|alright|right|great|thanks|btw|fyi|nacre|there"
        r"|now|by the way"
        r"|one more thing|quick note|good (?:morning|afternoon|evening))(?:\s*[,:.!;—-]+\s*|\s+|$))+",
        re.IGNORECASE,
    ),
    tail=re.compile(
        r"\s*(?:,\s*(?:please|pls|thanks|thank you|thx|ok(?:ay)?|will you|would you|can you|could you)(?:"
        r" please)?)\s*[.!?]*$",
        re.IGNORECASE,
    ),
    polite=re.compile(
        r"(?:(?:can|could|would|will|won't|can't) you|would you mind|do you mind)(?: please| kindly| also"
        r"| just)*\s+",
        re.IGNORECASE,
    ),
    headed=_rules(
        _EN,
        (Intent.REMEMBER, "",
         "ASK(NOTE|KEEP[ THIS] (to|in|into) MEMORY|take[ a] note|make a note|note to self"
         "|(note|jot|write) down|save|note)"
         "[ (this|that|these)][ the following][ one thing][ for (later|me)]COLON<text:ANY>",
         "ASK(keep|bear) (this|that|the following) in mindCOLON<text:ANY>"),
    ),
    rules=_rules(
        _EN,
        # No other phrase matches one of these, and a greeting first saves compiling all the others.
        (Intent.HELLO, "",
         "(hi|hello|hey|good (morning|afternoon|evening)|howdy|greetings)[ (there|nacre|all)]"),
        (Intent.THANKS, "",
         "[(many|ok|great)[,] ](thanks|thank you|thx|cheers)[ (a lot|so much|very much|again)]"),
        (Intent.BYE, "",
         "bye[ bye]",
         "goodbye",
         "see (you|ya)[ (later|soon)]",
         "good night"),
        # What is known stands before remember, because "do you remember" contains it.
        (Intent.WHEN, "",
         "[do you (know|remember|recall) ](when|on (what|which) (day|date)|what (day|date|time)) (did|have"
         "|was it that|was it) i [last |first |ever ](SAY|SAID)[ to you][ (about|of)][ that] <query:ANY>",
         "[do you (know|remember|recall) ]when i [last |first ]SAID[ to you][ (about|of)][ that]"
         " <query:ANY>",
         "when was <query:CLAUSE> (mentioned|brought up|discussed)",
         "how long ago did i SAY[ about][ that] <query:ANY>"),
        (Intent.RECALL, r"\b(?:when we|the time|how it felt|how to|how i felt)\b"
         r"|\b(?:remember|recall) (?:things|stuff|that|it|this|anything|everything|me|the alamo)\W*$"
         r"|^what(?:'s| is| are) (?:my|our) (?:options|mistake|problem|best|next)\b",
         "[please ][(tell|show) me ](what|everything|anything|all)[ all][ else] [that ][do ]you [do ]"
         "(know|remember|recall|have[ (stored|saved)]) ABOUT <query:ANY>",
         "[please ][tell me ]what (did|have) i (SAY|SAID)[ to you][ you] ABOUT <query:ANY>",
         "[please ][tell me ]what i [have ]SAID ABOUT <query:ANY>",
         "(did|have) i [ever |already ](SAY|SAID) (anything about|about|that) <query:ANY>",
         "(did|have) i [ever |already ](mention|mentioned) <query:ANY>",
         "(do|can|could) you [still |even ](remember|recall) (anything )about <query:ANY>",
         "(do|can|could) you [still |even ](remember|recall) about <query:ANY>",
         "do you [still |even ](remember|recall) <query:ANY>",
         "(can|could) you [still ](remember|recall) <query:(my|our|what|where|which|who) CLAUSE>",
         "do you [still ]know <query:[(what|which|where|who) ](my|our|i|we) ANY>",
         "do you (know|have) anything ABOUT <query:ANY>",
         "[please ][tell me ]what (do you|you) (know|remember)[ (so far|already)]",
         "who am i",
         "where do (i|we) <query:(live|work|keep|store|track|host|deploy)[ ANY]>",
         "(is there|do you have) anything (in|from) MEMORY ABOUT <query:ANY>",
         "ASK(check|search|look (in|into|through)|consult) MEMORY (for|about|on) <query:ANY>",
         "ASK(look up|find|search for) <query:CLAUSE> in MEMORY",
         "what (is in|does|is) MEMORY [say ]ABOUT <query:ANY>",
         "ASK(recall|remind me (about|of)) <query:ANY>",
         "ASKremind me <query:(what|which|where|who) ANY>",
         "(what|who|where|which)('s| is| are| was| were) <query:(my|our) ANY>",
         "(what|which) <query:CLAUSE> do (i|we) (use|prefer|like|want|work with)"),
        (Intent.NEVER_MIND, "",
         "[(oh|ok|okay|ah|no|actually)COMMA ](never mind|nevermind|nvm|forget it|forget about it)"
         "[COMMA (then|forget it|forget about it)]"),
        (Intent.FORGET, "",
         "ASKforget [about ](THIS|me|everything|all[ of THIS]|what i [just"
         " ]SAID)[ now]"),
        (Intent.FORGET, _EN_ASIDE,
         "ASKforget [about ](what|everything|anything|all|whatever)[ that] (i|you)['ve]"
         " [have |just |once ](SAID|know|learned|remember|saved|stored) ABOUT <query:ANY>",
         "ASKforget (everything|anything|all) ABOUT <query:ANY>",
         "ASKforget [about ](the|that|this) (memory|note|entry|fact|preference|rule)"
         " (about|on|of|that) <query:ANY>",
         "ASKforget [the fact ]that [i [ever ]SAID [that ]]<query:ANY>",
         "ASKforget [about ]<query:(my|our) ANY>",
         "ASKforget about <query:ANY>"),
        (Intent.FORGET, _EN_ASKS,
         "ASKDROP <query:CLAUSE> from MEMORY",
         "ASKDROP [the |your |that |any |all ](memory|memories|memory entry) (about|of|on|that)"
         " <query:ANY>",
         "ASK(stop remembering|unremember) [that ]<query:ANY>",
         "ASK(don't|do not) (remember|keep) [that ]<query:CLAUSE> (anymore|any more|any longer)"),
        # A correction names both values, or speaks of the user's own things, or says that it is one.
        (Intent.CORRECT, _EN_ASKS + r"|\b(?:it's|it is|it was|that's) (?:all |just |only )?(?:fine|ok|okay"
         r"|good|great|cool|right|true|just|only)\b",
         "OPENER<text:<query:(my|our|the|this|that) CLAUSE>('s| is| are| was| were) CLAUSE[,]"
         " [and ](not|instead of|rather than) ANY>",
         "OPENER<text:(it's|it is|it was|that's|i'm|i am|i meant|i mean|i said|i (use|prefer|live in|work"
         " (at|for|on|with))) CLAUSE[,] [and ](not|instead of|rather than)[ (in|on|at)] <query:ANY>>",
         "OPENER<text:(it's not|it isn't|it is not|not)[ (in|on|at)] <query:CLAUSE>(,| but|;| -)"
         " [but ]ANY>",
         "OPENER<text:<query:(my|our) CLAUSE>('s| is| are| was| were) ANY>",
         "OPENER<text:<query:(i'm|i am) (called|named)> ANY>",
         "<text:<query:my (name|email|birthday|timezone|address)> is CLAUSE[,] not ANY>",
         "<text:i meant CLAUSE[,] not[ (in|on|at)] <query:ANY>>",
         "<text:i (don't|do not|no longer) use <query:CLAUSE>[ (anymore|any more)](,|;| -) [but ]"
         "(i|i'm|i am) [now ](use|using) ANY>"),
        (Intent.CORRECT, _EN_ASKS,
         "ASK(correction|to correct (that|myself)|let me correct (that|this|you|myself))PAUSE<text:ANY>",
         "ASK(update|correct|fix|change) (MEMORY|what you (know|remember))[ ABOUT"
         " <query:CLAUSE>]PAUSE<text:ANY>",
         "ASK(update|correct|fix|change) (the|your) (memory|note|entry) (about|on|of) <query:CLAUSE>"
         "(PAUSE| to say | to )<text:ANY>"),
        # Remember: first what points back to the sentence before, then the fact itself.
        (Intent.REMEMBER, _EN_ASKS,
         "ASK(NOTE|note|save|note down|write down) THIS[ for (later|me|next time)]",
         "ASKremember",
         "ASK(keep|bear) THIS in mind",
         "ASKmake a note[ of THIS]",
         "ASKKEEP THIS (to|in|into) MEMORY"),
        (Intent.REMEMBER, _EN_ASKS + r"|^(?:if|when|while|after|before|what|where|who|why|how|do|did|can"
         r"|could|i (?:still )?remember)\b",
         "<text:CLAUSE>PAUSE[so ]ASK(remember|note|(keep|bear)) THIS[ in mind]"),
        (Intent.REMEMBER, _EN_MUSING,
         "ASKNOTE[ for (later|next time|me)][,] that <text:ANY>",
         "ASK(remember|(don't|do not) forget) to <text:ANY>",
         "ASKNOTE[(,| -)] <text:STATEMENT>",
         "ASK(make|take|keep)[ a] note (that|of the fact that|of) <text:ANY>",
         "ASK(note|write|jot) down[ that] <text:STATEMENT>",
         "ASKKEEP [the fact ][that ]<text:ANY> (to|in|into) MEMORY",
         "ASKKEEP (to|in|into) MEMORY[,][ that] <text:ANY>",
         "for (your|future) referenceCOMMA <text:ANY>"),
        (Intent.REMEMBER, _EN_ASKS + r"|^(?:what|where|who|when|why|how|do|does|did|is|are|will|can"
         r"|i wonder)\b|\b(?:from now on|going forward),? (?:what|where|who|when|why|how|it's all|things)\b",
         "<text:(from now on|going forward|from here on[ out]|from this point on)[,] ANY>",
         "<text:in [the ]future[,] [please ]DIRECTIVE ANY>",
         "<text:CLAUSE from now on>"),
        # Files: read, list and search; running commands is never on offer.
        (Intent.LIST, "",
         "ASK(ls|dir|list)[ [the |all |all the |my ](files|directory|folder)]",
         "ASK(ls|list [the |all |all the ]files (in|under|of)|show [me ]the files (in|under))"
         " QUOTE<path:PLACE>QUOTE",
         "[show me ](what|which) files (are (there|here)|do (we|you) (have|see)|exist)",
         "ASK(find|list|show me|glob) [all ][the ][files ][(matching|named|called)"
         " ]QUOTE<query:GLOB>QUOTE[ files][ (in|under) <path:PLACE>]",
         "ASKfind [the |a ](file|files) (named|called) QUOTE<query:NAME>QUOTE"),
        (Intent.READ, "",
         "ASK(read|show[ me]|open|cat|display|print|view|look at|what's in|what is in) [the ][(contents"
         "|content) of ][the ][file ]<path:PATH>[ file]"),
        (Intent.SEARCH, r"\b(?:web|internet|online)\b|\bfind (?:the|an?|any|all|some|every|out)\b",
         "ASK(grep|rg)[ for] <query:WORDS>[ in (CODE|<path:PLACE>)]",
         "ASKsearch <path:WHERE> for <query:ANY>",
         "ASKsearch [CODE ]for <query:WORDS>[ in (CODE|<path:WHERE>)]",
         "ASK(look for|find|where is|where do we use) <query:WORDS> in (CODE|<path:WHERE>)"),
        (Intent.RUN, "", "ASK(run|execute) [the command ]COMMAND"),
        (Intent.HELP, "",
         "help[ me]",
         "(what|how) can you (do|help)[ me][ (here|for me)]",
         "(who|what) are you",
         "what are you able to do"),
    ),
)  # fmt: skip


_ZH: dict[str, str] = {
    "ASK": r"(?:请|麻烦|劳驾|拜托|帮我|帮忙|给我|你要|你得|你可以|你|我(?:想|要|希望|想要)(?:让)?你"
    r"|一定要?|务必|千万|要|先|就|也|还)*\s*",
    "OPENER": r"(?:(?:不对|不是(?=[，,。\s])|不(?=[，,])|错了|你?(?:说|记|弄|搞)错了|我(?:刚才)?说错了"
    r"|更正(?:一下)?|纠正(?:一下)?|其实|实际上|等等|抱歉|对不起)\s*[，,：:。！!]?\s*)+",
    "ANY": ".+",
    "WORDS": ".+?",
    "CLAUSE": r"[^，,；;。：:？?]+?",
    "SHORT": r"[^，,；;。：:？?]{1,40}?",
    "ABOUT": "(?:关于|有关|对于)",
    "THING": "(?:的(?:那些|这些)?(?:事情|事儿|事|内容|记忆|信息|一切|话|东西|记录|情况)|的)?",
    "NOTE": "(?:记住|记一下|记下来|记下(?!来)|记着|牢记|记好|记录一下|记录下来|记录下(?!来))",
    "DONTFORGET": "(?:别忘了|别忘记|不要忘了|不要忘记|别忘(?![了记])|勿忘)",
    "DROP": "(?:忘掉|忘了|忘记|忘光|删掉|删除|删了|清除|抹掉|去掉)",
    "ERASE": "(?:删掉|删除|删了|清除|抹掉|去掉|移除)",
    "MEMORY": "(?:你的)?记忆(?:库)?(?:里面|里|中)?",
    "DIRECTIVE": "(?:都|请|一律|统一|总是|永远|每次|不要|别|不许|不准|只用|就用|改用|默认|用|必须|一定|务必)",
    "THIS": "(?:这个|这件事|这一点|这点|这些|这条|这|它|上面的话|我说的话|我刚才说的)",
    "KEEP": "(?:保存|存|加|加入|添加|写|记)(?:到|进|入|在)?",
    "SAY": "(?:说|提|讲|告诉|聊|谈|问)(?:过|到|起)*(?:你)?(?:过)?",
    "WHATEVER": "(?:些什么|什么|哪些|多少|啥)",
    "WHENEVER": "(?:是)?(?:在)?(?:什么时候|何时|哪天|哪一天|几时|啥时候|多久(?:以)?前)",
    "MA": "(?:吗|嘛|(?<!什)么|(?<!什么)不)",
    "KNOW": "(?:知道|记得|了解|记住了|记了)",
    "ANSWER": "(?:事情|事|内容|信息)?",
    "ISWHAT": "(?:是什么|是谁|是哪个|是多少|叫什么(?:名字)?|在哪里|在哪儿|在哪|是哪天|是几号|是什么时候)",
    "TOLD": "(?:说的|说过的|说过|提到的|告诉你的)",
    "BEFORE": "(?:之前|以前|曾经|刚才|曾)?",
    "TOYOU": "(?:跟你|和你|对你)?",
    "ALL": "(?:全部|全|都)?",
    "COLON": r"\s*[:：]\s*",
    "COMMA": r"\s*[，,、]?\s*",
    "PATH": r"(?:`[^`]+`|“[^”]+”|「[^」]+」|\"[^\"]+\"|'[^']+'|[A-Za-z0-9_./~-]*[./][A-Za-z0-9_./~-]+|README"
    r"|LICENSE|Makefile|Dockerfile)",
    "GLOB": r"[A-Za-z0-9_./~-]*[*?][A-Za-z0-9_./~*?-]*",
    "PLACE": "[A-Za-z0-9_./~-]+",
}  # fmt: skip

_ZH_ASKS = r"[?？]\s*$|(?:吗|呢|么|没有|没)\s*[?？。!！]*\s*$"
_ZH_MUSING = _ZH_ASKS + (
    r"|(?:记住|记下|记好|忘|记得)(?:了|我|你|吧|啊|哦)*\s*[。.!！]*$|(?:怎么|如何|为什么|为何|什么|哪里|多少)"
    r"|记得(?:当时|那天|那年|那次|那时|小时候|上次|以前|曾经|我们|第一次|有一次|有次)"
)
_ZH_ASIDE = r"[，,；;？?]|怎么办|吗\s*$|(?:先|暂时|一会儿)"

CHINESE = Grammar(
    language="zh",
    lead=re.compile(
        r"(?:(?:你好|您好|嗨|嘿|好的|好吧|好|嗯|哦|那|另外|对了|还有|而且|谢谢|顺便(?:说一下|提一下|说)?"
        r"|nacre)[，,。！!、：:\s]+)+",
        re.IGNORECASE,
    ),
    tail=re.compile(
        r"(?:[，,。\s]+(?:谢谢(?:你|您)?|多谢|拜托(?:了)?)|[，,。\s]*(?:好吗|好不好|行吗|可以吗|行不行"
        r"|好么))\s*[。.!！?？]*$"
    ),
    polite=re.compile(r"(?:你|您)?(?:能不能|能否|可不可以|可以|可否|能)(?:请)?(?:你|您)?"),
    headed=_rules(
        _ZH,
        (Intent.REMEMBER, "",
         "ASK(NOTE|记得|DONTFORGET|做[个]笔记|备忘[一下]|备注一下|保存|KEEPMEMORY)"
         "[(THIS|以下内容|以下|一件事|下面的内容|下面这些)]COLON<text:ANY>",
         "ASK把(以下内容|以下|下面的内容|下面这些|下面的话)(NOTE|KEEPMEMORY)COLON<text:ANY>"),
    ),
    rules=_rules(
        _ZH,
        (Intent.HELLO, "", "你好[呀|啊]|您好|嗨|嘿|哈喽|早上好|早|下午好|晚上好|大家好"),
        (Intent.THANKS, "", "谢谢[你|您|啦]|多谢|感谢|非常感谢"),
        (Intent.BYE, "", "再见|拜拜|晚安|回头见|明天见"),
        (Intent.WHEN, "",
         "[你][还][(记得|知道)]我[上次|最后一次|第一次|最早]"
         "WHENEVERTOYOUSAY[关于]<query:WORDS>THING[的][吗]",
         "我TOYOUSAY[关于]<query:WORDS>THING(是)?WHENEVER[的事]"),
        (Intent.RECALL, r"(?:当时|小时候|我们第一次|那年|那天|那时候|相遇|见面|怎么用|怎么做)|记得(?:我|吗"
         r"|这个|它)?\s*(?:吗|么)?\s*[?？]*$",
         "ASK[(告诉我|说说|讲讲)][你][还][都]KNOW[些]ABOUT<query:WORDS>THINGWHATEVERANSWER",
         "ABOUT<query:WORDS>THINGCOMMA你[还][都]KNOW(WHATEVER|吗)ANSWER",
         "你对<query:WORDS>[还](有什么|有多少|有)[的](了解|印象|记忆)[吗]",
         "(我|我们)BEFORE[有没有|是不是]TOYOUSAY[关于]<query:WORDS>THING(什么|吗|没有|没)",
         "(我|我们)BEFORETOYOUSAYWHATEVER(关于|和)<query:WORDS>[有关]THING",
         "ABOUT<query:WORDS>THINGCOMMA(我|我们)BEFORETOYOUSAYWHATEVER",
         "(你还|你|还)记得[关于]<query:WORDS>THINGMA",
         "(你还|你|还)记得<query:(我|我们)WORDS(什么|哪个|哪里|哪儿|谁|多少|几)ANY?>",
         "你[还]知道<query:(我|我们)WORDS>MA",
         "你[还]知道<query:(我|我们)WORDS(什么|哪个|哪里|哪儿|谁|多少)>",
         "ASK(查[一]下|查查|看看|搜[一]下|搜索|翻翻|检查[一下])MEMORY[有没有]ABOUT<query:WORDS>THING",
         "MEMORY[有没有|有]ABOUT<query:WORDS>THING[吗|WHATEVER]",
         "ASK(回忆[一下]|回想[一下])[关于]<query:WORDS>THING",
         "<query:(我的|我们的|我家的)SHORT>ISWHAT",
         "<query:我叫>什么[名字]",
         "我是谁",
         "你[还][都](知道|记得)[我][的]WHATEVERANSWERMA?",
         "<query:我(住|工作)>在(哪里|哪儿|哪)",
         "(我|我们)[平时|一般|最|比较](喜欢|用|偏好|习惯用)(什么|哪个|哪种)<query:SHORT>"),
        (Intent.NEVER_MIND, "",
         "(算了|没事了|不用了|忘了吧|忘掉吧|当我没说)[COMMA(算了|忘了吧|不用了)][吧]"),
        (Intent.FORGET, "",
         "ASK(忘掉|忘记)(THIS|一切|所有的?[事情|事|东西]|我刚才说的[话]|我说的话)[吧]",
         "ASK把THIS[都](忘掉|忘了|忘记)[吧]"),
        (Intent.FORGET, _ZH_ASIDE,
         "ASK[把][我]BEFORE[TOLD]ABOUT<query:WORDS>THINGALL[给我](DROP)[吧]",
         "ASK(忘掉|忘记|忘了)[我]BEFORE[TOLD]ABOUT<query:WORDS>THING[吧]",
         "ASK(忘掉|忘记)我BEFORETOLD<query:WORDS>[的话|的事|这件事|吧]",
         "ASK把<query:SHORT>[这件事|这事|的事情|的事]ALL[给](忘掉|忘了|忘记|忘光)[吧]",
         "ASK把<query:SHORT>从MEMORYALL[给](DROP|移除)[吧]",
         "ASK从MEMORY(ERASE)[关于|有关]<query:WORDS>THING",
         "ASK(ERASE)[你][所有][关于|有关|对]<query:SHORT>的(记忆|记录)",
         "ASK忘掉<query:SHORT>[这件事|这事|吧]",
         "ASK忘记<query:(我的|我们的)SHORT>[这件事|这事|吧]",
         "ASK(不用|不要|别)再?记(着|住|得)?<query:SHORT>了"),
        (Intent.CORRECT, _ZH_ASKS,
         "OPENER<text:[应该]是CLAUSECOMMA(而不是|不是)<query:SHORT>>",
         "OPENER<text:不是<query:CLAUSE>COMMA(而是|是|应该是)ANY>",
         "OPENER<text:<query:SHORT>[应该](是|在)CLAUSECOMMA(而不是|不是)ANY>",
         "OPENER<text:<query:SHORT>不是CLAUSECOMMA(而是|是|应该是)ANY>",
         "OPENER<text:<query:(我的|我们的)SHORT>(是|叫|在)ANY>",
         "OPENER<text:<query:我叫>ANY>",
         "<text:应该是CLAUSECOMMA(而不是|不是)<query:SHORT>>",
         "<text:我[已经][现在]不[再]用<query:SHORT>了COMMA(我)?(现在|改|已经|改成)[改|在]?用ANY>"),
        (Intent.CORRECT, _ZH_ASKS,
         "ASK(更正|纠正|改正|订正)[一下](：|:|，|,)[\\s]<text:ANY>",
         "我[刚才](说|弄|搞)错了(：|:|，|,)<text:ANY>",
         "ASK(更新|修改|改正|纠正)[一下]MEMORY(：|:|，|,)<text:ANY>",
         "ASK(更新|修改|改正|纠正)[一下]ABOUT<query:SHORT>的(记忆|记录)(：|:|，|,)<text:ANY>"),
        (Intent.REMEMBER, _ZH_ASKS,
         "ASK(NOTE|DONTFORGET)THIS[吧]",
         "ASKNOTE[吧|哦]",
         "ASK把THIS(NOTE|KEEPMEMORY)[吧]"),
        (Intent.REMEMBER, _ZH_MUSING,
         "ASK把<text:WORDS>(NOTE|KEEPMEMORY)[吧]",
         "ASK(NOTE|DONTFORGET)COMMA<text:ANY>",
         "ASK记得COMMA<text:(我|要|用|每|以后|别|不要|先|在|把|周|星期|明天|后天|下周|今后)ANY>",
         "ASK(KEEPMEMORY|做[个]笔记|备忘一下|备注一下)COMMA<text:ANY>",
         "<text:CLAUSE>COMMAASK(记住|记一下|记下来|记下)(这点|这一点|这个|哦|啊|吧|一下)?"),
        (Intent.REMEMBER, _ZH_ASKS + "|再说|(?:怎么|如何|什么|会不会)",
         "<text:(以后|今后|往后|之后)COMMA[我们|你|写代码|提交]DIRECTIVEANY>",
         "<text:(从现在开始|从现在起|从今以后|从今往后|从今天起|从今天开始)COMMAANY>"),
        (Intent.LIST, "",
         "ASK(列出|列一下|显示|看看|查看)[当前|这里的|所有的|所有|全部][目录[下"
         "|里]的?][的][所有]文件[列表]",
         "[这里|当前目录|目录里|项目里][都]有(哪些|什么)文件",
         "ASK(列出|看看|查看|显示)\\s*<path:PLACE>\\s*(里|下|目录|目录下|里面|中)[的][所有]文件",
         "ASK(找|查找|找出|找到|列出)[所有][的]\\s*<query:GLOB>\\s*[的]?[文件]"),
        (Intent.READ, "",
         "ASK(读取|读一下|读|看一下|看看|看|打开|显示|查看一下|查看"
         "|展示)[文件]\\s*<path:PATH>\\s*[文件][的内容]"),
        (Intent.SEARCH, "",
         "ASK在(代码|项目|文件|\\s*<path:PLACE>\\s*)[里面|里|中]?(搜索|查找|搜一下|搜|找"
         "|找一下)\\s*<query:ANY>",
         "ASK(搜索一下|搜索|搜一下|查找|grep)[代码][里的|中的]?\\s*<query:ANY>"),
        (Intent.RUN, "", "ASK(运行|执行)[命令]\\s*`WORDS`"),
        (Intent.HELP, "",
         "(你|您)(能|会|可以)(做|干)[些](什么|啥)",
         "帮助|怎么用|你是谁|(你|您)有什么功能"),
    ),
)  # fmt: skip
