"""Credentials are found by their form, named without their value, and nothing else is refused (M16)."""

from __future__ import annotations

import json
import random
import re
import tarfile
import time
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.secrets import ordinary_memories, secret_sets
from nacre.memory.secret_values import secret_table
from nacre.memory.secrets import CHECKS, SecretFinding, find_secrets, redact, refusal, secret_rules

TABLE = json.loads(resources.files("nacre.memory").joinpath("data/secrets.json").read_text(encoding="utf-8"))[
    "rules"
]
SAMPLES = [(rule["kind"], "".join(parts)) for rule in TABLE for parts in rule["found"]]
LOOKALIKES = [(rule["id"], "".join(parts)) for rule in TABLE for parts in rule["ignored"]]
REAL = Path(__file__).parents[3] / "shared/data/claude_memory"
LONG_RUN = 20_000
"""More than this many steps from one place would make the time grow faster than the text."""


def names(pairs: list[tuple[str, str]]) -> list[str]:
    return [f"{name}-{number}" for number, (name, _) in enumerate(pairs)]


@pytest.mark.parametrize(("kind", "text"), SAMPLES, ids=names(SAMPLES))
def test_every_rule_finds_its_samples_and_says_where(kind: str, text: str) -> None:
    """M16: the kind and the line, in any surroundings."""
    for before, after in (
        ("", ""),
        ("# Deploy\n\nuse ", " for it"),
        ("a\r\n\r\n`", "`."),
        ("- x\n\n(", ")\n"),
    ):
        found = find_secrets(f"{before}{text}{after}")
        assert kind in {each.kind for each in found}
        assert min(each.line for each in found) > before.count("\n")


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "text"), LOOKALIKES, ids=names(LOOKALIKES))
def test_no_rule_takes_a_look_alike_for_a_secret(rule: str, text: str) -> None:
    """M16: placeholders, public keys, the examples of manuals."""
    assert find_secrets(f"note: {text} and so on") == []
    assert redact(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "commit 3f786850e387550fdab836ed7e6dc881de23001b fixed it",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "session 0b8f5f7e-3c1c-4b0e-9b52-6a2f7f3f3f11, request req_011CSHoEeqs5C35K2UUqR7Fy",
        "![logo](data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE)",
        "export API_KEY=YOUR_API_KEY and set token: <token>, password: xxx, secret=********",
        "curl -H 'Authorization: Bearer $GITHUB_TOKEN' https://api.github.com",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGk5Q2VjT3pXQ2VhV2NqQ2VhV2NqQ2VhV2NqQ2Vh me@host",
        '"integrity": "sha512-z+E7eXjX0k7VJwJ3lQhYfW0xqH1d6l0Zr3g4f1q8W4h8mQ1q2w3e4r5t6y7u8i9o0p=="',
        "The password is kept in 1Password under “staging db”; ask Ada for the token.",
        "task-runner, risk-assessment-2031-q1-final-version-for-the-board, desk-12345678901234567890123456",
        "postgres://localhost:5432/app and https://host:8443/path@2x.png",
        "github.com/owner/repo@v1.2.3, git@github.com:owner/repo.git, user@example.com",
        "Environment `bsk311` pins lightgbm 4.3.0; newer wheels crash.",
        'The Brother prints only on Wi-Fi "Haus-24". Printer menu, WLAN, choose Haus-24.',
        'Brother printer loses the connection after router updates; reconnect to "Haus-24"',
        "make up starts Postgres on 55432; 5432 on Marta's laptop belongs to another install",
        "用户的密码在保险箱里；API 密钥见 <密钥>。",
        "",
    ],
)
def test_hashes_ids_images_and_placeholders_are_no_secrets(text: str) -> None:
    """M16: entropy alone is no reason to refuse."""
    assert find_secrets(text) == []


def test_the_table_is_whole() -> None:
    """M16: forty rules or more, each with a name, samples of both kinds and a check that exists."""
    assert len({rule["id"] for rule in TABLE}) == len(TABLE) >= 40
    for rule in TABLE:
        assert rule["found"] and rule["ignored"]
        assert rule.get("check") in {None, *CHECKS}
        assert all(key == key.lower() for key in rule["keys"])
    assert {rule.check for rule in secret_rules()} == {None, *CHECKS}


