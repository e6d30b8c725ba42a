"""English phrases of the embedded provider; ambiguous ones are left out on purpose."""

from __future__ import annotations

import re

from nacre.providers.embedded.grammar import Grammar, Intent, Notation

_VERBS = (
    "is|are|was|were|am|isn't|aren't|has|have|had|will|won't|would|should|must|can|can't|cannot|does|doesn't"
    "|needs?|uses?|likes?|prefers?|wants?|lives?|works?|runs?|goes|means|belongs?|starts?|ends?|moved"
    "|hates?|loves?"
    "|owns?|expires?"
)
_CLAUSE = r"[^,;:?]+?"

EN = Notation({
    "ASK": r"(?:(?:please|pls|kindly|just|always|do|also|make sure (?:to|you|that you)|be sure to|try to"
    r"|i(?:'d| would) (?:like|love) (?:for )?you to|i (?:want|need) you to"
    r"|you (?:should|must|need to|can|have to|may))\s+)*",
    "OPENER": r"(?:(?:actually|no|nope|wait|sorry|correction|not quite|wrong|incorrect|hm+|oh|ah"
    r"|(?:that's|that is|this is|that was|it's) (?:wrong|incorrect|not (?:right|correct|true))"
    r"|you(?:'re| are) wrong|you got (?:that|it|this) wrong|i was wrong|i misspoke)\s*[,.:;!—-]*\s+)+",
    "ANY": ".+",
    "CLAUSE": _CLAUSE,
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
    "STATEMENT": rf"(?:(?:i|we|you|he|she|they|it|there)(?:'\w+)?\s.+|(?:always|never|don't|do not|use"
    rf"|avoid|prefer)\s.+"
    rf"|{_CLAUSE}(?:'s|\s(?:{_VERBS}))\s.+)",
    "PATH": r"(?:`[^`]+`|'[^']*[./][^']*'|\"[^\"]*[./][^\"]*\"|[\w./~@-]*[./][\w./~@-]*|readme|license"
    r"|makefile"
    r"|dockerfile|changelog)",
    "WHERE": r"[\w./~*-]*[./][\w./~*-]*",
    "CODE": "(?:(?:the|this|my|our) )?(?:code|codebase|code base|files|repo|repository|project|sources?)",
    "PLACE": r"(?!-)[\w./~*-]+",
    "WORDS": ".+?",
    "QUOTE": r"[`'\"“”]?",
    "GLOB": r"[^\s`'\"]*[*?][^\s`'\"]*",
    "NAME": r"[\w.*-]+",
    "COMMAND": r"(?:`[^`]+`|\S+ -.*)",
    "COLON": r"\s*[:：]\s*",
    "COMMA": r"(?:\s*[,;:—-])?",
    "PAUSE": r"\s*[,;:—-]\s*",
})  # fmt: skip

