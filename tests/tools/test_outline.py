"""Outlines: names of common languages with their lines, within a limit, fast on any text."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.tools import outline as module
from nacre.tools.outline import MAX_ROW_CHARS, outline

SOURCES = {
    "a.py": '''
import os
*LIMIT: int = 3
*class Shop:
    """A shop."""
*    def open(self) -> None:
        if self.x == 1:
            return
*    async def close(self, now: float) -> None: ...
*def main(): pass
value = 3
''',
    "a.ts": """
import { x } from "./x";
*export interface Shop {
  name: string;
}
*export type Id = string | number;
*export default class Basket extends Base<Id> implements Shop {
*  private async load(id: Id): Promise<void> {
    if (id) {
      return;
    }
    for (const a of b) {
    }
  }
*  onClick = async (event: Event) => {
  };
}
*export const make = (a: number) => a + 1;
*async function* walk(tree) {
  const inner = 1;
}
*describe("shop", () => {
*  it("opens", async () => {
  });
});
""",
    "a.go": """
*package shop
import "fmt"
*type Shop struct {
	Name string
}
*func (s *Shop) Open() error {
	if s == nil { return nil }
}
*const limit = 3
*var ErrClosed = errors.New("closed")
""",
    "a.rs": """
use std::fmt;
*pub struct Shop<'a> {
    name: &'a str,
}
*impl<'a> Shop<'a> {
*    pub(crate) async fn open(&self) -> Result<()> {
        let x = 1;
    }
*    const fn size() -> usize { 3 }
}
*pub const LIMIT: usize = 3;
*macro_rules! shop {
}
*mod tests {
}
""",
    "A.java": """
*package is.not.a.name;
*public final class Shop extends Base {
*    private static final int LIMIT = 3;
*    @Override
    int count;
*    public void open(String name) throws IOException {
        if (name == null) {
            return;
        }
        shelf.open(name);
    }
*    int size() {
    }
*    record Item(String name) {}
}
""",
    "a.c": """
#include <stdio.h>
*#define LIMIT 3
*struct shop {
    int size;
};
*static int open_shop(struct shop *s, const char *name)
{
    if (s == NULL) {
        return 1;
    }
    call(s);
}
*int
*main(int argc, char **argv) {
}
*typedef struct shop shop_t;
""",
    "a.cpp": """
*namespace shop {
*template <typename T>
*class Basket : public Base {
 public:
*  void open(int count) const {
    while (true) {
    }
  }
};
*std::vector<int> Basket::items(const std::string& name) {
}
}
""",
    "a.md": """
*# Shop
words
*## Open
```sh
# no heading
```
*### Deep
~~~
## none
~~~
#hash
""",
    "a.json": """
{
*  "name": "shop",
*  "scripts": {
*    "open": "run"
  },
*  "list": [
    "a",
    1
  ]
}
""",
    "a.yaml": """
# comment
*name: shop
*on:
*  push:
    - main
*jobs:
*  test:
*    runs-on: ubuntu
*      "quoted key": 1
""",
    "a.toml": """
*name = "shop"
*[tool.ruff]
*line-length = 110
*[[package]]
# comment
""",
    "a.sh": """
