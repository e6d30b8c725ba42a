"""Which quotations a text puts into the person's mouth: by who is said to speak, before or behind them.

In doubt a quotation is theirs: to look one up too many costs a sentence at most, one too few may cost trust.
"""

from __future__ import annotations

import re

from nacre.layers.l4_compact.pieces import Quotation, blanked, sentences

PROSE_WORDS = 3
"""Fewer words in backticks, or behind an article, merely name something."""
NEAR_CHARS = 800
"""Of a sentence around a quotation: who speaks is said no further away."""

_WHO = r"(?:\b(?:the |this |our )?(?:user|human|person|customer)s?(?:['’]s)?\b(?![-_/]|\.\w))"
_ELSEWHERE = (
    r"(?:用户|使用者|用戶|ユーザー?|사용자"
    r"|\b(?:der |die )?(?:be)?nutzer(?:in)?s?\b|\butilisateur\b|\busuari[oa]\b)"
)
_SPEAKS = (
    r"\b(?:sa(?:id|ys?|ying)|ask(?:s|ed|ing)?|t(?:old|ells?|elling)|want(?:s|ed)?|wr(?:ote|ites?|iting|itten)"
    r"|typed|request(?:s|ed|ing)?|repl(?:y|ies|ied|ying)|answer(?:s|ed|ing)?|respon(?:d|ds|ded|ding|se)"
    r"|confirm(?:s|ed|ing)?|clarif(?:y|ies|ied|ying|ication)|stat(?:es?|ed|ing)|insist(?:s|ed|ing)?"
    r"|instruct(?:s|ed|ing|ions?)?|order(?:s|ed)|demand(?:s|ed|ing)?|mention(?:s|ed|ing)?|not(?:es?|ed|ing)"
    r"|expla(?:ins?|ined|ining)|report(?:s|ed|ing)?|complain(?:s|ed|t|ing)?|suggest(?:s|ed|ing|ion)?"
    r"|point(?:s|ed|ing)? out|prefer(?:s|red|ence)?|specif(?:y|ies|ied|ying)|object(?:s|ed)"
    r"|reject(?:s|ed|ing)?|correct(?:s|ed|ing|ion)|remind(?:s|ed|er)?|emphasi[sz](?:es?|ed|ing)"
    r"|warn(?:s|ed|ing)?|agree[sd]?|approv(?:es?|ed|al)|permi(?:ts?|tted|ssion)|allow(?:s|ed)|decid(?:es?|ed)"
    r"|decision|question(?:s|ed|ing)?|quot(?:es?|ed|ing)|words?|messages?|feedback|requirements?|concerns?"
    r"|comment(?:s|ed)?|interrupt(?:s|ed)|redirect(?:s|ed)|push(?:es|ed) back|challeng(?:es?|ed|ing)|thinks?"
    r"|call(?:s|ed) for|add(?:s|ed)|verbatim|according to|per|prompt(?:s|ed)?|announc(?:es?|ed)"
    r"|admit(?:s|ted)|promis(?:es?|ed)|urg(?:es?|ed)|needs?|expects?|likes?|hopes?|wish(?:es|ed)?)\b"
)
_PUTS_IT = (
    r"(?:说|說|要求|问|問|表示|提出|写|寫|希望|指出|强调|強調|回复|回覆|确认|確認|想|提到|称|稱"
    r"|原话|消息|指示|说明|反馈|答)"
)
_AIM = r"(?:\s+(?:that|to|for|me|us|it|as|with|about|whether|if|why|how|explicitly|specifically|just|again))*"
_GAP = r"[\s,:：;—–*_(\[-]*"

