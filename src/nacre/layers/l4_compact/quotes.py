"""Every quotation said to be the person's, looked up in what they really said (C20).

One that is not there goes, with the sentence or list item that carries it: a summary may forget, but it must
not let a person say what they never said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from nacre.layers.l4_compact.pieces import Quotation, TextPiece, blanked, pieces, quotations, sentences

MIN_PART_WORDS = 2
"""Around an ellipsis: single words picked out of a sentence can be made to say anything."""
MIN_PART_CHARS = 4
"""The same for scripts without spaces."""

RIDDLED_CHARS = 200
"""Of a piece that is nothing but quotation marks, for the log."""

_QUOTES = re.compile(r"[\"'`“”„‟‘’‚‛«»‹›「」『』＂＇]+")
_ELLIPSIS = re.compile(r"\s*(?:\[\s*(?:\.{3,}|…+)\s*\]|\(\s*(?:\.{3,}|…+)\s*\)|\.{3,}|…+)\s*")
_ENDS = " \t\n.,;:!?。，；：！？、-–—"
_LATIN = re.compile(r"[^\W\u2e80-\uffff]")
_LABEL_ONLY = re.compile(r"[\W\d_]*(?:\*\*[^*]*\*\*|__[^_]*__)?[\s:：*_—–-]*")


@dataclass(frozen=True, slots=True)
class CheckedSummary:
    """A text in which the person says only what they said."""

    text: str
    dropped: list[str] = field(default_factory=list)
    """The quotations that were not found."""
    kept: int = 0
    """The quotations that were."""


def checked(text: str, words: Sequence[str]) -> CheckedSummary:
    """The text without quotations of the person that are not in their words, message by message."""
    return _Check(words).run(pieces(text))


def is_said(quotation: str, words: Sequence[str]) -> bool:
    """Whether one of the messages holds these words: white space and the form of quotation marks aside."""
    return _QuoteSources(words).holds(quotation)


class _QuoteSources:
    def __init__(self, words: Sequence[str]) -> None:
        self._said = [_plain(one) for one in words]

    def holds(self, quotation: str) -> bool:
        parts = [_plain(part).strip(_ENDS) for part in _ELLIPSIS.split(quotation)]
        parts = [part for part in parts if part]
        if not parts:
            return True
        if len(parts) > 1 and not all(_says_something(part) for part in parts):
            return any(_found(_plain(quotation).strip(_ENDS), one) >= 0 for one in self._said)
        return any(_in_order(parts, one) for one in self._said)


class _Check:
    """One pass over the pieces of a text."""

    def __init__(self, words: Sequence[str]) -> None:
        self._log = _QuoteSources(words)
        self._dropped: list[str] = []
        self._kept = 0

    def run(self, found: list[TextPiece]) -> CheckedSummary:
        left: list[TextPiece | None] = []
        introduced: TextPiece | None = None
        dropped_item: TextPiece | None = None
        for piece in found:
            if piece.kind != "code" and piece.is_riddled:
                # Who is said to say what in it cannot be told, so that none of it may pass.
                self._dropped.append(" ".join(piece.text.split())[:RIDDLED_CHARS])
                left.append(None)
                continue
            if dropped_item and (piece.kind == "blank" or _belongs(piece, dropped_item)):
                # What elaborates on an invented request goes with it.
                left.append(piece if piece.kind == "blank" else None)
                continue
            dropped_item = None
            if piece.kind != "blank" and introduced and not _is_under(piece, introduced):
                introduced = None
            new = self._sifted(piece, introduced)
            left.append(new)
            if new is None and piece.kind == "item":
                dropped_item = piece
            is_heading = piece.kind == "heading"
            if new and (is_heading or piece.kind in {"item", "paragraph"}):
                introduced = piece if introduces(piece.text, is_heading=is_heading) else introduced
        return CheckedSummary(_joined(found, left), self._dropped, self._kept)

    def _sifted(self, piece: TextPiece, introduced: TextPiece | None) -> TextPiece | None:
        match piece.kind:
            case "blank" | "heading":
                return piece
            case "code":
                is_theirs = introduced is not None and introduces_words(introduced.text)
                body = "\n".join(piece.lines[1:-1] if len(piece.lines) > 1 else ())
                return piece if not is_theirs or self._look_up(body) else None
            case "quote":
                return self._quoted(piece) if introduced else self._spoken(piece, is_introduced=False)
            case _:
                return self._spoken(piece, is_introduced=introduced is not None)

    def _quoted(self, piece: TextPiece) -> TextPiece | None:
        """A block quote under the person's name: all of it is theirs."""
        body = " ".join(line.strip().lstrip(">").strip() for line in piece.lines).strip(" *_")
        marks = quotations(body)
        inside = marks[0].words if marks and marks[0].start == 0 else body
        return piece if self._look_up(inside) else None

    def _spoken(self, piece: TextPiece, *, is_introduced: bool) -> TextPiece | None:
        text = piece.text
        if turn := turn_words(text[piece.start :]):
            marks = quotations(turn)
            is_whole = bool(marks) and marks[0].start == 0
            return piece if self._look_up(marks[0].words if is_whole else turn) else None
        if not all(self._look_up(words) for words in tagged(text)):
            return None
        marks = quotations(text)
        theirs = attributed(text, marks)
        if is_introduced and marks and not re.search(r"\w", text[piece.start : marks[0].start]):
            theirs = [marks[0], *(one for one in theirs if one is not marks[0])]
        bad = [one.start for one in theirs if not self._look_up(one.words)]
        spans = list(sentences(text, marks))
        masked = blanked(text, marks)
        for a, b in spans:
            # A turn can stand inside a paragraph, too.
            plain = unquoted(masked[a:b]) or (a > piece.start and turn_words(masked[a:b]))
            if plain and not self._look_up(plain):
                bad.append(a)
        if not bad:
            return piece
        kept = "".join(text[a:b] for a, b in spans if not any(a <= place < b for place in bad))
        head = text[: piece.start]
        body = kept.removeprefix(head).strip()
        # Nothing is left of a piece that would be a mark and a label only.
        return (
            None if _LABEL_ONLY.fullmatch(body) else TextPiece(piece.kind, tuple((head + body).split("\n")))
        )

    def _look_up(self, quotation: str) -> bool:
        if self._log.holds(quotation):
            self._kept += 1
            return True
        self._dropped.append(" ".join(quotation.split()))
        return False


