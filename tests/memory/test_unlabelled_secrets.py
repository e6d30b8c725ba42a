"""Credentials that no label introduces are found by their shape or their sentence (M16)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.secrets import find_secrets, pointer_text, redact
from nacre.memory.unlabelled_secrets import (
    CHOSEN,
    NONE,
    STRONG,
    WEAK,
    password_grade,
    unlabelled_secrets,
)


@pytest.mark.parametrize(
    ("value", "grade"),
    [
        ("Lantern" + "$9042", STRONG),
        ("9rTq" + "Lm2xWz8k", STRONG),
        ("tU8-vvK2-" + "9sQd-Lx04", STRONG),
        ("7HQ2K-M9XPD-" + "4VLTR-W8ZNB", STRONG),
        ("4f9d1c7be2a80653" + "d9e1b7c24af06385", STRONG),
        ("Hollyhock" + "_21", CHOSEN),
        ("river" + "bank42", CHOSEN),
        ("k8W" + "q2z", CHOSEN),
        ("rainbow" + "fish3", WEAK),
        ("v2.14.1", NONE),
        ("9f8e7d6", NONE),
        ("9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c", NONE),
        ("3f2c9b1e-7d4a-4e86-9f05-6ab1c2d3e4f5", NONE),
        ("DS-K1T341", NONE),
        ("PAY-4412", NONE),
        ("eslint@8.57.0", NONE),
        ("orders$20261110", NONE),
        ("calc_vat_2027(x)", NONE),
    ],
)
def test_a_token_is_graded_by_its_shape(value: str, grade: int) -> None:
    assert password_grade(value) == grade


PLUM = "Plum" + "_Custard31"


@pytest.mark.parametrize(
    ("secret", "ordinary"),
    [
        (f"the router wants {PLUM}", f"commit {PLUM}"),
        (f"Log in with {PLUM}", f"Log in to host {PLUM}"),
        (f"p.kruse and {PLUM}", f"the variable is called {PLUM}"),
        ("The gate opens with 4412", "The gate opens at 4412 euros"),
        ("Die Schranke öffnet mit 4412", "Durchwahl von Petra, Schranke: Durchwahl 4412"),
        ("le portail s'ouvre avec 4412", "le portail pèse 4412 kg"),
        ("el candado es 4-4-1-2", "el partido fue 4-1"),
        ("门锁 4412", "门牌号 4412"),
        ("スマホは 4412 で開く", "鍵は 4412 号室"),
        ("The alarm is 1984#", "The alarm dates from 1984"),
        ("CVV on the blue card: 392", "The blue card has 392 euros"),
        ("safe: right 42, left 17", "safe on the right, 42 kg"),
        ("the pin is two eight oh six", "the pin is one of two"),
        ("the safe word is marmalade", "the safe word is kept by Ada"),
        ("Wi-Fi: c7F2 9a41 E0d8", "Wi-Fi: 2027 2028 2029"),
        ("Wi-Fi: Larch, calm-port-89", "Wi-Fi: Larch, calm and quiet"),
        ("Die Alarmanlage schaltet man mit 4412 aus", "Die Alarmanlage meldet 4412 Fehler"),
        ("Für die Haustür ist es die 4412, dann drehen", "Die Haustür kostet 4412 Kronen"),
        ("el ascensor pide el 4412", "el ascensor lleva 1275 kg"),
        ("报警器密码4412", "报警器一年响了4412次"),
        ("大门要按4412再按铃", "大门卡号以4412开头"),
        ("玄関は4412で開く", "玄関のカード番号は4412で始まる"),
        ("行李箱的号码是 441", "房间的号码是 441"),
        ("スーツケースの番号は 441", "会員の番号は 4412"),
        ("The gate opens when you key 4412", "The customer number at the gate company is 4412"),
        ("The code of the gate is 2029", "The gate code was cancelled in 2029"),
        ("reports:Onyx-Plover_8@replica-2", "eslint:recommended-8@1.2"),
        ("it needs abcr_pat_9sKq2LmZx81VtRw0YbP7", "it needs prod_9sKq2LmZx81VtRw0YbP7"),
        ("À la crèche il faut dire Remorqueur pour récupérer Léo", "Il faut dire bonjour pour récupérer"),
        ("Mein Kundenkennwort Zaunkoenig", "Mein Kundenkennwort vergessen"),
        ("phrase de secours : lampe cave lune sable", "phrase de secours : voir le coffre"),
        ("Unlock the laptop with 56379", "On the laptop Postgres listens on 55432 (Redis 56379)"),
        ("My VPN is m.okafor / Heron.Gate58", "My VPN is on System.Net48"),
    ],
)
def test_the_sentence_decides_about_a_value(secret: str, ordinary: str) -> None:
    """The same value is a credential where it opens something, and a name or a number elsewhere."""
    assert [*unlabelled_secrets(secret)]
    assert not [*unlabelled_secrets(ordinary)]


@pytest.mark.parametrize(
    ("secret", "ordinary"),
    [
        ("The login for the staging box is {}.", "The staging database is {}, Marta has the password."),
        ("The database password changed to {}.", "The database changed to {}; Ben knows the password."),
        ("the server's root login is {}", "Staging runs on {} and Marta has the password."),
        ("The password is old. It moved to {}.", "Production moved to {}, Ben has the password."),
        ("Marta's password is {}, the database is old.", "The login host is {}; ask Ben for the password."),
        ("the password of staging is {}", "Marta has the password for {}."),
        ("log in with admin and {}", "Log in to {} to see the dashboards."),
        ("unlock the laptop with {}", "The backup key for {} is in the safe."),
        ("数据库密码是 {}", "staging 数据库现在是 {}，密码在 Marta 那里。"),
        ("Das Passwort ist {}.", "Die Datenbank ist jetzt {}, Marta hat das Passwort."),
    ],
)
def test_the_name_of_a_machine_is_no_credential_beside_who_has_the_password(
    secret: str, ordinary: str
) -> None:
    name = "osprey" + "-12"
    assert find_secrets(secret.format(name))
    assert not find_secrets(ordinary.format(name))


def test_a_value_is_found_in_any_line_and_a_pointer_has_the_rest() -> None:
    text = f"# Home\n\nThe gate opens with 4412\n\nThe NAS wants {PLUM}\n"
    assert [one.line for one in find_secrets(text)] == [3, 5]
    assert pointer_text(text) == "# Home\n\nThe gate opens with (not saved)\n\nThe NAS wants (not saved)\n"


@given(
    st.lists(
        st.sampled_from(
            [
                "gate",
                "opens",
                "with",
                "4412",
                "safe",
                "word",
                "is",
                "left",
                "17",
                PLUM,
                "Wi-Fi",
                "\n",
                ":",
                "「",
            ]
        ),
        max_size=16,
    ).map(" ".join)
)
def test_after_redacting_nothing_without_a_label_is_left(text: str) -> None:
    """The mark that replaces a value is none itself, or redacting would not end."""
    assert find_secrets(redact(text)) == []


@pytest.mark.parametrize(
    "unit", ["1", "a1", "A1-", "é1", "1 ", "left 1 ", "pin one ", "ab12 ", "gate 1", "「"]
)
def test_the_time_grows_with_the_text(unit: str) -> None:
    text = (unit * 40_000)[:40_000]
    start = time.process_time()
    list(unlabelled_secrets(text))
    assert time.process_time() - start < 3


def test_words_of_a_path_do_not_say_what_a_number_opens() -> None:
    assert not find_secrets("- [ops/alarms](ops/alarms.md) — Text 5 of cy with seed 98702.")
    assert find_secrets("The alarm code is 98702.")
