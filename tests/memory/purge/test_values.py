"""The values of a memory: which they are, the spellings they go in, and what the final scan finds (M14b)."""

from __future__ import annotations

import base64
import binascii
import bz2
import gzip
import json
import lzma
import re
import sqlite3
import textwrap
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from nacre.memory.purge.final_scan import FinalScan
from nacre.memory.purge.traces import MARK, Traces
from nacre.memory.purge.values import find_values

VALUES = {
    "The staging password is kF9#qLz2!mVw as of today.": "kF9#qLz2!mVw",
    "Password: zitronenfalter": "zitronenfalter",
    "The wiki passphrase is `Grünes-Boot`": "Grünes-Boot",
    "The API key wJalrXUtnFEMI/K7MDENG/bPxRfiCY belongs to ops.": "wJalrXUtnFEMI/K7MDENG/bPxRfiCY",
    "Her card is 4111 1111 1111 1234.": "4111 1111 1111 1234",
    "Reach him at +49 170 1234567 after six.": "+49 170 1234567",
    "Pay to DE89 3704 0044 0532 0130 00 only.": "DE89 3704 0044 0532 0130 00",
    "The customer has number 84120937.": "84120937",
    "See https://intranet.example/wiki/x7?id=9 first.": "https://intranet.example/wiki/x7?id=9",
    "Write to ada.lovelace@example.org instead.": "ada.lovelace@example.org",
    "The vault runs on vault.ops.example.net now.": "vault.ops.example.net",
    "The table is called quetzal_ledger_sync here.": "quetzal_ledger_sync",
    "Our contact there is Marguerite Duvalier for now.": "Marguerite Duvalier",
    "We ordered it from Brunnquell again.": "Brunnquell",
    "Le mot de passe du serveur est hunter2": "hunter2",
    "La contraseña del panel es Perrito": "Perrito",
    "预发布环境的数据库密码是kF9qLz2mVw，请勿外传。": "kF9qLz2mVw",
    "パスワードはkaede77です。": "kaede77",
    "管理画面のパスワードは「さくら2024」です": "さくら2024",
    "请联系grace.hopper@example.org即可": "grace.hopper@example.org",
    "The wifi password is correct horse battery staple": "correct horse battery staple",
    "The phrase for the alarm is “seven herons crossed the lake”.": "seven herons crossed the lake",
}
SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "among signs without spaces": lambda value: f"它是{value}。",
    "upper": str.upper,
    "lower": str.lower,
    "json": lambda value: json.dumps({"a": value}),
    "json in json": lambda value: json.dumps(json.dumps({"a": f"x\n{value}\ny"})),
    "url": lambda value: f"https://x.example/?q={quote(value, safe='')}&p=1",
    "base64": lambda value: base64.b64encode(f"a: {value}\n".encode()).decode(),
    "base64 at another offset": lambda value: base64.urlsafe_b64encode(f"it={value};".encode()).decode(),
    "wrapped": lambda value: f"> it was {value[:5]}\n> {value[5:]} then",
    "wrapped by Read": lambda value: f"     7\tit was {value[:5]}\n     8\t{value[5:]} then",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("text", VALUES)
