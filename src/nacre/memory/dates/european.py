"""Rules for relative dates in German, French and Spanish; a week begins on Monday.

A weekday after a word such as `bis`, `avant` or `antes del` is the next one. Alone it may be the last or
every one, so that it stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date

from nacre.memory.dates import calendar
from nacre.memory.dates.calendar import DAYS_PER_WEEK, DateRule, ReferenceDate, Renderer

MAX_COUNT = 1_000
"""Larger counts of days, weeks or months are not resolved."""
LOOK_BACK = 60
"""Characters before a date that are searched for the tense of the sentence."""

_RANGE = r"(?:bis|und|oder|au|à|et|ou|a|al|y|o|-|–|/)"
"""Words between two weekdays that together mean several days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DateWords:
    """The words of a language that dates are made of, as patterns."""

    days: Mapping[str, int]
    weekdays: tuple[str, ...]
    """From Monday on."""
    due: str
    """Words before a weekday that mean the next one; they stay."""
    next_weekday: str
    """With WEEKDAY for the name; `next` may mean this week or the following one."""
    this_weekday: str
    last_weekday: str
    numbers: Mapping[str, int]
    units: Mapping[str, str]
    """Pattern of `day`, `week` and `month`."""
    later: str
    """With COUNT for number and unit."""
    ago: str
    periods: tuple[tuple[str, str, int], ...]
    """Pattern, `week` or `month`, and how many of them later."""
    month_end: str
    next_month_end: str
    repeated: str
    """What makes a weekday every one: before it."""
    past: str
    """Words that put the clause before a date into the past."""
    around: str
    on: str
    """Before a day that had no preposition."""
    week_of: str
    vague: str


