"""Relative dates become absolute ones, and never wrong ones (E10)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.dates.absolute import full_dates
from nacre.memory.dates.calendar import WEEKDAYS
from nacre.memory.dates.relative import relative_phrases, resolve_dates

THURSDAY = datetime(2024, 5, 2, 9, tzinfo=UTC)
moments = st.integers(min_value=0, max_value=3_600_000_000).map(lambda at: datetime.fromtimestamp(at, UTC))
mornings = moments.map(lambda at: at.replace(hour=9))
zones = st.sampled_from(
    ["UTC", "Asia/Shanghai", "America/New_York", "Pacific/Kiritimati", "Pacific/Pago_Pago"]
)


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("Das muss bis Montag fertig sein.", "Das muss bis 2024-05-06 fertig sein."),
        ("spätestens am Freitag", "spätestens am 2024-05-03"),
        ("Der Freeze beginnt nächsten Montag.", "Der Freeze beginnt am 2024-05-06."),
        ("In zwei Wochen geht es live.", "Um den 2024-05-16 geht es live."),
        ("Vor drei Tagen haben wir umgestellt.", "Am 2024-04-29 haben wir umgestellt."),
        ("Das Zertifikat läuft Ende des Monats ab.", "Das Zertifikat läuft am 2024-05-31 ab."),
        ("bis Monatsende", "bis 2024-05-31"),
        ("bis Ende nächsten Monats", "bis 2024-06-30"),
        ("Nächste Woche bin ich weg.", "In der Woche vom 2024-05-06 bin ich weg."),
        ("Morgen deployen wir, übermorgen nicht.", "Am 2024-05-03 deployen wir, am 2024-05-04 nicht."),
        ("seit gestern krank", "seit 2024-05-01 krank"),
        ("Il faut livrer avant lundi.", "Il faut livrer avant 2024-05-06."),
        ("On livre dans deux semaines.", "On livre vers le 2024-05-16."),
        ("On a migré il y a trois jours.", "On a migré le 2024-04-29."),
        ("On gèle tout fin du mois.", "On gèle tout le 2024-05-31."),
        ("d'ici la fin du mois prochain", "d'ici le 2024-06-30"),
        ("Je pars la semaine prochaine.", "Je pars dans la semaine du 2024-05-06."),
        ("lundi prochain, pas demain", "le 2024-05-06, pas le 2024-05-03"),
        ("Hay que entregar antes del lunes.", "Hay que entregar antes del 2024-05-06."),
        ("Entregamos dentro de dos semanas.", "Entregamos hacia el 2024-05-16."),
        ("hace tres días", "el 2024-04-29"),
        ("El contrato termina a fin de mes.", "El contrato termina el 2024-05-31."),
        ("hasta finales del mes que viene", "hasta 2024-06-30"),
        ("La semana que viene estoy fuera.", "En la semana del 2024-05-06 estoy fuera."),
        ("Mañana no, pasado mañana", "El 2024-05-03 no, el 2024-05-04"),
        ("来週の金曜日にリリースします", "2024-05-10にリリースします"),
        ("月曜までに提出してください", "2024-05-06までに提出してください"),
        ("月末までに終わらせる", "2024-05-31までに終わらせる"),
        ("来月末に移行する", "2024-06-30に移行する"),
        ("3日後に公開、2週間前に始めた", "2024-05-05に公開、2024-04-18頃に始めた"),
        ("明後日は休みです", "2024-05-04は休みです"),
        ("20日までに払う", "2024-05-20までに払う"),
        ("先月の売上", "2024年4月の売上"),
    ],
)
def test_dates_in_german_french_spanish_and_japanese_are_written_out(said: str, means: str) -> None:
    assert resolve_dates(said, THURSDAY, UTC) == means
    assert relative_phrases(means) == []


@pytest.mark.parametrize(
    ("said", "phrase"),
    [
        ("Wir deployen am Freitag.", "Freitag"),
        ("La démo est vendredi.", "vendredi"),
        ("El despliegue es el viernes.", "viernes"),
        ("金曜日に会議があります", "金曜日"),
        ("Der Fehler war bis Freitag da.", "bis Freitag"),
        ("heute Morgen war der Build kaputt", "heute Morgen"),
        ("bis Donnerstag", "bis Donnerstag"),
    ],
)
def test_a_day_that_may_be_another_one_stays_and_is_listed(said: str, phrase: str) -> None:
    assert resolve_dates(said, THURSDAY, UTC) == said
    assert relative_phrases(said) == [phrase]


@pytest.mark.parametrize(
    "said",
    [
        "Jeden Freitag ist Demo.",
        "Freitags ist Demo.",
        "Ich arbeite Montag bis Donnerstag.",
        "Am Morgen trinke ich Kaffee.",
        "Guten Morgen zusammen",
        "Das Morgen-Meeting fällt aus.",
        "Le vendredi on fait la démo.",
        "Du lundi au vendredi",
        "The Mardi Gras party",
        "mes amis sont ici",
        "Los viernes hacemos demo.",
        "de lunes a viernes",
        "Por la mañana tomo café.",
        "毎週金曜にデモがある",
        "毎月20日に払う",
        "3日間休みます",
        "毎月末に締める",
    ],
)
def test_what_is_repeated_or_no_date_stays(said: str) -> None:
    assert resolve_dates(said, THURSDAY, UTC) == said
    assert relative_phrases(said) == []


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("I bought a car yesterday.", "I bought a car on 2024-05-01."),
        ("Yesterday I bought a car.", "On 2024-05-01 I bought a car."),
        ("It has been broken since yesterday.", "It has been broken since 2024-05-01."),
        ("yesterday's meeting", "2024-05-01's meeting"),
        ("We met the day before yesterday.", "We met on 2024-04-30."),
        ("I'll fly the day after tomorrow", "I'll fly on 2024-05-04"),
        ("this morning and tonight", "on the morning of 2024-05-02 and on the evening of 2024-05-02"),
        ("last night", "on the night of 2024-05-01"),
        ("3 days ago", "on 2024-04-29"),
        ("three weeks ago", "around 2024-04-11"),
        ("two months ago", "around March 2024"),
        ("a year ago", "around May 2023"),
        ("two days from now", "on 2024-05-04"),
        ("last week", "in the week of 2024-04-22"),
        ("the end of next month", "2024-06-30"),
        ("last year", "in 2023"),
        ("last weekend", "on the weekend of 2024-04-27"),
        ("I spent last weekend at home", "I spent the weekend of 2024-04-27 at home"),
        ("on this coming Monday", "on 2024-05-06"),
        ("this past Monday", "on 2024-04-29"),
        ("last Friday", "on 2024-04-26"),
        ("next Tuesday", "on 2024-05-07"),
        ("We decided on Tuesday to stop.", "We decided on 2024-04-30 to stop."),
        ("It is due by Monday.", "It is due by 2024-05-06."),
        ("我昨天买了车", "我2024-05-01买了车"),
        ("前天去过，大后天再去", "2024-04-30去过，2024-05-05再去"),
        ("下周一开会", "2024-05-06开会"),
        ("上个星期三", "2024-04-24"),
        ("上周很忙", "2024-04-22那一周很忙"),
        ("昨晚到家", "2024-05-01晚上到家"),
        ("三天前", "2024-04-29"),
        ("十二天前", "2024-04-20"),
        ("两个月前", "2024年3月左右"),
        ("去年搬家，上个月入职", "2023年搬家，2024年4月入职"),
        ("in two weeks we ship", "around 2024-05-16 we ship"),
        ("in 3 days", "on 2024-05-05"),
        ("The merge freeze starts on Monday.", "The merge freeze starts on 2024-05-06."),
        ("it's due this sunday", "it's due on 2024-05-05"),
        ("nothing goes in until the 30th", "nothing goes in until 2024-05-30"),
        ("the launch is on the 3rd of June", "the launch is on 2024-06-03"),
        ("the demo is on tuesday the 7th", "the demo is on 2024-05-07"),
        ("I'm out from the 12th to the 16th", "I'm out from 2024-05-12 to 2024-05-16"),
        ("Bao is out til Nov 8", "Bao is out til 2024-11-08"),
        ("the deadline is 15 February", "the deadline is 2025-02-15"),
        ("has to be live by the end of the month", "has to be live by 2024-05-31"),
        ("we move at the end of next month", "we move at 2024-06-30"),
        ("周一之前要交", "2024-05-06之前要交"),
        ("提审改成周一了", "提审改成2024-05-06了"),
        ("the deadline moved to monday", "the deadline moved to 2024-05-06"),
        ("周一开始封版", "2024-05-06开始封版"),
        ("月底之前上线", "2024-05-31之前上线"),
        ("下个月底", "2024-06-30"),
        ("十二月底要交", "2024-12-31要交"),
        ("请假到 11 月 8 号", "请假到 2024-11-08"),
        ("20 号要收表", "2024-05-20要收表"),
        ("两周后上线", "2024-05-16左右上线"),
        ("三天后", "2024-05-05"),
    ],
)
def test_what_is_certain_becomes_a_date(said: str, means: str) -> None:
    assert resolve_dates(said, THURSDAY, UTC) == means


@pytest.mark.parametrize(
    "said",
    [
        "last Tuesday", "next Friday", "on Monday", "we met on Tuesday", "we shipped on April 3",
        "I am out from the 1st to the 4th", "the outage began on the 30th", "9 月 3 号发过", "周二去了",
        "a few weeks ago", "half a year ago",
        "2.5 years ago", "twenty one days ago", "a week ago today", "about three weeks ago", "recently",
        "the last week", "last month on February 15th", "last summer",
        "the other day", "next weekend", "周五", "几天前", "最近",
        "周会改成周一了", "我们只在周二发版", "一般周一要开会", "the standup moved to monday",
    ],
)  # fmt: skip
def test_what_can_be_read_in_two_ways_stays_and_is_named(said: str) -> None:
    assert resolve_dates(said, THURSDAY, UTC) == said
    assert relative_phrases(said)


@pytest.mark.parametrize(
    "said",
    [
        '"Yesterday" by the Beatles', "I read USA Today", "the yesterday-build", "logs/today.txt",
        "`next week`", "today's world", "说明天气不错", "目前年龄四十", "美好的明天", "先天和后天",
        "马上周末了", "过去年代", "《昨天》这首歌",
        "the 5th floor", "every Monday", "on the 5th of each month",
        "we release on Thursdays", "invoices go out on the last Friday of the month",
        "每周四发版", "每月 5 号之前不能重启", "8 号楼",
        "1 月 3、14 号",
    ],
)  # fmt: skip
def test_names_and_other_words_are_no_dates(said: str) -> None:
    assert resolve_dates(said, THURSDAY, UTC) == said


def test_the_day_is_that_of_the_person_not_of_the_server() -> None:
    """Half past eight in the evening in New York is another day in London and in Shanghai."""
    at = datetime(2024, 1, 1, 1, 30, tzinfo=UTC)
    assert resolve_dates("today", at, ZoneInfo("America/New_York")) == "on 2023-12-31"
    assert resolve_dates("last year", at, ZoneInfo("America/New_York")) == "in 2022"
    assert resolve_dates("today", at, ZoneInfo("Asia/Shanghai")) == "on 2024-01-01"


def test_in_the_small_hours_nobody_knows_which_day_is_meant() -> None:
    assert resolve_dates("yesterday, 昨天", datetime(2024, 5, 2, 1, tzinfo=UTC), UTC) == "yesterday, 昨天"


def test_clocks_that_change_move_no_day() -> None:
    """The nights of 2024-03-10 and 2024-11-03 are 23 and 25 hours long in New York."""
    zone = ZoneInfo("America/New_York")
    assert resolve_dates("yesterday", datetime(2024, 3, 10, 23, tzinfo=zone), zone) == "on 2024-03-09"
    assert (
        resolve_dates("3 days ago", datetime(2024, 11, 4, 0, tzinfo=zone).replace(hour=6), zone)
        == "on 2024-11-01"
    )


@given(mornings, zones)
def test_days_are_counted_on_the_calendar_of_the_person(at: datetime, zone: str) -> None:
    here = at.replace(tzinfo=ZoneInfo(zone))
    yesterday = here.date() - timedelta(days=1)
    assert full_dates(resolve_dates("it was yesterday", at=here, zone=here.tzinfo or UTC)) == [yesterday]
    assert full_dates(resolve_dates("昨天", at=here, zone=here.tzinfo or UTC)) == [yesterday]


@given(
    moments, st.sampled_from(["last", "next", "this", "this past", "this coming"]), st.sampled_from(WEEKDAYS)
)
def test_a_weekday_becomes_only_a_day_of_that_name_near_by(at: datetime, which: str, weekday: str) -> None:
    found = full_dates(resolve_dates(f"on {which} {weekday.capitalize()}", at, UTC))
    for day in found:
        assert day.strftime("%A").lower() == weekday
        assert 0 <= abs((day - at.date()).days) <= 7
        if which in {"last", "this past"}:
            assert day < at.date()
        if which in {"next", "this coming"}:
            assert day > at.date()
        if which == "this":
            assert day >= at.date()


@given(
    st.lists(
        st.sampled_from(["yesterday", "last week", "下周一", "3 weeks ago", "I", ",", "去年", '"', "."])
    ),
    moments,
    zones,
)
def test_resolving_twice_changes_nothing_more(words: list[str], at: datetime, zone: str) -> None:
    once = resolve_dates(" ".join(words), at, ZoneInfo(zone))
    assert resolve_dates(once, at + timedelta(days=400), ZoneInfo(zone)) == once or relative_phrases(once)


@given(st.text(), moments)
def test_any_text_is_taken_and_what_names_no_day_stays(text: str, at: datetime) -> None:
    new = resolve_dates(text, at, UTC)
    if not relative_phrases(text):
        assert new == text


def test_the_ends_of_the_calendar_are_left_alone() -> None:
    assert resolve_dates("yesterday", datetime(1, 1, 1, 9, tzinfo=UTC), UTC) == "yesterday"
    assert resolve_dates("300 years ago", datetime(100, 1, 1, 9, tzinfo=UTC), UTC) == "300 years ago"


def test_days_are_read_off_in_both_forms() -> None:
    assert full_dates("on 2024-05-01, 2024年5月3日, 2024-13-40") == [date(2024, 5, 1), date(2024, 5, 3)]
