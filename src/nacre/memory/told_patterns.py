"""Patterns of credentials that are told in words (M16), compiled from the words in `data/told_secrets.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from nacre.prompts import packaged_file

PATH_OR_ADDRESS = re.compile(
    r"(?<![\w/.])[a-z_-]{1,40}(?:/[a-z_-]{1,40}){1,12}(?:\.[a-z]{2,4})?(?![\w/])|https?://\S{1,200}"
)
"""Their words say nothing about a value beside them."""
_DENSE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_END = r"(?=[.!?。！]?\s*$)"
_WORD = r"[^\s,;:。，、\"'\0\[\]()<>{}]"
_VALUE = rf"(?P<value>{_WORD}{{4,40}}?)(?=[.!?。]?\s*$|[.!]\s)"
_QUOTES = ('"', "“", "„", "«", "「", "『")
_QUOTED = (
    r"[\"“„«「『]\s?(?P<value>[^\n\"”“»」』\0]{3,80})\s?[\"”“»」』]"
    r"(?=[\s.,;!?)]*$|[.,;!?)]|\s(?:to|and|if|when|for|um|und|pour|et|para|y)\s)"
)
_Table = dict[str, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldRule:
    """A way in which a value is told."""

    regex: re.Pattern[str]
    keys: tuple[str, ...]
    """Each line with a match has one of these lower-case strings; empty for no such condition."""
    signs: str = ""
    """And one of these characters."""
    judge: str
    """What decides about a match: "opens" (a word beside it for what it opens), "said" (or for an account), "word", "phrase", "named" (a phrase
    in a line about access), "access" (a word in such a line), "quoted" or "any"."""
    has_case: bool = False
    """The regex is for the text as it is written; the others are for the text in lower case."""
    is_stated: bool = False
    """A line with a rule for passwords, such as "at least", has no value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldPatterns:
    """The rules, and the words that decide."""

    rules: tuple[ToldRule, ...]
    opens: re.Pattern[str]
    """Credentials and locks."""
    signs_in: re.Pattern[str]
    """Acts and services for which one has a password."""
    rule_words: re.Pattern[str]
    """What a password must be like, or a place of the product that asks for it."""
    reference: frozenset[str]
    """Words of a phrase that says where a credential is or what became of it."""
    soft: frozenset[str]
    """Words that a phrase may have behind a colon, but not at its start."""
    joiners: re.Pattern[str]
    """What is between an act and a value in quotation marks."""
    screens: re.Pattern[str]
    """What a program shows, and what has a name, before quotation marks."""


@cache
def told_patterns() -> ToldPatterns:
    """Return the compiled table."""
    table: _Table = json.loads(packaged_file("nacre.memory", "data/told_secrets.json"))
    return ToldPatterns(
        rules=(
            *_in_words(table),
            *_described(table),
            *_phrases(table),
            *_beside_users(table),
            *_others(table),
        ),
        opens=re.compile(f"{_any_of(table['labels'])}|{_any_of(table['opens'])}"),
        signs_in=re.compile(_any_of(table["signs_in"])),
        rule_words=re.compile(_any_of(table["rules"])),
        reference=frozenset(table["reference"]),
        soft=frozenset(table["soft"]),
        joiners=re.compile(rf"[:=：]\s*$|(?:^|[\s\"'])(?:{_either(table['joiners'])})\s*$"),
        screens=re.compile(_any_of(table["screens"])),
    )


