"""Patterns for what the classifier does not decide: requests, corrections, reasons, unreal cases (E10)."""

from __future__ import annotations

import re


def first_match(patterns: tuple[re.Pattern[str], ...], text: str) -> re.Match[str] | None:
    """Return the match of the first pattern that matches the start of a text."""
    return next((match for pattern in patterns if (match := pattern.match(text))), None)


def _alternatives(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.IGNORECASE)


QUESTION = re.compile(
    r"[?？][\"'”’)」]*\s*$|吗[。.!！]*$|[,;]\s*is (?:that|this|it) \w+[.! ]*$|[\s,;，；](?:why"
    r"|how come|(?:any|no) ideas?|what now"
    r"|which (?:one )?is \w+"
    r"|ist das \w+|warum|wieso|weshalb|woran liegt(?: das| es)?)[.! ]*$"
    r"|(?:为什么|怎么回事|怎么办|什么原因|正常不|谁(?:能"
    r"|可以)?[来帮替去盯][\u4e00-\u9fff]{0,3})[。！ ]*$",
    re.IGNORECASE,
)
"""Ends a question, with or without its sign: "the build failed after 3 minutes, any idea"."""
REMEMBER = (
    re.compile(
        r"^(?:(?:please|and|also|so|but|ok|okay|oh|now|can you|could you|i want you to|i need you to"
        r"|i['’]d like you to"
        r"|just|hey)[ ,]+)*(?:remember|don['’]t forget|do not forget|for future reference"
        r"|save (?:this )?(?:to|in)"
        r" (?:your )?memory)(?: that|,? for (?:later|next time|the future)[:,]?(?: that)?|[:—-]+(?: ?that)?"
        r"|,(?= (?:i|i['’]\w+|my|we|our)\b)| (?=(?:i|my|we|our|always|never)\b"
        r"|to\b(?=.*\b(?:always|whenever|when|every|each)\b)(?!.*\byour\b))| (?:this|these"
        r"|the following)(?: \w+)?[:：.]?)"
        r"\s*(?P<fact>.*)$",
        re.IGNORECASE,
    ),
    re.compile(
        r"^(?:请|麻烦|帮我|你要|你|一定要?|务必|好的|对了|还有|另外|[，, ])*(?:记住|记一下|记下来?|记着"
        r"|别忘了|不要忘记|不要忘了"
        r"|备忘|记得)[了：:，, ]*(?P<fact>.*)$"
    ),
)
"""The person asks to remember something."""
REMEMBER_BEFORE = re.compile(
    r"(?:^|[,;:，；]\s*|\s[-–—]+\s+)(?:(?:please|pls|and|so|also|just|ok|okay|can you|could you"
    r"|you should|bitte)[ ,]+)*"
    r"(?:(?:remember|memori[sz]e) (?:that|this|it)|note (?:that|this)|(?:note|write|jot) (?:that"
    r"|this|it) down"
    r"|(?:save|store|keep|put) (?:that|this|it) (?:in (?:mind|(?:your )?memory)|to (?:your )?memory)"
    r"|(?:make|take) a note(?: of (?:that|this|it))?"
    r"|(?:don['’]?t|do not) forget (?:that|this|it)"
    r"|merke? (?:dir|es dir) ?(?:das|dies|es)?|notiere? (?:dir )?(?:das|es)|(?:das|bitte) merken"
    r"|vergiss das nicht"
    r"|behalte? das im (?:kopf|hinterkopf)|retiens[- ](?:ça|le|cela)|note[- ](?:ça|le|cela)"
    r"|recuérdalo|anótalo"
    r"|tenlo en cuenta)"
    r"(?:,? (?:for (?:later|next time|the future|me)|please|pls|thanks|ok|ab jetzt|bitte"
    r"|por favor))*[.!…]*\s*$"
    r"|(?:^|[，,。；;\s])(?:(?:请|麻烦|帮我|你|一定|要|务必|也)[，, ]?)*"
    r"(?:记住|记一下|记下来?|记着|记好|别忘了|不要忘了|不要忘记)(?:这个|这点|这一点|它|了|一下|哦|啊"
    r"|吧|哈|呀)*[。！!～~]*\s*$"
    r"|(?:^|[、。，\s])(?:これを?|それを?)?(?:覚えて|メモして|記憶して)(?:おいて)?(?:ください|下さい"
    r"|ね)*[。！]*\s*$",
    re.IGNORECASE,
)
"""The person asks to remember what they just said: "Remember that.", "…, please note that down"."""
NOT_A_FACT = _alternatives(
    r"^(?:when\b|how\b|what\b|you(?:['’]re| are| must| should| can| will)\b|the (?:previous|above"
    r"|last|first"
    r"|earlier|conversation|context)|our (?:previous|last|conversation)|me\b|this\b|that\b|it\b"
    r"|to (?:include"
    r"|use|add|keep|provide|make|write|be|format|respond|stay|ask|not)\b|these\b|seeing\b|reading\b)",
    r"^(?:吗|我们?之前|上面|刚才|这个|那个|了吗|你是|你要|什么|怎么)",
)
FORGET = (
    re.compile(
        r"^(?:(?:please|ok|okay|oh|actually|so|and|also|no|sorry|wait)[ ,]+)*(?:forget|ignore|disregard"
        r"|scratch|drop|never ?mind)"
        r" (?:(?:(?:everything|all)(?: that)?|what|that) (?:i|we)(?:['’]ve)? (?:said|told you|wrote"
        r"|mentioned)(?: earlier| before)?"
        r"|the (?:thing|bit|part|rule|note|one)|(?:that|my|our) (?:rule|note|preference|thing))"
        r"(?: about| on| regarding| with| of)\s+(?P<about>[^,.;!—–]+?)(?P<rest>[,.;!—–].*)?$",
        re.IGNORECASE,
    ),
    re.compile(
        r"^(?:请|那)?(?:忘掉|忘了|忽略)我?(?:之前|上次"
        r"|刚才)?说的?(?:关于)?(?P<about>[^，。,；;！]+?)(?:的事|那条|的规则)?"
        r"(?:了|吧)?(?P<rest>[，。,；;！].*)?$"
    ),
)
"""The person asks to forget what they said about something, and may say what holds instead."""
LEAD = re.compile(
    r"^(?:(?:by the way|btw|also|oh|well|and|but|anyway|fyi|for context|just so you know|fun fact|i mean"
    r"|you know|one more"
    r" thing|one thing|i should (?:also )?mention(?: that)?|i forgot to mention(?: that)?|before i forget"
    r"|heads up|hi|hello"
    r"|hey|ok|okay|thanks|thank you|cool|great|nice|haha|lol|hm+|so|the thing is|tbh|one more|quick one"
    r"|对了|另外|还有|其实|顺便说一下|顺便|说起来|好的|好|嗯|谢谢|你好|您好|哈哈|补充一下|说实话)"
    r"(?:[,:;!.，。：！—–-]+\s*|\s+(?=i\b|i['’]|my\b|we\b|our\b|the\b|its\b|it['’]s\b|please\b|pls\b"
    r"|dont\b|don['’]t\b)))+",
    re.IGNORECASE,
)
TAIL = re.compile(
    r"[,，]?\s*(?:by the way|btw|fyi|lol|haha+|ok\??|thx|thanks|哈哈|谢谢)[.!。！]*$", re.IGNORECASE
)
REASON = _alternatives(
    r"^(?:we|it|they|the|that|this|last|otherwise|because|bc|cuz|my|our|half|somebody|someone"
    r"|i) .*\b(?:burned|burnt|bit|bitten"
    r"|broke|broken|lost|spent|took|was|were|had|got|went|ended|failed|fails|crashed|rejects?|rejected"
    r"|complain\w*|breaks?"
    r"|blocks?|blocked|banned|forbids?|otherwise|every time|anyway|never reproduce\w*|cost)\b|^(?:because"
    r"|bc|otherwise|cuz)\b",
    r"^(?:上次|之前|去年|因为|不然|否则|要不然|有次|曾经)",
)
"""A sentence after a rule that tells what happened without it."""
OUTRIGHT = _alternatives(
    r"^(?:please )?(?:we )?use [\w.-]+,? not [\w.-]+|^no (?!idea|luck|worries|way|such|need|one|time"
    r"|problem)[\w ]+ (?:in|for|on) ",
    r"^i (?:much |strongly )?prefer (?!this|that|the|it|not|to say|[ab]\b|option)|(?:环境|库|集群|机器"
    r"|分支|服务器)叫",
    r"\b(?:from now on|going forward|in (?:the )?future|as a (?:general )?rule|every time|whenever"
    r"|anymore|any more)\b",
    r"^(?:please |no,? |yes,? )?(?:always|never) (?!mind|been|had|seen|knew|heard|got)[a-z]+ ",
    r"^(?:please |no,? )?(?:don['’]?t|do not|stop) .*\b(?:ever|again|without|unless|mock|in (?:this"
    r"|our) (?:repo|project))\b",
    r"^(?:please )?call me (?!back|when|if|later|crazy|up|at|on|in)\w+[.!]*$",
    r"^i(?:['’]?m| am) (?:an? |the (?:only|lead|new)|allergic|vegan|vegetarian|from |based |responsible)",
    r"^i (?:(?:never|no longer) (?:eat|drink|use|work|live)|(?:don['’]?t|can['’]?t) (?:eat|drink)|live"
    r"|work (?:at|for|in|as)"
    r"|have (?:\d|two|three|a \w+ called))",
    r"^my (?:name|wife|husband|partner|son|daughter|mother|father|sister|brother|birthday|pronouns)\b",
    r"^(?:we|the team)(?:['’]ve)? (?:all |finally )?(?:decided|agreed|release|ship|deploy)\b",
    r"\b(?:is|are) (?:all )?(?:tracked|documented|logged|kept) (?:in|at|on)\b|\b(?:is|are) (?:at"
    r"|on) (?:https?://|\S+\.internal)",
    r"\b(?:deadline|release|launch|freeze|demo)\b.* (?:is|starts|begins|moved)\b.*\d{4}-\d\d|\bowns the\b"
    r"|\b(?:right|good) call\b",
    r"^(?:以后|今后|不要再|别再|每次|永远|千万)|^我(?:叫|是(?:一|做|个)|不吃|不喝|住|对.{1,8}过敏|来自)"
    r"|我们.{0,6}决定|别每次|(?:都)?记录?在",
)
"""Words by which people state outright what lasts: a lower probability is then enough."""
UNCLEAR = re.compile(
    r"^(?:i|i['’]?m|i['’]?ve|we|we['’]?ve|we['’]?re)(?: [\w'’]+){1,3} (?:it|them|that|those|there"
    r"|this)\b(?: [\w'’]+){0,3}[.!]*$",
    re.IGNORECASE,
)
"""A short statement about something that an earlier one names."""
UNREAL = _alternatives(
    r"^(?:if (?:only|i|we) (?:(?:was|were|had|could|lived|worked|owned|moved|i|we)\b)|suppose|supposing"
    r"|imagine|pretend"
    r"|hypothetically|let['’]?s say|in a perfect world|what if|i wish|would be (?:nice|fun)|maybe|perhaps"
    r"|possibly"
    r"|i (?:might|may|could|guess|wonder|doubt)\b)|\bif (?:we|i) were\b|\b(?:lol|haha+)\s*$",
    r"^(?:如果我|假如|要是我|要是有|假设|倘若|万一|也许|可能|或许|大概|好像|说不定|.*(?:算了"
    r"|得了)[。！]*$|我(?:可能|也许|大概|好像|或许))",
)
PROMPT = _alternatives(
    r"\b(?:act as|act like|pretend (?:to|you|that)|role-?play|you are (?:now |a |an |my |going to )"
    r"|you['’]re an? "
    r"|ignore (?:all|previous)|in the style of|from the (?:perspective|point of view) of|once upon a time"
    r"|fictional"
    r"|(?:write|compose|tell)(?: me| us)?(?: an?| the| another| some)?(?: [\w'’-]+){0,3} (?:story|poem"
    r"|song|lyrics|novel|scene"
    r"|screenplay|monologue|haiku|rap|sonnet|limerick|essay|cover letter|dialogue)\b"
    r"|(?:re-?write|rephrase|paraphrase|summari[sz]e|translate|proofread|polish"
    r"|reword)\b[^\n]{0,40}[:\n\"“])",
    r"扮演|充当|假装|假设你|你是(?:一|我的|个)|作为一(?:个|名|位).*你|角色扮演|写一?(?:篇|个|首)?(?:故事"
    r"|小说|剧本|作文|诗)"
    r"|(?:翻译|润色|改写|续写|仿写|扩写)[^\n]{0,10}[：:“\"]|小说|剧本",
)
REPLY = _alternatives(
    r"feel free to|don['’]t hesitate|hope (?:this|that) helps|as an ai\b|let me know if you"
    r"|i['’]m glad (?:i could|to)"
    r"|happy to help|i don['’]t have personal|here are some|is there anything else|have a great (?:time"
    r"|day|trip)!",
    r"希望(?:这|以上).{0,8}帮助|作为(?:一个)?(?:AI|人工智能)|随时(?:告诉|问)我|还有(?:什么|其他)问题吗",
)
CORRECTION = (
    re.compile(
        r"^(?:no|nope|actually|sorry|correction|wait|not quite|oops)\b[,.:;!—– -]+(?:actually,? |sorry,? "
        r"|i meant |wait,? )*"
        r"(?P<fact>(?:the|my|our) [^,.?]{2,60}? (?:is|are|was|were)(?:n['’]t)? .{2,})",
        re.IGNORECASE,
    ),
    re.compile(r"^(?:不对|不是|错了|更正|纠正一下|更正一下|说错了)[，,。！!：: ]+(?P<fact>.{4,})"),
)
CORRECTS = _alternatives(
    r"^(?:(?:hm+|oh|ok|okay|well|so|and|but)[, ]+)*(?:actually(?:,? no(?=[,.;:!—–]|\s*$))?"
    r"|(?:no,? )?wait(?:,? no(?=[,.;:!—–]|\s*$))?"
    r"|scratch (?:that|what i said(?: about [\w -]+?)?(?=[,:;.]))|(?:i )?changed my mind|correction"
    r"|wrong(?: one)?|my mistake|i was wrong|(?:no|nope|sorry)(?=[,:;.!—–]))\b[,:;.!—– -]*",
    r"^(?:啊|哦|嗯|[，, ])*(?:其实|不对|不是(?=[，,])|错了|说错了|更正(?:一下)?|纠正一下|算了|等等"
    r"|等一下)"
    r"[，,。：:！! ]*",
)
"""The person takes back what they said before; what follows may hold instead."""
PRONOUN = _alternatives(
    r"^(?:it|that|this)(?:['’]?s| is| will be| should be| starts| begins)\b|^its\b|^make (?:it|that)\b",
    r"^(?:是|改成|改到|改为|换成|换到)",
)
"""Begins a correction that does not say what it is about."""
NEGATED = _alternatives(
    r",? (?:and )?(?:not|rather than|instead of) (?P<was>[^,.;!?]{2,60})[.!]*$",
    r"\bnot (?P<was2>[^,.;!?]{2,40}),? but\b",
    r"\b(?:no longer|not|n['’]?t) (?P<was3>[^,.;!?]{2,60}?) any ?more\b",
    r"\bno longer (?P<was4>[^,.;!?]{2,60})",
    r"不是(?P<was5>[^，。；！？]{1,30})[，,]?(?:而)?是"
    r"|[，,](?:而)?不是(?P<was6>[^，。；！？]{1,30})[。！]*$",
    r"(?:不再|已经不)(?P<was7>[^，。；！？]{1,30})了?",
)
SCOPE = _alternatives(
    r"^(?:(?:this|that|it|same|thats|that['’]s) (?:goes|applies|holds|is true|counts|is"
    r"|one is)?\s*(?:also )?(?:for|to|in)\b"
    r"|applies to|(?:only|also|even|always) (?:for|in|when|if)\b|everywhere\b|anywhere\b|in every\b"
    r"|for (?:all|every|any)\b)",
    r"^(?:所有|不管|无论|只有|只限|包括|适用于)",
)
CONTINUED = _alternatives(
    r"^(?:it|its|it['’]s|they|they['’]re|he|she|that|thats|that['’]s|those|these|this|which|because|bc"
    r"|since|otherwise|so"
    r"|same|there|then|and|but|not|nor|only|even|except|unless|his|her|their)\b",
    r"^(?:他|她|它|这|那|所以|因为|不然|否则|而且|并且|但|除了|也)",
)
CLAUSE_END = re.compile(
    r"(?:[,，;；]\s*|\s+|(?<=[\u4e00-\u9fff]))(?=(?P<because>because|bc|cuz|otherwise|因为|不然"
    r"|否则)[\s\u4e00-\u9fff])"
    r"|[,，;；]\s*|\s[-–—]+\s",
    re.IGNORECASE,
)