_ASKS = r"[?？]\s*$"
_MUSING = (
    rf"{_ASKS}|\b(?:remember|mind|forget)(?: that)? (?:when|how|why|what|where|who|whether|if|me|the time"
    r"|that (?:time|day|one|guy|night))\b"
)
_ASIDE = (
    r"[,;?？]|\bfor (?:a|the|one|now|this|just)\b|\binstead\b|\bthen\b|\bforget that (?:time|day|night"
    r"|ever)\b"
    r"|\band (?:just |now |please )?(?:fix|do|write|help|tell|focus|make|move|go|let|try|start|run|use|answer"
    r"|continue|show|give|look|get|work|think|concentrate)\b"
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
        r" please)?)"
        r"\s*[.!?]*$",
        re.IGNORECASE,
    ),
    polite=re.compile(
        r"(?:(?:can|could|would|will|won't|can't) you|would you mind|do you mind)(?: please| kindly| also"
        r"| just)*\s+",
        re.IGNORECASE,
    ),
    headed=(
        *EN.rules(
            Intent.REMEMBER,
            "ASK(NOTE|KEEP[ THIS] (to|in|into) MEMORY|take[ a] note|make a note|note to self"
            "|(note|jot|write) down|save|note)"
            "[ (this|that|these)][ the following][ one thing][ for (later|me)]COLON<text:ANY>",
            "ASK(keep|bear) (this|that|the following) in mindCOLON<text:ANY>",
        ),
    ),
    rules=(
        # What is known stands before remember, because "do you remember" contains it.
        *EN.rules(
            Intent.WHEN,
            "[do you (know|remember|recall) ](when|on (what|which) (day|date)|what (day|date|time))"
            " (did|have|was it that|was it) i [last |first |ever ](SAY|SAID)[ to you][ (about|of)][ that]"
            " <query:ANY>",
            "[do you (know|remember|recall) ]when i [last |first ]SAID[ to you][ (about|of)][ that]"
            " <query:ANY>",
            "when was <query:CLAUSE> (mentioned|brought up|discussed)",
            "how long ago did i SAY[ about][ that] <query:ANY>",
        ),
        *EN.rules(
            Intent.RECALL,
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
            "(what|which) <query:CLAUSE> do (i|we) (use|prefer|like|want|work with)",
            unless=r"\b(?:when we|the time|how it felt|how to|how i felt)\b"
            r"|\b(?:remember|recall) (?:things|stuff|that|it|this|anything|everything|me|the alamo)\W*$"
            r"|^what(?:'s| is| are) (?:my|our) (?:options|mistake|problem|best|next)\b",
        ),
        *EN.rules(
            Intent.NEVER_MIND,
            "[(oh|ok|okay|ah|no|actually)COMMA ](never mind|nevermind|nvm|forget it|forget about it)"
            "[COMMA (then|forget it|forget about it)]",
        ),
        *EN.rules(Intent.FORGET, "ASKforget [about ](THIS|me|everything|all[ of THIS]|what i [just"
        " ]SAID)[ now]"),
        *EN.rules(
            Intent.FORGET,
            "ASKforget [about ](what|everything|anything|all|whatever)[ that] (i|you)['ve]"
            " [have |just |once ](SAID|know|learned|remember|saved|stored) ABOUT <query:ANY>",
            "ASKforget (everything|anything|all) ABOUT <query:ANY>",
            "ASKforget [about ](the|that|this) (memory|note|entry|fact|preference|rule)"
            " (about|on|of|that) <query:ANY>",
            "ASKforget [the fact ]that [i [ever ]SAID [that ]]<query:ANY>",
            "ASKforget [about ]<query:(my|our) ANY>",
            "ASKforget about <query:ANY>",
            unless=_ASIDE,
        ),
        *EN.rules(
            Intent.FORGET,
            "ASKDROP <query:CLAUSE> from MEMORY",
            "ASKDROP [the |your |that |any |all ](memory|memories|memory entry) (about|of|on|that)"
            " <query:ANY>",
            "ASK(stop remembering|unremember) [that ]<query:ANY>",
            "ASK(don't|do not) (remember|keep) [that ]<query:CLAUSE> (anymore|any more|any longer)",
            unless=_ASKS,
        ),
        # A correction names both values, or speaks of the user's own things, or says that it is one.
        *EN.rules(
            Intent.CORRECT,
            "OPENER<text:<query:(my|our|the|this|that) CLAUSE>('s| is| are| was| were) CLAUSE[,]"
            " [and ](not|instead of|rather than) ANY>",
            "OPENER<text:(it's|it is|it was|that's|i'm|i am|i meant|i mean|i said"
            "|i (use|prefer|live in|work (at|for|on|with)))"
            " CLAUSE[,] [and ](not|instead of|rather than)[ (in|on|at)] <query:ANY>>",
            "OPENER<text:(it's not|it isn't|it is not|not)[ (in|on|at)] <query:CLAUSE>(,| but|;| -)"
            " [but ]ANY>",
            "OPENER<text:<query:(my|our) CLAUSE>('s| is| are| was| were) ANY>",
            "OPENER<text:<query:(i'm|i am) (called|named)> ANY>",
            "<text:<query:my (name|email|birthday|timezone|address)> is CLAUSE[,] not ANY>",
            "<text:i meant CLAUSE[,] not[ (in|on|at)] <query:ANY>>",
            "<text:i (don't|do not|no longer) use <query:CLAUSE>[ (anymore|any more)](,|;| -) [but ]"
            "(i|i'm|i am) [now ](use|using) ANY>",
            unless=_ASKS + r"|\b(?:it's|it is|it was|that's) (?:all |just |only )?(?:fine|ok|okay|good"
            r"|great|cool|right|true|just|only)\b",
        ),
        *EN.rules(
            Intent.CORRECT,
            "ASK(correction|to correct (that|myself)|let me correct (that|this|you|myself))PAUSE<text:ANY>",
            "ASK(update|correct|fix|change) (MEMORY|what you (know|remember))[ ABOUT"
            " <query:CLAUSE>]PAUSE<text:ANY>",
            "ASK(update|correct|fix|change) (the|your) (memory|note|entry) (about|on|of) <query:CLAUSE>"
            "(PAUSE| to say | to )<text:ANY>",
            unless=_ASKS,
        ),
        # Remember: first what points back to the sentence before, then the fact itself.
        *EN.rules(
            Intent.REMEMBER,
            "ASK(NOTE|note|save|note down|write down) THIS[ for (later|me|next time)]",
            "ASKremember",
            "ASK(keep|bear) THIS in mind",
            "ASKmake a note[ of THIS]",
            "ASKKEEP THIS (to|in|into) MEMORY",
            unless=_ASKS,
        ),
        *EN.rules(
            Intent.REMEMBER,
            "<text:CLAUSE>PAUSE[so ]ASK(remember|note|(keep|bear)) THIS[ in mind]",
            unless=_ASKS + r"|^(?:if|when|while|after|before|what|where|who|why|how|do|did|can|could|i"
            r" (?:still )?remember)\b",
        ),
        *EN.rules(
            Intent.REMEMBER,
            "ASKNOTE[ for (later|next time|me)][,] that <text:ANY>",
            "ASK(remember|(don't|do not) forget) to <text:ANY>",
            "ASKNOTE[(,| -)] <text:STATEMENT>",
            "ASK(make|take|keep)[ a] note (that|of the fact that|of) <text:ANY>",
            "ASK(note|write|jot) down[ that] <text:STATEMENT>",
            "ASKKEEP [the fact ][that ]<text:ANY> (to|in|into) MEMORY",
            "ASKKEEP (to|in|into) MEMORY[,][ that] <text:ANY>",
            "for (your|future) referenceCOMMA <text:ANY>",
            unless=_MUSING,
        ),
        *EN.rules(
            Intent.REMEMBER,
            "<text:(from now on|going forward|from here on[ out]|from this point on)[,] ANY>",
            "<text:in [the ]future[,] [please ]DIRECTIVE ANY>",
            "<text:CLAUSE from now on>",
            unless=_ASKS + r"|^(?:what|where|who|when|why|how|do|does|did|is|are|will|can|i wonder)\b"
            r"|\b(?:from now on|going forward),? (?:what|where|who|when|why|how|it's all|things)\b",
        ),
        # Files: read, list and search; running commands is never on offer.
        *EN.rules(
            Intent.LIST,
            "ASK(ls|dir|list)[ [the |all |all the |my ](files|directory|folder)]",
            "ASK(ls|list [the |all |all the ]files (in|under|of)|show [me ]the files (in|under))"
            " QUOTE<path:PLACE>QUOTE",
            "[show me ](what|which) files (are (there|here)|do (we|you) (have|see)|exist)",
            "ASK(find|list|show me|glob) [all ][the ][files ][(matching|named|called)"
            " ]QUOTE<query:GLOB>QUOTE[ files]"
            "[ (in|under) <path:PLACE>]",
            "ASKfind [the |a ](file|files) (named|called) QUOTE<query:NAME>QUOTE",
        ),
        *EN.rules(
            Intent.READ,
            "ASK(read|show[ me]|open|cat|display|print|view|look at|what's in|what is in) [the"
            " ][(contents|content) of ]"
            "[the ][file ]<path:PATH>[ file]",
        ),
        *EN.rules(
            Intent.SEARCH,
            "ASK(grep|rg)[ for] <query:WORDS>[ in (CODE|<path:PLACE>)]",
            "ASKsearch <path:WHERE> for <query:ANY>",
            "ASKsearch [CODE ]for <query:WORDS>[ in (CODE|<path:WHERE>)]",
            "ASK(look for|find|where is|where do we use) <query:WORDS> in (CODE|<path:WHERE>)",
            unless=r"\b(?:web|internet|online)\b|\bfind (?:the|an?|any|all|some|every|out)\b",
        ),
        *EN.rules(Intent.RUN, "ASK(run|execute) [the command ]COMMAND"),
        *EN.rules(
            Intent.HELP,
            "help[ me]",
            "(what|how) can you (do|help)[ me][ (here|for me)]",
            "(who|what) are you",
            "what are you able to do",
        ),
        *EN.rules(
            Intent.HELLO,
            "(hi|hello|hey|good (morning|afternoon|evening)|howdy|greetings)[ (there|nacre|all)]",
        ),
        *EN.rules(
            Intent.THANKS,
            "[(many|ok|great)[,] ](thanks|thank you|thx|cheers)[ (a lot|so much|very much|again)]",
        ),
        *EN.rules(Intent.BYE, "bye[ bye]", "goodbye", "see (you|ya)[ (later|soon)]", "good night"),
    ),
)  # fmt: skip