def _either(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


def _any_of(words: Iterable[str]) -> str:
    """Return a pattern for these words; Latin ones start where a word starts."""
    dense = [word for word in words if _DENSE.search(word)]
    latin = [word for word in words if word not in dense]
    return "|".join([rf"(?<![a-zà-ÿ_])(?:{_either(latin)})(?![a-zà-ÿ])", *dense])


def _rule(
    regex: str,
    keys: Sequence[str],
    judge: str,
    *,
    has_case: bool = False,
    is_stated: bool = False,
    signs: str = "",
) -> ToldRule:
    compiled = re.compile(regex, re.IGNORECASE if has_case else 0)
    return ToldRule(
        regex=compiled, keys=tuple(keys), judge=judge, has_case=has_case, is_stated=is_stated, signs=signs
    )


def _in_words(table: _Table) -> tuple[ToldRule, ...]:
    """Return the rules for values that are spelled: digits, letters, turns, directions."""
    digit = rf"(?:(?:{_either(table['digits'])})(?![a-zà-ÿ])|\d)"
    gap = r"(?:\s?[-,，、/]\s?|\s)(?:(?:then|and|dann|und|puis|et|y|luego|the|die|el|le|la)\s){0,2}"
    times = rf"(?:{_either(table['times'])})\s(?:(?:the|die|le|la|el|a)\s)?"
    star = _either(table["star"])
    side = rf"(?:{_either(table['directions'])})(?![a-zà-ÿ])"
    way = (
        r"(?:(?:and\s)?then|to|and|down|nach|(?:runter\s)?und(?:\sdann)?|dann|puis|vers|luego|hacia)\s"
        r"(?:(?:the|la|le|el)\s)?"
    )
    number = r"(?<![\d.,])\d{1,2}(?![\d.,%€])"
    kana = "よん|いち|に|さん|し|ご|ろく|なな|しち|はち|きゅう|く|ぜろ|れい|まる|ゼロ"
    return (
        _rule(
            rf"(?<![a-zà-ÿ\d])(?P<value>(?:{times})?(?:{_either(table['digits'])})(?:{gap}(?:{times})?{digit}){{2,9}})",
            table["digit_keys"],
            "said",
        ),
        _rule(
            rf"(?<![a-zà-ÿ])(?P<value>{times}{digit}(?:{gap}(?:{times})?(?:{digit}|\d\d)){{0,4}})",
            table["times_keys"],
            "said",
        ),
        _rule(
            r"(?<![\w'’-])(?P<value>\w(?:\s(?:comme|wie|as in|like|como|for)\s\w+)?(?:\s?[-,]\s?|\s)"
            r"(?:\w(?:\s(?:comme|wie|as in|like|como|for)\s\w+)?(?:\s?[-,]\s?|\s)){3,15}\w)(?![\w'’-])",
            [],
            "opens",
        ),
        _rule(
            r"(?P<value>[〇零一二三四五六七八九幺]{4,8})(?![年月日号个十百千万亿点分天次人])",
            "零一二三四五六七八九幺",
            "said",
        ),
        _rule(
            r"(?P<value>[两二三四五六七八九十\d]个[〇零一二三四五六七八九\d](?![\u4e00-\u9fff]))",
            ["个"],
            "opens",
        ),
        _rule(rf"(?P<value>(?:{kana}){{4,8}})(?![ぁ-ん]{{2}})", kana.split("|"), "said"),
        _rule(r"(?<![\d.\[(])(?P<value>\d(?:\s?[、，,]\s?\d){2,7})(?![\d.%\])])", "、，,", "opens"),
        _rule(
            r"(?<![\w.])(?P<value>(?:\d\s){1,4}[a-f](?:\s\d){1,4}|[a-f]\s\d{1,2}(?:\s\d{1,2}){1,4}"
            r"|\d{1,2}(?:\s\d{1,2}){1,5}\s[a-f])(?![\w.])",
            [],
            "opens",
        ),
        _rule(
            rf"(?<![a-zà-ÿ])(?P<value>(?:{star})(?:\s?\d){{3,8}}(?:\s(?:{star}))?)",
            [word.replace("\\", "") for word in table["star"]],
            "opens",
        ),
        _rule(
            rf"(?:{_any_of(table['swiped'])})[^\n]{{0,40}}?(?<![a-zà-ÿ])"
            rf"(?P<value>{side}(?:(?:\s?[-,、→>]\s?|\s|再?到|から|に)(?:{way})?{side}){{1,9}})",
            table["swiped_keys"],
            "any",
        ),
        _rule(
            rf"(?:{_any_of(table['dials'])})(?=[^\n]{{0,60}}(?:{_any_of(table['turns'])}))[^\n]{{0,60}}?"
            rf"(?P<value>{number}(?:[^\n.\d\"]{{1,30}}{number}){{1,4}})",
            table["turns_keys"],
            "any",
        ),
        _rule(
            rf"(?:{_any_of(table['swiped'])}|entsperr\w*|unlocks?|解锁)[^\n]{{0,40}}?(?P<value>(?:画(?:一个|个)?|draw(?:ing)? an?\s"
            r"|einem\s|un\s|(?:forme|forma)\s(?:de|d['’]un)\s)(?-i:[A-Z])(?![A-Za-z'’])|(?-i:[A-Z])(?:の形|字形?))",
            [*table["swiped_keys"], "entsperr", "unlock", "解锁"],
            "any",
            has_case=True,
        ),
    )


def _described(table: _Table) -> tuple[ToldRule, ...]:
    """Return the rules for a value that is described: "capital B", "the name of my dog"."""
    is_ = _either(table["is"])
    context = "|".join(_any_of(table[name]) for name in ("labels", "signs_in", "opens"))
    return (
        _rule(
            rf"(?:{context})[^\n.:;?!。：；？！]{{0,60}}?(?::\s|,\s|[：は是]|\s(?:{is_})\s|\s?\?\s|\s(?:{_either(table['takes'])})\s)"
            rf"(?P<value>[^\n:\0]{{0,60}}(?:{_any_of(table['described'])})[^\n.\0]{{0,60}})",
            table["described_keys"],
            "any",
            is_stated=True,
        ),
        _rule(
            rf"(?:{is_}|mit|with|avec|con|[:：])\s(?:my|mein\w{{0,2}}|mon|ma|mi|the|die|das|der|dem)\s[^\n\d]{{0,30}}?"
            rf"(?:{_either(table['known_numbers'])})[^\n\d]{{0,30}}(?P<value>\d{{3,8}})(?![\d.,%])",
            table["known_numbers"],
            "opens",
        ),
        _rule(
            rf"(?:(?:{_either(table['known_names'])})\s?\w{{0,12}}|(?:my|our|mein\w*|unser\w*|mon|ma|notre|mi|nuestr\w)\s(?:\w+\s){{0,2}}"
            rf"(?:{_either(table['known_things'])})),\s(?P<value>(?-i:[A-ZÀ-Þ])[^\n]{{3,40}}?)(?=[.!]?\s*$)",
            [*table["name_keys"], *table["known_things"]],
            "opens",
            has_case=True,
        ),
        _rule(
            rf"(?:{_any_of(table['questions'])})[^\n]{{0,70}}?(?:[:：,]|(?:{_either(table['called'])}))\s"
            rf"(?P<value>(?-i:[A-ZÀ-Þ])[\w'’-]{{1,20}}(?:\s(?-i:[A-ZÀ-Þ])[\w'’-]{{1,20}}){{0,2}}){_END}",
            table["question_keys"],
            "word",
            has_case=True,
        ),
        _rule(
            r"[\"“„«](?P<value>[^\n\"”“»]{3,40})[\"”“»]\s[^\n]{0,20}(?:answer|antwort|réponse|respuesta)\s"
            r"[^\n]{0,24}(?:question|frage|pregunta)",
            ["question", "frage", "pregunta"],
            "any",
        ),
    )


def _phrases(table: _Table) -> tuple[ToldRule, ...]:
    """Return the rules for values of plain words."""
    label, is_ = _any_of(table["labels"]), _either(table["is"])
    to_end = r"(?=[.!?。！]?\s*$|[.!]\s|[;,]\s(?:and|und|et|y)\s)"
    latin = r"[^\n.:;\0“”\"«»「」]"
    keys = table["label_keys"]
    return (
        # "passphrase for the laptop: the owl flies at midnight"
        _rule(
            rf"(?:{label})(?:\s{latin}{{0,60}}?)?(?P<mark>\s?[:：=]\s)(?P<value>{latin}{{4,80}}){to_end}",
            keys,
            "phrase",
            is_stated=True,
            signs=":：=",
        ),
        # "la clave del portátil es ventana abierta 7"
        _rule(
            rf"(?:{label})(?:\s{latin}{{0,60}}?)?(?:,?\s(?:{is_}))\s(?P<value>{latin}{{4,60}}){to_end}",
            keys,
            "phrase",
            is_stated=True,
        ),
        _rule(rf"(?:{label})\s?[:：=]\s?{_QUOTED}", _QUOTES, "quoted", is_stated=True),
        _rule(rf"(?:{label})\s(?=[\"“„«「『]\S+\s){_QUOTED}", _QUOTES, "quoted", is_stated=True),
        # "they join with “loud purple curtains”"
        _rule(
            rf"(?:{label}|{_any_of(table['signs_in'])}|{_any_of(table['opens'])})"
            rf"(?P<between>[^\n\"“„«「.]{{0,40}}){_QUOTED}",
            _QUOTES,
            "quoted",
            is_stated=True,
        ),
        # "the phrase is the geese fly south"
        _rule(
            rf"(?:the|der|la|our|my|unser|mein|notre|ma|mi)\s(?:pass ?)?(?:phrase|sentence|satz|frase)\s(?P<mark>(?:{is_})\s)"
            rf"(?P<value>{latin}{{6,60}}){to_end}",
            ["phrase", "sentence", "satz", "frase"],
            "named",
            is_stated=True,
        ),
        # "“today there is soup” decrypts the backup"
        _rule(
            rf"[\"“„«](?P<value>\w[^\n\"“”»\0]{{3,60}})[\"”“»]\s(?:{_either(table['act_verbs'])})",
            _QUOTES,
            "quoted",
            is_stated=True,
        ),
        # "I use “coffee before talking” to log in"
        _rule(
            rf"[\"“„«](?P<value>\w[^\n\"“”»\0]{{3,60}})[\"”“»]\s(?:to|for|um|für|pour|para)\s[^\n.]{{0,30}}?(?:{_any_of(table['signs_in'])})",
            _QUOTES,
            "quoted",
            is_stated=True,
        ),
        # "wi-fi: the name is casa lopez and the key is verano del 84"
        _rule(
            rf"(?:wi-?fi|wlan)[^\n]{{0,60}}?(?:key|schlüssel|clé|clave)\s?(?:{is_}|[:：])\s(?P<mark>)"
            rf"(?P<value>{latin}{{4,60}}){to_end}",
            ["wifi", "wi-fi", "wlan"],
            "phrase",
        ),
        # "he set the router's password to firefly", "at the hotline I say the password lindenblüte"
        _rule(
            rf"(?:{_any_of(table['set'])})[^\n.]{{0,40}}?(?:{_either(table['pass_nouns'])})\s(?:to|auf|en|a|par|como)\s"
            rf"(?P<value>{latin}{{4,60}}){to_end}",
            keys,
            "phrase",
            is_stated=True,
        ),
        _rule(
            rf"(?:{_any_of(table['say'])})\s(?:\w{{2,5}}\s){{0,2}}(?:{_either(table['pass_nouns'])})\s(?P<value>{_WORD}{{4,30}}){to_end}",
            [*keys, *table["named_keys"]],
            "phrase",
            is_stated=True,
        ),
        # "use the phrase green-apples", "and the word is pelican"
        _rule(
            rf"(?:{_any_of(table['named'])})\s(?:(?:{is_}|:)\s)?[\"“„«]?"
            rf"(?P<value>[^\n.,:;\0\"“”„«»]{{4,50}})(?:(?=[\"“”»])|{to_end})",
            table["named_keys"],
            "named",
            is_stated=True,
        ),
        # 密码是春眠不觉晓, パスフレーズは 夏の夜の夢 です
        _rule(
            rf"(?:{_either(table['dense_labels'])})\s?(?:[是为：:は]|就是|改成了?|=)\s?「?"
            r"(?P<value>[a-z\d]{0,12}[\u3040-\u30ff\u3400-\u9fff]{3,14}\d{0,8})」?(?=\s?(?:です|だよ|だ)?[。.!！]?\s*$)",
            table["dense_labels"],
            "phrase",
            is_stated=True,
        ),
        # "家のWi-Fiは sakura no ki です", "admin 密码 hetang-yuese"
        _rule(
            r"(?:wi-?fi|wlan|无线|無線)(?:的?密码|の鍵)?[は是：:]\s?(?P<value>[a-z]{2,12}(?:[ -][a-z]{2,12}){1,7})"
            r"(?=\s?(?:です|だよ|だ)?[。.]?\s*$)",
            ["fiは", "fi是", "fi：", "密码是", "密码：", "鍵は", "wlan是", "wlanは"],
            "word",
        ),
        _rule(
            r"(?:密码|口令|パスワード)\s(?P<value>[a-z]{2,12}(?:-[a-z]{2,12}){1,7})(?=[。.]?\s*$)",
            table["dense_labels"],
            "word",
        ),
        _rule(r"「(?P<value>[^「」\n]{2,16})」で(?:入|開|ログイン|解除|認証)", ["」で"], "any"),
        _rule(
            r"用[“「\"](?P<value>[^”」\"\n]{2,16})[”」\"](?:来|就|可以|能)?(?:登录|登陆|打开|解锁|进|开)",
            ["用“", "用「", '用"'],
            "any",
        ),
    )


def _beside_users(table: _Table) -> tuple[ToldRule, ...]:
    """Return the rules for the password behind a user."""
    signs_in, users, passes = _any_of(table["signs_in"]), _any_of(table["users"]), _either(table["passes"])
    joins = r"(?:\s(?:&|/|-|–|\||et|and|y|und|with|con|mit|avec)\s|,\s|\s)"
    user_keys = table["user_keys"]
    return (
        # "Facebook: momsname@gmail.com & Sunflowers"
        _rule(
            rf"(?:[:：]|{signs_in})\s?[^\n:@]{{0,30}}?[\w.+-]+@[\w-]+\.[\w.]+\s"
            rf"(?:&|/|-|–|\||(?:et|und|y|and)(?=\s\S*[\d_!#$%&*]))\s{_VALUE}",
            ["@"],
            "word",
            has_case=True,
        ),
        # "u: analytics p: Tea&Scones"
        _rule(
            rf"(?<![a-z])u(?:ser)?\s?[:=]\s?\S+[,;]?\s+p(?:ass|w)?\s?[:=]\s?{_VALUE}",
            ["u:", "u=", "user:", "user=", "u ", "user "],
            "word",
            has_case=True,
        ),
        # "usuario admin, clave zapatilla", "my login is rosa.m and the password poppy"
        _rule(
            rf"(?:{users})[:：]?\s(?:[^\n,;.]{{0,30}}?\s(?:is|ist|est|es)\s)?(?:{_WORD}{{2,40}}){joins}(?:(?:the|das|le|la|el)\s)?(?:{passes})[:：]?\s{_VALUE}",
            user_keys,
            "word",
            has_case=True,
        ),
        _rule(
            rf"(?:login|zugang|accès|acceso|ログイン)[^\n:：]{{0,30}}[:：]\s?{_WORD}{{2,40}},?\s(?:und\s|and\s|et\s|y\s)?"
            rf"(?:dann|then|puis|luego)\s{_VALUE}",
            user_keys,
            "word",
            has_case=True,
        ),
        _rule(
            rf"(?:{users})\s{_WORD}{{2,20}}\s(?:hat|has|a|tiene)\s(?P<value>(?=\w*\d)(?=\w*[a-z])\w{{5,40}}){_END}",
            user_keys,
            "word",
            has_case=True,
        ),
        # "the admin password is empty, that of deploy is barrow"
        _rule(
            rf"(?:celui|celle|das|the one|that|el|la)\s(?:de|von|of|for|für|del)\s{_WORD}{{2,20}}\s(?:est|ist|is|es)\s{_VALUE}",
            ["mdp", "mot de passe", "passwor", "kennwort", "contraseña"],
            "word",
            has_case=True,
        ),
        _rule(
            r"(?<![\w.:/])[a-z][\w.-]{2,30}:(?P<value>(?-i:[A-Z])[a-z]{2,}[_.-](?-i:[A-Z])[a-z]{2,}\d{0,4})(?![\w:/.-])",
            [],
            "access",
            has_case=True,
        ),
        # "account: ferret_king / I<3Verbs", "panel - marta - GoldenRetriever"
        _rule(
            r"(?:account|logins?|cred\w*|konto|zugang\w*|zugangsdaten|compte|identifiants?|accès|cuenta|credencial\w*|acceso|账号"
            r"|アカウント)(?:\s[^\n:：/]{1,30})?\s?[:：]\s?[^\s:/]{2,40}\s/\s"
            r"(?P<value>[^\s\0\[\]]{6,40}?)(?=[.!]?\s*$)",
            [" / "],
            "any",
            has_case=True,
        ),
        _rule(
            r"(?:admin|login|panel|account)[^\n]{0,30}\s[-–]\s[\w.@-]{2,40}\s[-–]\s(?P<value>[^\s\0\[\]]{6,40}?)(?=[.!]?\s*$)",
            [" - ", " – "],
            "any",
            has_case=True,
        ),
    )


def _others(table: _Table) -> tuple[ToldRule, ...]:
    """Return the rules for values for which the words before them are enough."""
    signs_in = _any_of(table["signs_in"])
    return (
        _rule(
            rf"(?<![\w-])x-[\w-]{{0,30}}(?:secret|token|key|auth|pass)[\w-]{{0,20}}:\s?{_VALUE}",
            ["x-"],
            "word",
            has_case=True,
        ),
        # signs between words: "Marigold$Tango"
        _rule(
            rf"(?:[:：/=,，、は是]|(?<![a-z])(?:{_either(table['is'])}|with|mit|avec|con|to|auf))\s?(?P<value>[^\W\d_]{{3,16}}"
            r"[$!%^*&~#?][^\W\d_]{3,16}\d{0,4})(?![\w(:/=])",
            "$!%^*&~#?",
            "access",
            has_case=True,
        ),
        # "the password is blueberry.muffin.morning"
        _rule(
            rf"(?:{_any_of(table['labels'])}|string|word)\s?(?:(?:{_either(table['is'])}|[:：=])\s)?"
            r"(?P<value>[a-z]{3,14}(?:\.(?!(?:com|net|org|io|dev|internal|local|corp|lan|md|json|py|txt|ya?ml|env|toml)(?![a-z]))[a-z]{3,14}){2,4})"
            rf"{_END}",
            table["label_keys"],
            "any",
        ),
        # "backup codes: 48213907 77120465"
        _rule(
            r"(?:backup|recovery|rescue|emergency|one-time|2fa|notfall|wiederherstellungs|ersatz|secours|récupération|respaldo|recuperación)"
            r"[ -]?(?:codes?|keys?|c[oó]digos?)?(?:\s(?:de|of|for|für|pour|para)\s\w+)?[^\n:：]{0,40}[:：]\s?"
            r"(?P<value>(?=[\w-]*\d)[\w-]{4,20}(?:[,;]?\s(?:(?:and|und|et|y)\s)?(?=[\w-]*\d)[\w-]{4,20}){1,11})",
            ["codes", "code", "keys", "códigos", "codigos"],
            "any",
        ),
        # "the notes open with Winter.is.long.2019"
        _rule(
            r"(?:opens?|unlocks?|decrypts?|log\sin|öffnet|geht\sauf|entsperrt|ouvre|abre)\s(?:it\s|up\s)?(?:with|mit|avec|con)\s"
            r"(?P<value>[^\W\d_]{2,12}(?:[._-][^\W\d_]{2,12}){1,6}[._-]?\d{2,4})(?![\w/])",
            [" with ", " mit ", " avec ", " con "],
            "any",
            has_case=True,
        ),
        # "la clave del portal de empleo es Gaviota"
        _rule(
            rf"(?<!palabra )(?<!palabras )clave\s(?:de|del)\s[^\n.:;]{{2,40}}\ses\s(?P<value>(?-i:[A-ZÀ-Þ])[^\n.,:;]{{3,40}}){_END}",
            ["clave "],
            "phrase",
            has_case=True,
        ),
        # 助记词：苹果 桌子 …
        _rule(
            r"(?:助记词|ニーモニック|フレーズ)[^\n]{0,12}?[:：是は]\s?(?P<value>(?:[\u3040-\u30ff\u4e00-\u9fff]{1,5}[\s、，,]\s?){11,23}"
            r"[\u3040-\u30ff\u4e00-\u9fff]{1,5})",
            ["助记词", "ニーモニック", "フレーズ"],
            "any",
        ),
        _rule(rf"(?-i:\bAUTH)\s{_VALUE}", ["auth "], "word", has_case=True),
        _rule(
            rf"(?:{signs_in})[^\n]{{0,50}}\s(?:just|nur|juste|solo)\s(?P<value>(?-i:[A-Z])[a-z]{{4,20}}){_END}",
            ["just ", "nur ", "juste ", "solo "],
            "word",
            has_case=True,
        ),
        # "to sudo you type elephants"
        _rule(
            rf"(?:{signs_in})[^\n]{{0,50}}\s(?:{_either(table['types'])})\s(?:in\s)?(?P<value>[^\W\d_]{{6,30}}){_END}",
            table["type_keys"],
            "word",
            has_case=True,
        ),
        _rule(
            rf"wi-?fi[^\n:：]{{0,40}}[:：]\s?(?P<value>[a-z]{{8,30}}){_END}",
            ["wifi", "wi-fi"],
            "word",
            has_case=True,
        ),
        # words of a wallet with dashes or commas between
        _rule(r"(?<![\w-])(?P<value>(?:[a-z]{3,8}-){11,23}[a-z]{3,8})(?![\w-])", ["-"], "any"),
        _rule(
            rf"(?:{_any_of(table['wallets'])})[^\n]{{0,40}}?[:：]\s?"
            r"(?P<value>(?:[^\W\d_]{3,10}(?:,\s?|\s)){11,23}[^\W\d_]{3,10})(?=\.?\s*$)",
            table["wallet_keys"],
            "any",
        ),
        # a few words that open something
        _rule(
            rf"(?:^|:\s)(?P<value>(?!(?:{_either(table['not_phrase'])})\s)(?:[a-z]{{3,12}}\s){{3,6}}"
            r"(?<!key )(?<!card )(?<!badge )(?<!code ))"
            rf"(?:{_either(table['act_verbs'])})\s",
            [f"{verb} " for verb in table["act_verbs"]],
            "any",
        ),
        # the back of a card
        _rule(
            r"(?:karte|card|carte|tarjeta|卡|カード)[^\n\d]{0,40}(?:hinten|on the back|au dos|derrière|detrás|reverso|背面|裏)"
            r"[^\n\d]{0,12}(?P<value>\d{3,4})(?![\d.,%])",
            ["hinten", "back", "au dos", "derrière", "detrás", "reverso", "背面", "裏"],
            "any",
        ),
        _rule(
            r"(?:key|schlüssel|clé|clave|licen[cs]e|serial)\s?[:：]?\s"
            r"(?P<value>(?-i:(?=[A-Z-]{0,20}\d)[A-Z0-9]{4,6}(?:-[A-Z0-9]{4,6}){2,7}))(?![\w-])",
            ["key", "schlüssel", "clé", "clave", "licen", "serial"],
            "any",
            has_case=True,
        ),
    )