*LIMIT=3
*open_shop() {
  echo hi
}
*function close_shop {
""",
    "Makefile": """
*BIN = x
*all: lint test
	@echo hi
*.PHONY: all
""",
    "a.rb": """
*module Shop
*  class Basket
*    def open?(x)
      puts x
    end
""",
}
LENIENT = {"A.java": {"package is.not.a.name;", "    @Override"}, "a.c": {"int"}}
"""Lines that are marked as what a reader might expect, and need not be listed."""


@pytest.mark.parametrize("name", SOURCES)
def test_the_names_of_common_languages_are_listed_with_their_lines(name: str) -> None:
    marked = SOURCES[name].split("\n")
    lines = [line.removeprefix("*") for line in marked]
    expected = [
        (number, line.removeprefix("*"))
        for number, line in enumerate(marked, 1)
        if line.startswith("*") and line[1:] not in LENIENT.get(name, ())
    ]
    found = outline(name, lines, chars=10_000)
    assert [(row.number, row.text) for row in found.rows] == expected
    assert found.left_out == 0


def test_a_file_of_another_kind_has_no_names() -> None:
    for name in ("a.log", "a.txt", "a.csv", "LICENSE", "a", ""):
        assert outline(name, ["def a(): ...", "# b"], chars=1_000) == ((), 0)


def test_what_is_indented_most_goes_first_when_there_is_no_room() -> None:
    lines = [line for n in range(10) for line in (f"class C{n}:", f"    def method_{n}(self): ...")]
    all_names = outline("a.py", lines, chars=10_000)
    assert len(all_names.rows) == 20 and not all_names.left_out
    few = outline("a.py", lines, chars=200)
    assert [row.text for row in few.rows if row.text.startswith("class")] == [
        f"class C{n}:" for n in range(10)
    ]
    assert few.left_out == 20 - len(few.rows) > 0
    assert [row.number for row in few.rows] == sorted(row.number for row in few.rows)
    assert outline("a.py", lines, after=19, chars=1_000).rows == ((20, "    def method_9(self): ..."),)


def test_where_there_is_no_room_for_all_names_of_a_level_no_part_of_the_file_is_left_blank() -> None:
    lines = [line for n in range(300) for line in (f"def name_{n}():", "    pass")]
    found = outline("a.py", lines, chars=1_000)
    gaps = [after.number - before.number for before, after in pairwise(found.rows)]
    assert len(set(gaps)) == 1 and found.rows[-1].number > 560
    assert 20 < len(found.rows) < 60 and found.left_out == 300 - len(found.rows)


def test_a_long_line_is_cut() -> None:
    (row,) = outline("a.py", [f"def f({'x' * 300}):"], chars=1_000).rows
    assert len(row.text) == MAX_ROW_CHARS and row.text.endswith("…")


TEXTS = st.lists(
    st.one_of(
        st.text(alphabet="abc (){}[]<>:;=#*&,.\t\"'`~-_\\@!?0AZ", max_size=60),
        st.sampled_from(["def f():", "  class A {", "## x", "```", '  "k": 1', "[t]", "func f() {", "a: b"]),
    ),
    max_size=30,
)
NAMES = st.sampled_from([*(f"a{suffix}" for suffix in module._BY_SUFFIX), *module._BY_NAME, "a.txt"])


@given(NAMES, TEXTS, st.integers(0, 20), st.integers(0, 500))
def test_rows_are_lines_of_the_file_in_order_and_within_the_limit(
    name, lines, after: int, chars: int
) -> None:
    found = outline(name, lines, after=after, chars=chars)
    assert [row.number for row in found.rows] == sorted({row.number for row in found.rows})
    for number, text in found.rows:
        assert number > after and lines[number - 1].rstrip() == text
    assert sum(len(f"{row.number}\t{row.text}\n") for row in found.rows) <= chars
    everything = outline(name, lines, after=after, chars=100_000)
    assert len(everything.rows) == len(found.rows) + found.left_out


HOSTILE = [
    "a " * 200,
    "a<" * 200,
    "(" * 400,
    " " * 400,
    "public " * 57,
    "\t" * 400,
    "a:" * 200,
    "x=" * 200,
    "a, " * 130,
]


@pytest.mark.parametrize("name", sorted({suffix: f"a{suffix}" for suffix in module._BY_SUFFIX}.values()))
def test_no_line_takes_long(name: str) -> None:
    """Bad input: lines that make a careless expression backtrack."""
    for line in HOSTILE:
        begin = time.process_time()
        outline(name, [line] * 100, chars=1_000)
        assert time.process_time() - begin < 0.5, line[:20]
