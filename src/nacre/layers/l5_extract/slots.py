"""Facts of which one holds at a time, such as where the user lives (M14c)."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LEAD = r"^(?:(?:and|so|well|actually|hi|hello|btw|by the way|no)[,.]? )*"
_END = (
    r"(?:,? (?:now|currently|these days|again|by the way|btw|actually|last (?:week|month|year)"
    r"|(?:in|on|since|around)(?: the week of)? [\w -]*\d{4}[\d-]*))*[.!。！ ]*$"
)
_VALUE = r"[\w'’.&-]+(?: [\w'’.&-]+){0,3}?"
_NO_PLACE = (
    r"(?!(?:fear|hope|dread|denial|terror|constant|peace|harmony|sin|a|an|the|my|our|your|this|that|here"
    r"|there|vim"
    r"|emacs|tmux|slack|jira|excel|meetings|hell|it|production|prod|staging|main|src)\b)"
)

SLOTS: Mapping[str, tuple[re.Pattern[str], re.Pattern[str], str]] = {
    "Where the user lives": (
        re.compile(
            rf"{_LEAD}(?:I(?:['’]?m| am|['’]ve| have|['’]?ve)?|we(?:['’]re)?) (?:now |currently |just "
            rf"|recently )?"
            rf"(?:live|living|lived|reside|moved|based|relocated) (?:in|to) {_NO_PLACE}{_VALUE}{_END}"
            r"|^我们?(?:现在|目前|又|已经|刚|上个?月|上周)?(?:住在|搬到|搬去)了?(?!公司|这|那|代码"
            r"|文件)[^，。,.；;？?]{2,8}?(?<!算)(?<!得)了?[。！]*$",
            re.IGNORECASE,
        ),
        re.compile(
            rf"\bI(?:['’]?m)? (?:now )?(?:live|living|based) in {_NO_PLACE}|我(?:现在)?(?:住在|搬到)(?!公司)",
            re.IGNORECASE,
        ),
        "home",
    ),
    "The user's name": (
        re.compile(
            rf"{_LEAD}(?:my name(?:['’]?s| is)|I(?:['’]m| am) called) {_VALUE}{_END}"
            r"|^我(?:叫|的名字(?:是|叫))[^，。,.；;？?]{1,8}[。！]*$",
            re.IGNORECASE,
        ),
        re.compile(
            r"\bmy name(?:['’]?s| is)\b|\bI(?:['’]m| am) called\b|我叫|我的名字(?:是|叫)", re.IGNORECASE
        ),
        "name",
    ),
    "Where the user works": (
        re.compile(
            rf"{_LEAD}I(?:['’]?m| am)? (?:now |currently )?(?:work|working|employed) (?:at|for) (?!home\b"
            rf"|it\b|me\b|this\b)"
            rf"{_VALUE}{_END}|^我(?:现在|目前)?在[^，。,.；;？?]{{2,12}}(?:工作|上班)[了。！]*$"
            r"|^我(?:现在|已经)?(?:搬到|调到|换到|去)了?[^，。,.；;？?]{2,12}(?:工作|上班)[了，,现在\u4e00-\u9fff。！]{0,10}$",
            re.IGNORECASE,
        ),
        re.compile(
            r"\bI(?:['’]?m)? (?:now )?work(?:ing)? (?:at|for)\b|我(?:现在)?在[^，。,.]{1,15}(?:工作|上班)",
            re.IGNORECASE,
        ),
        "employer",
    ),
    "The user's birthday": (
        re.compile(
            rf"{_LEAD}my birthday(?:['’]?s| is)(?: on)? {_VALUE}{_END}|^我的?生日(?:是"
            rf"|在)[^，。,；;？?]{{2,12}}$",
            re.IGNORECASE,
        ),
        re.compile(r"\bmy birthday\b|我的?生日", re.IGNORECASE),
        "birthday",
    ),
    "The user's time zone": (
        re.compile(
            rf"{_LEAD}my time ?zone(?:['’]?s| is) {_VALUE}{_END}|^我的?时区是?[^，。,；;？?]{{2,12}}$",
            re.IGNORECASE,
        ),
        re.compile(r"\bmy time ?zone\b|我的?时区", re.IGNORECASE),
        "time zone",
    ),
}
"""By title: a statement of this and nothing else, one that mentions it, the subject in a file name."""


def slot_of(text: str) -> str:
    """Return the title of the one memory that a statement belongs to; empty if it says anything else."""
    return next((title for title, (whole, _, _) in SLOTS.items() if whole.search(text)), "")