_BEFORE = (
    re.compile(rf"{_WHO}[^\x00]*?{_SPEAKS}", re.IGNORECASE),
    re.compile(rf"{_SPEAKS}[^.\x00]{{0,30}}\b(?:by|from|of)\s+{_WHO}", re.IGNORECASE),
    re.compile(rf"\b(?:according to|per) {_WHO}", re.IGNORECASE),
    re.compile(rf"{_ELSEWHERE}", re.IGNORECASE),
)
"""Somebody speaks, and what they say follows in the same sentence."""
_LABEL = re.compile(rf"{_WHO}[^.\x00]{{0,80}}[:：]{_GAP}$", re.IGNORECASE)
_BESIDE = re.compile(rf"{_WHO}[\s|:：,;—–→=>()\[\]*_-]*$", re.IGNORECASE)
_THINGS = (
    r"(?!\s+(?:names?|ids?|interfaces?|input|edits?|files?|changes?|docs?|data|accounts?|tables?|models?|code"
    r"|lines?|levels?|space|experience|stor(?:y|ies)|types?|roles?|menus?|pages?|settings?|profiles?|agents?"
    r"|prompts?\b|skills?|commits?|visible|facing|defined|modified|flows?|guide|manual|testing)\b)"
)
"""What belongs to users in general, and is nobody's speech."""
_MENTIONED = re.compile(rf"{_WHO}{_THINGS}", re.IGNORECASE)
_CLAIMED = re.compile(
    rf"\b(?:from|by|of)\s+{_WHO}\W*$|\b(?:is|was|are|were)\s+what\s+{_WHO}|\b(?:came|comes)\s+from\s+{_WHO}",
    re.IGNORECASE,
)
_USES = re.compile(
    rf"{_WHO}\s+(?:\w+ly\s+)?(?:click|open|see|saw|run|ran|enter|press|select|type|visit|chose|choose|pick|invoke|provide|paste"
    rf"|share|edit|delete|move|navigate|hit|tap)(?:s|ed|d)?\b",
    re.IGNORECASE,
)
"""What somebody does with a program, whose words then follow."""
_DIRECT = re.compile(rf"(?:{_SPEAKS}|{_PUTS_IT}){_AIM}{_GAP}$|[:：]{_GAP}$", re.IGNORECASE)
_SPOKEN = re.compile(
    rf"(?:\b(?:said|says|saying|wrote|replied|answered|typed)\b|说){_AIM}{_GAP}$", re.IGNORECASE
)
_THEY = re.compile(
    rf"\b(?:they|he|she|you)(?:['’](?:d|ve))?\s+(?:\w+\s+)?{_SPEAKS}{_AIM}{_GAP}$"
    rf"|\btheir (?:exact |own )?words{_GAP}$"
    rf"|(?:他|她)们?[^。\x00]{{0,6}}{_PUTS_IT}{_GAP}$",
    re.IGNORECASE,
)
_UNNAMED = re.compile(
    r"\b(?:i|we|was|were|been|being|am) (?:was |were )?(?:explicitly |then )?"
    rf"(?:asked|told|instructed|requested){_AIM}{_GAP}$"
    r"|\b(?:original|initial|first|last|latest|final|most recent|exact|explicit|verbatim|direct|new)"
    r"[\s*_]+(?:\w+[\s*_]+)?(?:requests?|instructions?|prompts?|asks?|questions?|feedback|quotes?|wording|words"
    rf"|directions?)(?:\s+(?:was|is|were))?{_AIM}{_GAP}$"
    rf"|\b(?:verbatim|quote|as (?:requested|instructed|asked)){_GAP}$"
    rf"|^\W*(?:instructions?|request|task|prompt|ask)[\s*_]*[:：]{_GAP}$"
    rf"|(?:原话|原始要求|指示|被要求|被告知)(?:是|为)?{_GAP}$",
    re.IGNORECASE,
)
_BEHIND = re.compile(
    rf"^[\s,，.;*_)]*[(（\[—–-]*\s*(?:as |was |is |per |from |by |-- ?)?(?:{_SPEAKS}\s+(?:by\s+)?)?{_WHO}"
    rf"(?!\s+(?:clicks|opens|sees|runs|enters|types|presses|selects))"
    rf"|^[\s,，*_)]*[(（\[—–-]*\s*(?:是)?{_ELSEWHERE}"
    rf"|^[\s,，*_)]*(?:they|he|she)\s+{_SPEAKS}",
    re.IGNORECASE,
)
_NAMES = re.compile(
    r"\b(?:named|called|titled|label(?:led|ed)?|renamed|error|errors|file|folder|branch|function|section|button"
    r"|tab|column|tag|string|text|value|constant|test|method|class|command|key|flag|field|option|status|state"
    r"|setting|heading|header|badge|variable|type|skill|hook|commit|log|logs|line|lines|output|show(?:s|ed|n|ing)?"
    r"|display(?:s|ed|ing)?|print(?:s|ed|ing)?|return(?:s|ed|ing)?|log(?:ged|ging)|contain(?:s|ed|ing)?"
    r"|found|see(?:s|ing)?|saw|from|of|in|on|under|into|the|a|an|this|these|mode|phase|role|scenario|case"
    rf"|option|feature|plan|page|tool|title|name)\s*(?:\(\s*)?{_GAP}$"
    rf"|\b(?:rename[sd]?|change[sd]?|set|switch(?:ed)?|convert(?:ed)?|move[sd]?)\b[^.]*\bto{_GAP}$",
    re.IGNORECASE,
)
_OUTPUT = re.compile(
    r"\b(?:named|called|titled|label(?:led|ed)?|error|errors|show(?:s|ed|n|ing)?|display(?:s|ed|ing)?|print(?:s|ed|ing)?|return(?:s|ed|ing)?"
    rf"|log(?:s|ged|ging)?|output|fail(?:s|ed|ing)? with|crash(?:es|ed) with)\s*(?:message\s*)?{_GAP}$",
    re.IGNORECASE,
)
_ITS_OWN = re.compile(
    r"[:：—–-][\s*_]*(?:I|we)\s+(?!(?:can|may|should|must|could|was|am)\b).*$|\band my\b.*$", re.DOTALL
)
"""The assistant tells of itself, after a label or beside what the person said."""
_QUOTED_LABEL = re.compile(r"\x00[\s*_)]*[:：]")
"""A quotation that is itself the label: what comes behind it is a clause of its own."""
_INTRODUCES = re.compile(
    rf"{_WHO}[^\x00]*{_SPEAKS}|{_WHO}[\s*_]*[:：]|{_ELSEWHERE}"
    r"|\b(?:all|exact|direct|verbatim) (?:messages|quotes|words)\b",
    re.IGNORECASE,
)
_WORDS_FOLLOW = re.compile(
    rf"{_WHO}[^.\x00]*\b(?:said|says|wrote|writes|words|messages?|asked|replied|answered|typed|request(?:ed)?"
    rf"|quotes?|instructions?|told)\b[^.\x00]{{0,30}}$|{_ELSEWHERE}[^。\x00]{{0,20}}$",
    re.IGNORECASE,
)
_SAYS_PLAINLY = re.compile(
    rf"{_WHO}[^.:：\x00\n]{{0,60}}\b(?:said|says|wrote|writes|replied|answered|typed|words|quote|reply)"
    rf"\b[^.:：\x00\n]{{0,30}}[:：]"
    r"[\s*_]+(?=[^\s\x00>*_`])([^\x00\n]+)",
    re.IGNORECASE,
)
_COMES_FROM = re.compile(
    rf"\b(?:message|words|quote|reply|answer)\s+(?:from|of|by)\s+{_WHO}[\s*_]*[:：][\s*_]+"
    r"(?=[^\s\x00>*_`])([^\x00\n]+)",
    re.IGNORECASE,
)
_TAGGED = re.compile(r"<(user|human|user_message)>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_TURN = re.compile(r"\W*(?:user|human|用户)[\s*_]*[:：][\s*_]*", re.IGNORECASE)
_TOLD_OF = re.compile(
    r"(?:want|prefer|ask|request|need|like|expect|reject|confirm|approv|report|decid|insist|instruct|clarifi)"
    r"(?:e?s|e?d|red)\b|(?:told|chose|gave|said that|asked)\b",
    re.IGNORECASE,
)
"""Somebody tells of the person, in the third person; anything else behind their name is their turn."""


def attributed(text: str, marks: list[Quotation]) -> list[Quotation]:
    """Those of the quotations in a piece that are said to be the person's."""
    masked = blanked(text, marks)
    found: list[Quotation] = []
    place = 0
    for start, end in sentences(text, marks):
        while place < len(marks) and marks[place].start < end:
            one = marks[place]
            before = masked[max(start, one.start - NEAR_CHARS) : one.start]
            behind = masked[one.end : min(end, one.end + NEAR_CHARS)]
            if re.search(r"\w", one.words) and _is_theirs(one, before, behind):
                found.append(one)
            place += 1
    return found


def introduces(text: str, *, is_heading: bool) -> bool:
    """Whether what follows this piece is said to be the person's words."""
    said = text.rstrip().rstrip("*_ ")
    if not (is_heading or said.endswith((":", "："))):
        return False
    return _INTRODUCES.search(_last_sentence(said)) is not None


def introduces_words(text: str) -> bool:
    """The same, said so plainly that even code below it is meant to be what they wrote."""
    said = text.rstrip().rstrip("*_ :：")
    return _WORDS_FOLLOW.search(_last_sentence(said)) is not None


def turn_words(text: str) -> str:
    """What a line lets them say that is written like their turn, `User: do it`; not what it tells of them."""
    found = _TURN.match(text)
    if found is None:
        return ""
    said = text[found.end() :].strip()
    return "" if _TOLD_OF.match(said) else said


def unquoted(text: str) -> str:
    """What a sentence lets them say without quotation marks: `The user said: do it`."""
    found = _SAYS_PLAINLY.search(text) or _COMES_FROM.search(text)
    return found[1].strip() if found else ""


def tagged(text: str) -> list[str]:
    """What stands in tags that name the person."""
    return [found[2] for found in _TAGGED.finditer(text)]


def _is_theirs(one: Quotation, before: str, behind: str) -> bool:
    """By what stands before it and behind it in its sentence."""
    before = _QUOTED_LABEL.split(before)[-1]
    is_direct = _DIRECT.search(before) is not None
    if one.is_code and not (is_direct and _is_spoken(before, one)):
        return False
    if _BEHIND.search(behind) or _THEY.search(before) or _UNNAMED.search(before):
        return True
    if _LABEL.search(before):
        return True
    size = len(one.words.split())
    if _BESIDE.search(before):
        # One word right behind it is a name: the user "root".
        return size > 1 or re.search(r"(?<!to the )\buser\s*$", before) is None
    is_claimed = _CLAIMED.search(behind) is not None or any(one.search(before) for one in _BEFORE)
    is_mentioned = _MENTIONED.search(before) is not None and not _is_apart(before)
    if not (is_claimed or is_mentioned):
        return False
    return is_direct or not (_only_names(before, one) or _ITS_OWN.search(before))


def _is_apart(before: str) -> bool:
    """Whether the person only does something beside what is quoted: uses a program, reads a title."""
    is_title = re.search(r"(?:#\d+|\x00|\bplan|\bPR)\s*[(（]$", before) is not None
    return is_title or _USES.search(before) is not None


def _is_spoken(before: str, one: Quotation) -> bool:
    return _SPOKEN.search(before) is not None or len(one.words.split()) >= PROSE_WORDS


def _only_names(before: str, one: Quotation) -> bool:
    """Whether the quotation stands for a thing that is talked about, or for what a program printed."""
    if _OUTPUT.search(before):
        return True
    is_short = len(one.words.split()) <= PROSE_WORDS
    is_code = " " not in one.words and re.search(r"[/_.()<>=\-]|[a-z][A-Z]", one.words) is not None
    return is_code or (is_short and _NAMES.search(before) is not None)


def _last_sentence(text: str) -> str:
    return re.split(r"[.!?]\s+(?=\S)|[。！？]|\n", text)[-1]
