"""Date ranges that a question names."""

from __future__ import annotations

from datetime import date

import pytest

from nacre.memory.dates.ranges import DateRange, date_ranges

ASKED = date(2024, 5, 16)


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("What did we do on 13 October 2023?", date(2023, 10, 13), date(2023, 10, 13)),
        ("What happened on 2024-02-01?", date(2024, 2, 1), date(2024, 2, 1)),
        ("What was it two weeks ago?", date(2024, 4, 29), date(2024, 5, 5)),
        ("Where was I last Saturday?", date(2024, 5, 11), date(2024, 5, 12)),
        ("What did I read in the past three months?", date(2024, 2, 6), ASKED),
        ("Who came in February 2024?", date(2024, 2, 1), date(2024, 2, 29)),
        ("What changed in 2021?", date(2021, 1, 1), date(2021, 12, 31)),
    ],
)
def test_a_question_names_a_range(question: str, first: date, last: date) -> None:
    assert date_ranges(question, ASKED) == [DateRange(first, last)]


def test_a_day_without_a_year_is_meant_in_every_year() -> None:
    (found,) = date_ranges("Where was I on March 3rd?", ASKED)
    assert found.yearly
    assert [found.distance(date(year, 3, 4)) for year in (1, 1999, 2024, 9999)] == [1, 1, 1, 1]


def test_a_time_of_day_is_no_day_of_the_month() -> None:
    assert not any(one.first == one.last for one in date_ranges("the call of May 10:30", ASKED))


@pytest.mark.parametrize("question", ["in December 9999", "in March 0000", "31 May 0000"])
def test_a_date_that_no_calendar_has_is_ignored_without_an_error(question: str) -> None:
    assert all(one.yearly for one in date_ranges(question, ASKED))