def test_a_value_goes_in_every_spelling(text: str, spelling: str) -> None:
    """And the final scan, which works in another way, finds it before and not after."""
    value = VALUES[text]
    written = SPELLINGS[spelling](value)
    traces = Traces("x.md", [text])
    assert value in traces.rare_words
    scan = FinalScan([value])
    assert traces.may_be_in(written.encode())
    assert scan.is_in(written.encode())
    cleaned = traces.without(written)
    assert MARK in cleaned
    assert not scan.is_in(cleaned.encode())
    assert traces.without(cleaned) == cleaned


ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "UTF-16": lambda value: value.encode("utf-16-le"),
    "UTF-16, high byte first": lambda value: value.encode("utf-16-be"),
    "hexadecimal with colons": lambda value: value.encode().hex(":").encode(),
    "a hexadecimal dump": lambda value: value.encode().hex(" ", 2).encode(),
    "every byte with a percent sign": lambda value: "".join(f"%{one:02X}" for one in value.encode()).encode(),
    "every letter in JSON": lambda value: "".join(f"\\u{ord(one):04x}" for one in value).encode(),
    "every byte in C": lambda value: "".join(f"\\x{one:02x}" for one in value.encode()).encode(),
    "every letter in HTML": lambda value: "".join(f"&#{ord(one)};" for one in value).encode(),
    "every letter in HTML with zeros": lambda value: "".join(f"&#{ord(one):07d}" for one in value).encode(),
    "every letter in JavaScript": lambda value: "".join(f"\\u{{{ord(one):x}}}" for one in value).encode(),
    "every byte with two percent signs": lambda value: "".join(
        f"%25{one:02X}" for one in value.encode()
    ).encode(),
    "every byte in octal": lambda value: "".join(f"\\{one:03o}" for one in value.encode()).encode(),
    "every byte in mail": lambda value: "".join(f"={one:02X}" for one in value.encode()).encode(),
    "an array in C": lambda value: ", ".join(f"0x{one:02x}" for one in value.encode()).encode(),
    "a list of numbers": lambda value: str([*value.encode()]).encode(),
    "lines of xxd": lambda value: json.dumps(dumped(value.encode())).encode(),
    "Base64 twice": lambda value: base64.b64encode(base64.b64encode(f"pw {value}".encode())),
    "Base64 of a compressed text": lambda value: base64.b64encode(gzip.compress(value.encode())),
    "Base64 in lines": lambda value: json.dumps(
        "\n".join(re.findall(".{1,20}", base64.b64encode(f"the password is {value}".encode()).decode()))
    ).encode(),
    "Base64 of UTF-16": lambda value: base64.b64encode(value.encode("utf-16-le")),
    "Base32": lambda value: base64.b32encode(f"it is {value}.".encode()),
    "Base32 in lower case": lambda value: base64.b32encode(f"pass {value}".encode()).lower(),
    "Base85": lambda value: base64.b85encode(f"pw={value}".encode()),
    "Base85 in JSON": lambda value: json.dumps(base64.b85encode(f"{value} it is".encode()).decode()).encode(),
    "Base85 of Adobe": lambda value: base64.a85encode(value.encode(), adobe=True),
    "uuencode": lambda value: b"\nbegin 644 a.txt\n" + binascii.b2a_uu(value.encode()) + b"`\nend\n",
    "uuencode in JSON": lambda value: json.dumps(
        f"$ uuencode a\nbegin 644 a\n{binascii.b2a_uu(value.encode()).decode()}`\nend\n"
    ).encode(),
    "escapes of CSS": lambda value: "".join(f"\\{ord(one):06x}" for one in value).encode(),
    "escapes of CSS with spaces": lambda value: "".join(f"\\{ord(one):x} " for one in value).encode(),
    "reversed": lambda value: value[::-1].encode(),
    "reversed in JSON": lambda value: json.dumps({"text": f"gnihtemos {value[::-1]}"}).encode(),
    "a string in pieces": lambda value: f'a = "{value[:5]}" + "{value[5:]}"'.encode(),
    "a string in pieces on two lines": lambda value: f"a = ('{value[:5]}'\n     '{value[5:]}')".encode(),
    "a string in pieces in JSON": lambda value: json.dumps(f'x = "{value[:5]}" +\n  "{value[5:]}"').encode(),
    "the colours of a terminal": lambda value: "".join(
        f"\x1b[3{at % 8}m{one}" for at, one in enumerate(value)
    ).encode(),
    "the colours of a terminal in JSON": lambda value: json.dumps(
        f"{value[:6]}\x1b[0m\x1b[31m{value[6:]}"
    ).encode(),
    "signs that are not shown": lambda value: "\u200b".join(value).encode(),
    "wide letters": lambda value: "".join(chr(ord(one) + 0xFEE0) for one in value).encode(),
}


def dumped(data: bytes) -> str:
    """Return a dump as xxd prints it, of eight bytes a line."""
    rows = [data[at : at + 8] for at in range(0, len(data), 8)]
    return "\n".join(f"{at * 8:08x}: {row.hex(' ', 2)}  ........" for at, row in enumerate(rows))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_final_scan_finds_a_value_of_which_no_letter_is_left(encoding: str) -> None:
    """What cannot be erased is at least named."""
    value = "Kv7!pluto#rain9x"
    scan = FinalScan([value])
    assert scan.is_in(b"before " + ENCODINGS[encoding](value) + b" after")
    assert not scan.is_in(b"before " + ENCODINGS[encoding](value[7:] + value[:7]) + b" after")


@pytest.mark.parametrize(
    "written",
    [r"ls: '\343\201\225\343\201\217\343\202\211x2024'", r"b'\xe3\x81\x95\xe3\x81\x8f\xe3\x82\x89x2024'"],
)
def test_a_value_of_which_some_letters_are_escaped_is_found(written: str) -> None:
    assert FinalScan(["さくらx2024"]).is_in(written.encode())
    assert not FinalScan(["さくらx2025"]).is_in(written.encode())