def test_no_file_of_ours_looks_like_a_leak() -> None:
    """M16: the samples are cut up, so that a scanner of repositories stays quiet; ours does, too."""
    table = resources.files("nacre.memory").joinpath("data/secrets.json").read_text(encoding="utf-8")
    assert find_secrets(table) == []
    assert find_secrets(Path(__file__).read_text(encoding="utf-8")) == []


def _steps(pattern: Any) -> int:
    """How many characters a regex can go over from one starting place, at most."""
    total = 0
    for operation, argument in pattern:
        name = str(operation)
        if name in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
            _, most, inner = argument
            total += int(most) * max(1, _steps(inner))
        elif name == "SUBPATTERN":
            total += _steps(argument[-1])
        elif name == "BRANCH":
            total += sum(_steps(each) for each in argument[1])
        elif name in {"ASSERT", "ASSERT_NOT"}:
            total += _steps(argument[1])
        else:
            total += 1
    return total


@pytest.mark.parametrize("rule", [rule["id"] for rule in TABLE])
def test_the_work_of_a_rule_is_bounded_at_every_place(rule: str) -> None:
    """M16: hence linear in the length of the text, whatever the text is."""
    regex = next(each["regex"] for each in TABLE if each["id"] == rule)
    parser: Any = re._parser  # type: ignore[attr-defined]
    assert _steps(parser.parse(regex)) < LONG_RUN + 10_000 * (rule == "putty-key")


def test_lines_are_counted_and_a_kind_is_named_once_a_line() -> None:
    """M16."""
    token, key = _sample("github-token"), _sample("stripe-key")
    text = f"one\n{token} {token}\n\n{key} {token}\n"
    assert find_secrets(text) == [
        SecretFinding(2, "GitHub token"),
        SecretFinding(4, "GitHub token"),
        SecretFinding(4, "Stripe key"),
    ]
    assert refusal(find_secrets(text)) == (
        "the text seems to hold credentials "
        "(GitHub token in line 2, GitHub token in line 4, Stripe key in line 4); take them out"
    )


def _sample(rule: str) -> str:
    return "".join(next(each["found"][0] for each in TABLE if each["id"] == rule))


def test_redacting_keeps_everything_but_the_secret() -> None:
    """M27: what is exported can still be read."""
    address = _sample("connection-string")
    secret = address.partition("app:")[2].partition("@")[0]
    assert redact(f"set {address} now") == (
        f"set {address.replace(secret, '[removed: password in a connection string]')} now"
    )
    assert redact(f"x {_sample('stripe-key')}\ny") == "x sk_live_[removed: Stripe key]\ny"


def test_redacting_takes_a_key_file_whole() -> None:
    """M27: from its first line to its last, also when it is written in one line of JSON."""
    for number in range(2):
        text = "".join(next(each["found"][number] for each in TABLE if each["id"] == "private-key"))
        left = redact(f"before\n{text}\nafter")
        assert left.startswith("before\n") and left.endswith("\nafter")
        assert "[removed: private key]" in left
        assert "-----" not in left


PIECES = st.one_of(
    st.sampled_from([text for _, text in SAMPLES]),
    st.sampled_from([text for _, text in LOOKALIKES]),
    st.sampled_from(["\n", " ", "\r\n", "/", ":", "@", "=", '"', "-", "_", "token ", "password "]),
    st.text(max_size=8),
)


@given(st.lists(PIECES, max_size=8).map("".join))
def test_after_redacting_nothing_is_found(text: str) -> None:
    """M27: and redacting again changes nothing."""
    once = redact(text)
    assert find_secrets(once) == []
    assert redact(once) == once


