"""Credentials that a person tells in words are found, and statements about credentials are not (M16)."""

from __future__ import annotations

import json
import time
from importlib import resources

import pytest

from nacre.memory.secrets import find_secrets, redact
from nacre.memory.told_secrets import told_patterns

PAIRS = [
    ("The alarm code is four-" + "one-seven-two", "The code review takes two, three or four hours"),
    ("the PIN is double " + "seven, one, two", "the pin on the map marks one of two doors"),
    ("the password, spelled out: K as in kilo, 4, " + "r, T, x, 9", "the teams are A, B, C, D and E"),
    ("保险箱密码是" + "四一七二", "密码二〇二七年到期"),
    ("暗証番号は" + "よんいちななに", "暗証番号は郵送で届く"),
    ("the padlock opens with 4, " + "1, 7, 2", "lock the tables in steps 1, 2, 3"),
    ("gate keypad: star 4 1 " + "7 2 hash", "press star to hear the menu"),
    ("my unlock pattern: top left, middle, " + "bottom right", "swipe left to archive, right to delete"),
    ("the safe: left 41, " + "right 7, left 22", "the safe is on the left, 41 kg"),
    ("my Netflix password starts with Otter and then " + "77", "the password starts with a capital letter"),
    ("Das Passwort ist Otter mit großem O und einer 7 am " + "Ende", "Das Passwort muss eine Zahl haben"),
    ("security question: my first pet, Marm" + "aduke", "security question: removed in May"),
    ("LUKS passphrase: the otter sleeps at " + "noon", "LUKS passphrase: in the blue folder"),
    ("la contraseña del portátil es nutria " + "dormida 7", "la contraseña del portátil es la de siempre"),
    ('you join the wifi with "loud purple ' + 'otters"', 'the calendar is called "Loud purple otters"'),
    ('"loud purple ' + 'otters" unlocks the backup', '"Forgot password" mails arrive late'),
    ("log in with the word marm" + "alade", "the word login appears three times"),
    ("he set the router's password to fire" + "flies", "he set the password rotation to weekly"),
    ("公司的密码是" + "夏夜星光", "公司的密码由管理员统一设置"),
    ("パスフレーズは" + "夏の夜の夢です", "パスフレーズは佐藤さんに聞く"),
    ("Hulu account: mia@corp.io & Sun" + "flowers", "Account manager is mia@corp.io and Tom"),
    ("usuario admin, clave zapa" + "tilla", "palabras clave: memoria, agente"),
    ("credentials: u: stats p: Tea&" + "Scones", "the user drinks Tea&Scones"),
    ("Login for the wiki: guest, then rain" + "bows", "Login page: three fields, two buttons"),
    ("In case I forget: Mari" + "gold$Tango", "The class is Map$Entry in the dump"),
    ("Coinbase: " + "-".join("apple river stone cloud wolf lamp ghost pine dust sky rain fern".split()),
     "Seeds to buy: tomato, basil, leek, radish, carrot, beet, bean, pea, dill, mint, chard, kale"),
    ("backup codes: 4821" + "3907 77120465", "backup codes are printed and kept by Ada"),
    ("the password is blueberry." + "muffin.morning", "the password is in vault.corp.internal"),
    ("my card, on the back: 4" + "18", "the card on the wall lists 418 names"),
    ("La contraseña del wifi es otter" + "kettle desde mayo", "La contraseña es válida desde mayo"),
    ("The wifi password is otter" + "kettle since May", "The password of ops is unchanged since June"),
    ("db_password: |\n    otter-" + "kettle-9", "db_password: |\n    <from the vault>"),
    ("correct otter lantern pickle opens the " + "backup drive", "project shanghai office opens 9"),
    ("licence key 8842-KL" + "QZ-1107-PPWX", "ticket ABCD-1234"),
    ("keep the cookie sid=k9Lm28x" + "ZT81Rw0sYb", "the cookie lasts 14 days"),
]  # fmt: skip


@pytest.mark.parametrize(("secret", "ordinary"), PAIRS)
def test_a_told_credential_is_found_and_a_statement_is_not(secret: str, ordinary: str) -> None:
    assert find_secrets(f"Note.\n{secret}") != []
    assert find_secrets(f"Note.\n{ordinary}") == []


@pytest.mark.parametrize("secret", [secret for secret, _ in PAIRS])
def test_the_text_that_is_left_holds_no_credential(secret: str) -> None:
    cleaned = redact(f"{secret}\n")
    assert "[removed: " in cleaned
    assert find_secrets(cleaned) == []


def test_every_key_is_in_lower_case_and_every_list_of_words_is_used() -> None:
    """A rule is only tried in lines with one of its keys."""
    assert all(key == key.lower() for rule in told_patterns().rules for key in rule.keys)
    table = json.loads(
        resources.files("nacre.memory").joinpath("data/told_secrets.json").read_text(encoding="utf-8")
    )
    rules = json.dumps(table["rules"])
    decide = {"rules", "screens", "reference", "soft", "joiners"}
    unused = [name for name in table["words"] if f"(?&{name})" not in rules and f'"@{name}"' not in rules]
    assert {*unused} == decide


@pytest.mark.parametrize(
    "unit", ["one two ", "left 4 ", "password is ", '"a b" ', "1, ", "a b ", "user x y ", "-ab"]
)
def test_the_time_for_a_repeated_text_is_bounded(unit: str) -> None:
    text = "the password of the safe: " + unit * 3_000
    start = time.process_time()
    find_secrets(text)
    assert time.process_time() - start < 2