GERMAN = DateWords(
    days={"vorgestern": -2, "gestern": -1, "heute": 0, "morgen": 1, "übermorgen": 2},
    weekdays=("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag|sonnabend", "sonntag"),
    due=r"bis(?: spätestens| zum| nächsten| kommenden)?|spätestens(?: am)?|vor|ab(?: dem)?",
    next_weekday=r"(?:am )?(?:nächste[nrs]?|kommende[nrs]?) WEEKDAY",
    this_weekday=r"(?:an )?diese[nmrs]? WEEKDAY",
    last_weekday=r"(?:am )?(?:letzte[nrs]?|vergangene[nrs]?|vorige[nrs]?) WEEKDAY",
    numbers={
        "eine[rnm]?": 1,
        "zwei": 2,
        "drei": 3,
        "vier": 4,
        "fünf": 5,
        "sechs": 6,
        "sieben": 7,
        "acht": 8,
        "neun": 9,
        "zehn": 10,
        "zwölf": 12,
    },
    units={"day": "tag(?:en?)?", "week": "wochen?", "month": "monat(?:en?)?"},
    later=r"in COUNT",
    ago=r"vor COUNT",
    periods=(
        (r"(?:in der )?(?:nächste[rn]?|kommende[rn]?) woche", "week", 1),
        (r"(?:in )?diese[r]? woche", "week", 0),
        (r"(?:in der )?(?:letzte[rn]?|vorige[rn]?) woche", "week", -1),
        (r"(?:im )?(?:nächsten?|kommenden?) monat", "month", 1),
        (r"(?:in )?diese[nm] monat", "month", 0),
        (r"(?:im )?(?:letzten|vorigen) monat", "month", -1),
    ),
    month_end=r"(?:am |zum )?(?:ende (?:des|dieses|diesen) monats|monatsende)",
    next_month_end=r"(?:am |zum )?ende (?:des )?(?:nächsten|kommenden) monats",
    repeated=r"jede[nrsm]?|immer|meist|meistens|nur|nie",
    past=r"war|waren|wurden?|hatten?|ging|kam|haben|hat|ist .*ge\w+t|gestern|letzte\w*",
    around="um den",
    on="am",
    week_of="in der Woche vom",
    vague=r"(?:heute|gestern|morgen) (?:morgen|früh|vormittag|mittag|nachmittag|abend|nacht)|neulich"
    r"|vor kurzem|vor einigen (?:tagen|wochen)|in ein paar (?:tagen|wochen|monaten)",
)
FRENCH = DateWords(
    days={"avant-hier": -2, "hier": -1, "aujourd['’]hui": 0, r"(?<!après-)demain": 1, "après-demain": 2},
    weekdays=("lundi", "mardi(?! gras)", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"),
    due=r"avant|d['’]ici(?: à)?|jusqu['’](?:à|au)|à partir de|dès|pour|au plus tard",
    next_weekday=r"(?:le )?WEEKDAY prochain",
    this_weekday=r"ce WEEKDAY",
    last_weekday=r"(?:le )?WEEKDAY dernier",
    numbers={
        "une?": 1,
        "deux": 2,
        "trois": 3,
        "quatre": 4,
        "cinq": 5,
        "six": 6,
        "sept": 7,
        "huit": 8,
        "neuf": 9,
        "dix": 10,
        "quinze": 15,
    },
    units={"day": "jours?", "week": "semaines?", "month": "mois"},
    later=r"dans COUNT",
    ago=r"il y a COUNT",
    periods=(
        (r"(?:la )?semaine prochaine", "week", 1),
        (r"cette semaine", "week", 0),
        (r"(?:la )?semaine derni[èe]re", "week", -1),
        (r"(?:le )?mois prochain", "month", 1),
        (r"ce mois(?:-ci)?", "month", 0),
        (r"(?:le )?mois dernier", "month", -1),
    ),
    month_end=r"(?:à )?(?:la )?fin (?:du|de ce) mois(?! prochain| dernier)",
    next_month_end=r"(?:à )?(?:la )?fin du mois prochain",
    repeated=r"le|les|chaque|tous les|toujours",
    past=r"étai\w+|avai\w+|ét[ée]|(?:a|ont|avons) \w+[éuit]s?|hier|derni\w+",
    around="vers le",
    on="le",
    week_of="dans la semaine du",
    vague=r"récemment|il y a (?:quelques|plusieurs) (?:jours|semaines|mois)|dans (?:quelques|plusieurs)"
    r" (?:jours|semaines|mois)",
)
SPANISH = DateWords(
    days={
        "anteayer": -2,
        "ayer": -1,
        "hoy": 0,
        r"(?<!la )(?<!esta )(?<!cada )(?<!una )(?<!media )(?<!pasado )mañana": 1,
        "pasado mañana": 2,
    },
    weekdays=("lunes", "martes", "mi[ée]rcoles", "jueves", "viernes", "s[áa]bado", "domingo"),
    due=r"antes del?|hasta el|para el|a partir del?|a más tardar el",
    next_weekday=r"(?:el )?(?=próximo|\w+ (?:que viene|próximo))(?:próximo )?WEEKDAY(?: que viene| próximo)?",
    this_weekday=r"este WEEKDAY",
    last_weekday=r"el (?=pasado|\w+ pasado)(?:pasado )?WEEKDAY(?: pasado)?",
    numbers={
        "una?": 1,
        "dos": 2,
        "tres": 3,
        "cuatro": 4,
        "cinco": 5,
        "seis": 6,
        "siete": 7,
        "ocho": 8,
        "nueve": 9,
        "diez": 10,
        "quince": 15,
    },
    units={"day": "días?", "week": "semanas?", "month": "mes(?:es)?"},
    later=r"(?:dentro de|en) COUNT",
    ago=r"hace COUNT",
    periods=(
        (r"la (?:próxima semana|semana (?:que viene|próxima))", "week", 1),
        (r"esta semana", "week", 0),
        (r"la semana pasada", "week", -1),
        (r"el (?:próximo mes|mes (?:que viene|próximo))", "month", 1),
        (r"este mes", "month", 0),
        (r"el mes pasado", "month", -1),
    ),
    month_end=r"(?:a |al )?(?:fin(?:es|al)?|finales) (?:de|del|de este) mes(?! que viene| próximo| pasado)",
    next_month_end=r"(?:a |al )?(?:fin(?:es|al)?|finales) (?:del próximo mes|del mes (?:que viene|próximo))",
    repeated=r"los|cada|todos los|siempre|nunca",
    past=r"era|fue|fueron|había|hubo|\w+(?:ó|aron|ieron)|ayer|pasad\w+",
    around="hacia el",
    on="el",
    week_of="en la semana del",
    vague=r"recientemente|hace (?:poco|(?:algunos|unos|varios) (?:días|meses)"
    r"|(?:unas|algunas|varias) semanas)",
)


def _rules(words: DateWords) -> Iterator[DateRule]:
    weekday = rf"(?P<weekday>{'|'.join(words.weekdays)})"
    numbers = "|".join(words.numbers)
    units = "|".join(f"(?P<{unit}>{pattern})" for unit, pattern in words.units.items())
    count = rf"(?P<count>\d{{1,4}}|{numbers})\s+(?:{units})"

    names = "|".join(words.weekdays)
    every = re.compile(rf"(?<!\w)(?:{words.repeated}|(?:{names})\s*{_RANGE}?)\s*$", re.IGNORECASE)
    to_another = re.compile(rf"\s*{_RANGE}\s*(?:{names})", re.IGNORECASE)

    def is_once(match: re.Match[str], text: str) -> bool:
        """`jeden Freitag` and `Montag bis Freitag` are no single day."""
        before = text[max(0, match.start() - LOOK_BACK) : match.start()]
        return (
            _is_separate(match, text) and not every.search(before) and not to_another.match(text, match.end())
        )

    for name, days in words.days.items():
        yield _rule(name, _on_day(words, days), _is_adverb)
    for pattern, find in (
        (words.next_weekday, calendar.next_weekday),
        (words.this_weekday, calendar.this_weekday),
        (words.last_weekday, calendar.last_weekday),
    ):
        yield _rule(_spaced(pattern).replace("WEEKDAY", weekday), _on_weekday(words, find))
    yield _rule(rf"(?P<lead>{_spaced(words.due)})(?P<gap>\s+){weekday}", _due(words), is_once)
    yield _rule(weekday, _unresolved, is_once)
    yield _rule(_spaced(words.later).replace("COUNT", count), _shifted(words, 1))
    yield _rule(_spaced(words.ago).replace("COUNT", count), _shifted(words, -1))
    for pattern, unit, number in words.periods:
        yield _rule(_spaced(pattern), _period(words, unit, number))
    yield _rule(_spaced(words.month_end), _month_end(words, 0))
    yield _rule(_spaced(words.next_month_end), _month_end(words, 1))
    yield _rule(_spaced(words.vague), _unresolved)


def _rule(
    pattern: str, render: Renderer, fits: Callable[[re.Match[str], str], bool] | None = None
) -> DateRule:
    return DateRule(re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE), render, fits or _is_separate)