@pytest.mark.parametrize(
    ("value", "other"),
    [
        ("4111 1111 1111 1234", "4111111111111234 4111-1111-1111-1234 41111111 11111234"),
        ("+49 170 1234567", "+49-170-1234567 0049 170 1234567 +49 (0)170 123 45 67"),
        ("DE89 3704 0044 0532 0130 00", "DE89370400440532013000 de89-3704-0044-0532-0130-00"),
    ],
)
def test_the_groups_of_a_number_do_not_matter(value: str, other: str) -> None:
    cleaned = Traces("x.md", [f"It is {value} there."]).without(other)
    assert not any(sign.isdigit() for sign in cleaned)
    assert FinalScan([value]).is_in(other.split()[0].encode())


@pytest.mark.parametrize(
    "text",
    [
        "The password is required, and the code is reviewed by two people.",
        "We deploy on Wednesday with Kubernetes; on 20261116 and 2026-11-16 we did not.",
        "Der Termin mit der Hausverwaltung wegen der Heizung ist am Donnerstag im Rathaus.",
        "Use pytest for the tests, and keep functions short. Otherwise nothing.",
    ],
)
def test_ordinary_sentences_have_no_values(text: str) -> None:
    assert find_values([text]) == {}


def test_a_plain_word_that_is_called_a_password_is_a_value() -> None:
    assert "otterkettlelamp" in find_values(["La contraseña del wifi es otterkettlelamp desde mayo."])
    assert "otterkettlelamp" in find_values(["Passphrase for the safe: cold otterkettlelamp rises"])


def test_a_value_as_part_of_another_word_is_another_word() -> None:
    traces = Traces("x.md", ["We ordered it from Brunnquell again. The number is 84120937."])
    other = "Brunnquellen and 1841209370 and 84120937x"
    assert traces.without(other) == other


def test_the_final_scan_reads_packed_and_structured_files(tmp_path: Path) -> None:
    secret = "kF9#qLz2!mVw"
    data = f"it is {secret}".encode()
    home = tmp_path / "home"
    (home / "objects" / "ab").mkdir(parents=True)
    (home / "objects" / "ab" / "cdef").write_bytes(zlib.compress(b"blob 9\0" + data))
    (home / "a.gz").write_bytes(gzip.compress(data))
    (home / "a.bz2").write_bytes(bz2.compress(data))
    (home / "a.xz").write_bytes(lzma.compress(data))
    with zipfile.ZipFile(home / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.txt", data * 9)
    (home / f"{secret}.txt").write_text("only its name")
    (home / "hex").write_text(data.hex())
    with sqlite3.connect(home / "a.db") as database:
        database.execute("create table t (a blob)")
        database.execute("insert into t values (?)", (b"\0" * 4_000 + data + b"\0" * 9_000,))
    database.close()
    (home / "a.zst").write_bytes(b"\x28\xb5\x2f\xfd..")
    (home / "clean.txt").write_text(textwrap.dedent("nothing to see"))
    found = {path.name: why for path, why in FinalScan([secret]).find(home)}
    assert found.keys() == {
        "cdef", "a.gz", "a.bz2", "a.xz", "a.zip", f"{secret}.txt", "hex", "a.db", "a.zst",
    }  # fmt: skip
    assert "does not know" in found["a.zst"]


def test_the_final_scan_reads_a_text_with_an_endless_entity() -> None:
    scan = FinalScan(["kF9#qLz2!mVw"])
    endless = f"&#{'9' * 5_000};"
    assert not scan.is_in(f"kF9 qLz2 mVw {endless}".encode())
    assert scan.is_in(f"{endless} kF9&#35;qLz2!mVw".encode())


@pytest.mark.parametrize(
    "unit",
    ["A", "\\", "%41", "=41", "&#065;", "1, ", "0x41, ", "41 ", "> |\t", "A" * 20 + "\n", "a\0", "\x1b[0m"],
)
def test_the_time_of_the_final_scan_grows_with_the_data(unit: str) -> None:
    """M14b: decoding tries each place of a long run once, and decodes what it decoded only a few times."""
    data = (unit * 60_000)[:60_000].encode()
    start = time.process_time()
    assert not FinalScan(["Kv7!pluto#rain9", "さくら2024"]).is_in(data + b" pluto")
    assert time.process_time() - start < 2


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["a", "aB", "a.", "a-", "1", "1 ", "a@", "Abcdefgh ", "-aB", "a/-"])
def test_the_time_of_a_purge_grows_with_the_text(unit: str) -> None:
    """M14b: one long word, and one word again and again, take no longer than other texts."""
    text = (unit * 40_000)[:40_000]
    start = time.process_time()
    traces = Traces("x.md", [text])
    traces.without(f"{text} x.md")
    FinalScan(["Kv7!pluto#rain9", *traces.rare_words[:3]]).is_in(f"{text} pluto\n{' ' * 40_000}".encode())
    assert time.process_time() - start < 5