@given(
    st.lists(st.sampled_from(SAMPLES), min_size=1, max_size=4), st.sampled_from(["\n", " ", "\n\n- ", "; "])
)
def test_no_message_holds_any_part_of_a_secret(samples: list[tuple[str, str]], between: str) -> None:
    """M16: the value is never shown; pieces of eight characters would already help a thief."""
    text = between.join(sample for _, sample in samples)
    message = refusal(findings := find_secrets(text))
    for one in findings:
        message = message.replace(one.kind, "")  # "authorization" is a kind, and the start of a sample
    secrets = [found["secret"] if "secret" in found.groupdict() else found[0]
               for rule in secret_rules() for found in rule.regex.finditer(text)]  # fmt: skip
    assert secrets
    assert not [secret for secret in secrets if secret[-8:] in message]
    assert "\n" not in message


@given(st.text())
def test_ordinary_text_passes_unchanged(text: str) -> None:
    """M16: no text makes the scan fail."""
    assert find_secrets(text) == []
    assert redact(text) == text


INVENTED = [(name, text) for name, texts in secret_sets().items() for text in texts]


@pytest.mark.parametrize(("name", "text"), INVENTED, ids=names(INVENTED))
def test_passwords_and_keys_behind_a_label_are_found_in_six_languages(name: str, text: str) -> None:
    """M16: assignments, sentences, commands, tables, phrases; nothing is left of them in an export."""
    assert find_secrets(text)
    assert find_secrets(f"# Notes\n\n{text}\n\nMore text.")
    assert find_secrets(redact(text)) == []


WRITTEN = {
    "English": (
        ("password", "pw", "pass", "pwd", "passcode", "wifi key", "codeword"),
        (
            "{}: {}",
            "{} = {}",
            "the {} is {}",
            "{} -> {}",
            "{} ({})",
            "{} [{}]",
            '{}: "{}"',
            "{} for nas: {}",
            "{}, {}",
            "{} now {}",
            "{}'s {}",
            "the {} I chose is {}",
        ),
        ("{1} is the {0}", "use {1} as the {0}", "{1} ({0})", "{1} = {0}"),
    ),
    "German": (
        ("Passwort", "PW", "Kennwort", "WLAN-Schlüssel", "Codewort"),
        ("{}: {}", "das {} ist {}", "{} lautet {}", "{} vom NAS: {}", "{} ({})", "{}: „{}“", "{} jetzt {}"),
        ("{1} ist das {0}", "nimm {1} als {0}", "{1} ({0})"),
    ),
    "French": (
        ("mot de passe", "mdp", "clé wifi", "code wifi"),
        ("{} : {}", "le {} est {}", "le {} c'est {}", "{} du NAS : {}", "{} ({})", "{} : « {} »"),
        ("{1} est le {0}", "{1} c'est le {0}", "utilise {1} comme {0}"),
    ),
    "Spanish": (
        ("contraseña", "clave", "contra"),
        ("{}: {}", "la {} es {}", "{} del NAS: {}", "{} ({})", "{}: «{}»"),
        ("{1} es la {0}", "usa {1} como {0}"),
    ),
    "Chinese": (
        ("密码", "口令", "wifi密码", "暗号", "pw"),
        ("{}：{}", "{}是{}", "{}为{}", "{}（{}）", "{}【{}】", "{}“{}”", "{} {}", "{}改成了{}"),
        ("{1}是{0}", "{1} 是我的{0}", "用{1}当{0}"),
    ),
    "Japanese": (
        ("パスワード", "パス", "合言葉", "Wi-Fiパス", "ログインパス", "PW"),
        (
            "{}：{}",
            "{}は{}",
            "{}は「{}」です",
            "{}（{}）",
            "{}【{}】",
            "{} {}",
            "{}を{}に変更",
            "{}、{}",
            "{} → {}",
        ),
        ("{1}が{0}", "{1} が NAS の{0}です", "{1}は{0}です"),
    ),
}
"""Labels of a language, sentences with the value behind them, and sentences with the value first."""