def _is_under(piece: TextPiece, introduced: TextPiece) -> bool:
    """Whether a piece still is what an earlier one announced."""
    if piece.is_riddled:
        return False
    if piece.kind in {"item", "quote", "code"}:
        return piece.indent > introduced.indent or introduced.kind != "item"
    marks = quotations(piece.text)
    return piece.kind == "paragraph" and bool(marks) and marks[0].start <= piece.start


def _belongs(piece: TextPiece, item: TextPiece) -> bool:
    return piece.kind != "heading" and piece.indent > item.indent


def _joined(found: list[TextPiece], left: list[TextPiece | None]) -> str:
    """The text again; an introduction whose whole list went goes, too."""
    for place in reversed(range(len(found))):
        piece = found[place]
        if left[place] is None or piece.kind not in {"item", "paragraph"}:
            continue
        below = _announced(found, place)
        if below and introduces(piece.text, is_heading=False) and all(left[one] is None for one in below):
            left[place] = None
    lines = [line for piece in left if piece is not None for line in piece.lines]
    text = "\n".join(lines)
    is_whole = len(lines) == sum(len(piece.lines) for piece in found)
    return text if is_whole else re.sub(r"\n{3,}", "\n\n", text).strip("\n")


def _announced(found: list[TextPiece], place: int) -> list[int]:
    below: list[int] = []
    for later in range(place + 1, len(found)):
        if found[later].kind == "blank":
            continue
        if not _is_under(found[later], found[place]):
            break
        below.append(later)
    return below


def _plain(text: str) -> str:
    """White space as one blank, every kind of quotation mark as one."""
    return " ".join(_QUOTES.sub("'", text).split())


def _in_order(parts: Sequence[str], said: str) -> bool:
    at = 0
    for part in parts:
        found = _found(part, said, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _found(part: str, said: str, start: int = 0) -> int:
    """Where whole words stand, from a place on; part of a word is another word."""
    at = said.find(part, start)
    while at >= 0:
        end = at + len(part)
        is_cut_before = at > 0 and _is_word(said[at - 1]) and _is_word(part[0])
        is_cut_behind = end < len(said) and _is_word(said[end]) and _is_word(part[-1])
        if not (is_cut_before or is_cut_behind):
            return at
        at = said.find(part, at + 1)
    return -1


def _is_word(char: str) -> bool:
    return _LATIN.match(char) is not None


def _says_something(part: str) -> bool:
    return len(part.split()) >= MIN_PART_WORDS or (len(part) >= MIN_PART_CHARS and not part.isascii())


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
"""Phrases about users in general, which are not speech."""
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
"""Actions with a program, whose output follows."""
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
    """Decide by the text before and after it in its sentence."""
    before = _QUOTED_LABEL.split(before)[-1]
    is_direct = _DIRECT.search(before) is not None
    is_spoken = _SPOKEN.search(before) is not None or len(one.words.split()) >= PROSE_WORDS
    if one.is_code and not (is_direct and is_spoken):
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


def _only_names(before: str, one: Quotation) -> bool:
    """Whether the quotation stands for a thing that is talked about, or for what a program printed."""
    if _OUTPUT.search(before):
        return True
    is_short = len(one.words.split()) <= PROSE_WORDS
    is_code = " " not in one.words and re.search(r"[/_.()<>=\-]|[a-z][A-Z]", one.words) is not None
    return is_code or (is_short and _NAMES.search(before) is not None)


def _last_sentence(text: str) -> str:
    return re.split(r"[.!?]\s+(?=\S)|[。！？]|\n", text)[-1]