def _spaced(pattern: str) -> str:
    return pattern.replace(" ", r"\s+")


def _is_separate(match: re.Match[str], text: str) -> bool:
    """Whether no character joins a match to another word: `morgen` of `Morgen-Meeting`."""
    before = text[max(0, match.start() - 1) : match.start()]
    return before not in {"-", "/", "_", "#", "@", "\x00"} and text[match.end() : match.end() + 1] not in {
        "-",
        "/",
        "_",
        "\x00",
    }


def _is_adverb(match: re.Match[str], text: str) -> bool:
    """Whether `Morgen` begins a sentence or is written small: else it is the morning."""
    starts = not re.search(r"[^.!?:\n\s]\s*$", text[: match.start()])
    return _is_separate(match, text) and (match[0] != "Morgen" or starts)


def _on_day(words: DateWords, days: int) -> Renderer:
    def render(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
        return _with_preposition(words, calendar.add_days(reference, days), match, text)

    return render


def _on_weekday(words: DateWords, find: Callable[[ReferenceDate, int], date | None]) -> Renderer:
    def render(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
        return _with_preposition(words, find(reference, _weekday_number(words, match)), match, text)

    return render


def _due(words: DateWords) -> Renderer:
    """`bis Freitag`: the next one, unless today is Friday or the clause is in the past tense."""

    def render(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
        weekday = _weekday_number(words, match)
        if weekday == reference.day.weekday() or not reference.is_day_certain or _is_past(words, match, text):
            return None
        return f"{match['lead']}{match['gap']}{calendar.coming_weekday(reference, weekday).isoformat()}"

    return render


def _shifted(words: DateWords, sign: int) -> Renderer:
    def render(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
        number = _number(words, match["count"]) * sign
        if not 0 < abs(number) <= MAX_COUNT or (sign > 0 and _is_past(words, match, text)):
            return None
        if match["month"]:
            found = calendar.add_months(reference, number)
            return f"{words.around} {found[0]}-{found[1]:02}" if found else None
        day = calendar.add_days(reference, number * (DAYS_PER_WEEK if match["week"] else 1))
        if match["week"]:
            return f"{words.around} {day.isoformat()}" if day else None
        return _with_preposition(words, day, match, text)

    return render


def _period(words: DateWords, unit: str, number: int) -> Renderer:
    def render(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
        if unit == "week":
            monday = calendar.monday_of_week(reference, number)
            return f"{words.week_of} {monday.isoformat()}" if monday else None
        found = calendar.add_months(reference, number)
        return f"{found[0]}-{found[1]:02}" if found else None

    return render


def _month_end(words: DateWords, months: int) -> Renderer:
    def render(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
        found = calendar.add_months(reference, months)
        if found is None or _is_past(words, match, text):
            return None
        return _with_preposition(words, calendar.month_end(*found), match, text)

    return render


def _unresolved(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    return None


def _with_preposition(words: DateWords, day: date | None, match: re.Match[str], text: str) -> str | None:
    """Return a day, with a preposition unless one precedes it."""
    if day is None:
        return None
    before = re.findall(r"[\w'’]+", text[max(0, match.start() - LOOK_BACK) : match.start()])
    has_preposition = bool(before) and before[-1].lower() in _PREPOSITIONS
    return day.isoformat() if has_preposition else f"{words.on} {day.isoformat()}"


def _is_past(words: DateWords, match: re.Match[str], text: str) -> bool:
    clause = re.split(r"[.!?;,\n]", text[max(0, match.start() - LOOK_BACK) : match.start()])[-1]
    return bool(re.search(rf"(?<!\w)(?:{words.past})(?!\w)", clause, re.IGNORECASE))


def _weekday_number(words: DateWords, match: re.Match[str]) -> int:
    name = match["weekday"]
    return next(n for n, one in enumerate(words.weekdays) if re.match(rf"(?:{one})$", name, re.IGNORECASE))


def _number(words: DateWords, word: str) -> int:
    if word.isdigit():
        return int(word)
    return next(number for one, number in words.numbers.items() if re.fullmatch(one, word, re.IGNORECASE))


_PREPOSITIONS = frozenset(
    "bis am ab zum vor seit spätestens nach vom le la dès pour avant ici à au del el de hasta para a".split()
)
RULES: tuple[DateRule, ...] = tuple(rule for words in (GERMAN, FRENCH, SPANISH) for rule in _rules(words))