@pytest.mark.parametrize("language", WRITTEN)
def test_a_value_is_found_behind_and_before_each_label_of_a_language(language: str) -> None:
    """M16: short informal labels, every sign between, and the reversed order."""
    labels, after, before = WRITTEN[language]
    missed = [
        text
        for label in labels
        for pattern in (*after, *before)
        for value in ("kumo" + "4812", "neko-" + "mura77", "Fl!ed" + "er72")
        if not find_secrets(text := pattern.format(label, value))
    ]
    assert missed == []


@pytest.mark.parametrize("label", ["パスワード：", "ｐｗ：", "密码是", "ＰＡＳＳＷＯＲＤ＝"])
def test_letters_of_full_width_are_letters(label: str) -> None:
    """M16: Japanese and Chinese keyboards write them."""
    assert find_secrets(label + "ｋｕｍｏ" + "４８１２")
    assert find_secrets(redact(label + "ｋｕｍｏ" + "４８１２")) == []


@pytest.mark.parametrize(
    "text",
    [
        "パスポートを更新する",
        "ファイルのパスは D:\\data\\img01.png",
        "クリティカルパスは認証",
        "pass the tests",
        "the key is to write tests",
        "pass: 1042, fail: 3",
        "palabra clave: sostenibilidad",
        "la clave es practicar",
        "PIN-Code ist vierstellig",
        "pass --verbose=2 to the runner",
        "a second pass samples `envmap128`",
        "密码哈希用 argon2id",
        "Schlüssel liegt unter der Matte",
        "the gate opened with 1200 visitors",
        "Garage keypad: replaced in 2024",
        "wifi: 802.11ax",
        "the pw field is pw-input-2",
    ],
)
def test_labels_with_another_meaning_are_no_labels(text: str) -> None:
    """M16."""
    assert find_secrets(text) == []


def test_at_most_two_percent_of_ordinary_memories_are_refused() -> None:
    """M16: policies, versions, hashes, ids, variables and placeholders are no secrets."""
    texts = ordinary_memories(2_800)
    assert len({*texts}) > 2_600
    assert sum(bool(find_secrets(text)) for text in texts) <= 20


def test_no_file_of_the_benchmark_looks_like_a_leak() -> None:
    """M16: its credentials are cut up, too."""
    cases = Path(__file__).parents[2] / "bench" / "secrets_cases.json"
    assert find_secrets(cases.read_text(encoding="utf-8")) == []


def test_the_time_of_a_scan_is_bounded_for_every_repeated_text() -> None:
    """M16: labels, verbs, signs and quotation marks in any order, as often as a memory can hold them."""
    made = random.Random(7)
    table = secret_table()
    words = [word for part in ("labels", "connectors") for each in table[part].values() for word in each]
    signs = [
        *" \n'\"`|-aA1_/\\()$:=.é密",
        "\\n",
        "://",
        "@",
        "eyJ",
        "curl -u ",
        "mysql -p",
        "4539 ",
        "session",
    ]
    for _ in range(60):
        unit = "".join(made.choices([*words, *signs], k=made.choice([1, 2, 4, 8])))
        text = (unit * (4_000 // len(unit) + 1))[:4_000]
        start = time.process_time()
        find_secrets(text)
        assert time.process_time() - start < 2, unit


@pytest.mark.parametrize("unit", ["a-", "a", "password for ", "|password", "key=", "密码是", "a.b@"])
def test_one_long_value_takes_no_longer_than_many_short_ones(unit: str) -> None:
    """M16: only the beginning of a value is judged."""
    start = time.process_time()
    find_secrets("password: " + (unit * 10_000)[:10_000])
    assert time.process_time() - start < 5


@pytest.mark.real_data
@pytest.mark.skipif(not REAL.is_dir(), reason="the folder of real memories is not beside the repository")
def test_real_memories_are_not_refused() -> None:
    """M16: what people really keep goes through."""
    seen = 0
    for archive in sorted(REAL.glob("*.tar.gz")):
        with tarfile.open(archive) as packed:
            for member in packed:
                source = packed.extractfile(member) if member.isfile() else None
                if source is not None:
                    seen += 1
                    assert find_secrets(source.read().decode(errors="replace")) == [], member.name
    assert seen > 100
