"""Small changes of what the person said are refused, other words for it are not (E9, D6)."""

from __future__ import annotations

import pytest

from nacre.memory.checks.additions import SourceSentences
from nacre.memory.checks.faithful import Sources

TURNED = [
    ("coupon codes are case insensitive", "Coupon codes are case sensitive."),
    ("our dataset is unlabelled", "The dataset is labelled."),
    ("客服早九点到晚九点，周日休息", "客服早九点到晚九点，周六休息。"),
    ("fieldwork in the cairngorms is may to july 2027", "Fieldwork in the Cairngorms is May to July 2026."),
    ("campsites only, hotels are out of budget", "Only hotels: campsites are out of budget."),
    ("don't let the agent touch terraform state, ask Kofi first", "Kofi must not touch the Terraform state."),
    ("I've two rabbits. my flatmate Dov feeds them", "The user feeds Dov's rabbits."),
    ("I've two rabbits, Pip and Juniper, Pip is blind", "The user has two rabbits; Juniper is blind."),
    ("my mother in law travels with us, she can't walk far", "The mother-in-law of the user can walk far."),
    ("the podcast comes out every second thursday", "The podcast comes out every Thursday."),
]
SAME = [
    ("coupon codes are case insensitive", "Coupon codes are case insensitive."),
    ("the images are not labelled", "The images are unlabelled."),
    ("train on the a100 box only, the 3090 is for Milo", "Train only on the A100 box; the 3090 is for Milo."),
    ("the podcast comes out every second thursday", "The podcast comes out every second Thursday."),
    ("Priya leads QA, she must never be paged at night", "Priya must never be paged at night."),
    ("Dov's rabbits eat hay, I feed them", "The user feeds Dov's rabbits."),
]


@pytest.mark.parametrize(("said", "text"), TURNED)
def test_a_turned_detail_is_found(said: str, text: str) -> None:
    assert Sources([said]).altered(text) or SourceSentences([said]).additions(text)


@pytest.mark.parametrize(("said", "text"), SAME)
def test_other_words_for_the_same_detail_are_no_change(said: str, text: str) -> None:
    assert Sources([said]).altered(text) == []


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("the seed order has to be in by jan 10", "The seed order must be in by jan 10 to get the discount."),
        ("Callum has a nut allergy", "Callum has a severe nut allergy."),
    ],
)
def test_an_added_purpose_or_attribute_is_an_addition(said: str, text: str) -> None:
    assert SourceSentences([said]).additions(text)
