"""What whoever lacks a framework reads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nacre.formatting import how_to_install


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "vendor", "extra"),
    [
        ("anthropic_memory", "anthropic", "anthropic"),
        ("langchain", "langchain", "langchain"),
        ("openai_agents", "agents", "openai-agents"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
    ],
)
def test_without_its_framework_an_adapter_says_what_to_install(module: str, vendor: str, extra: str) -> None:
    """The last line is what a person reads; `No module named 'agents'` would help nobody."""
    hidden = f"import sys; sys.modules[{vendor!r}] = None; import nacre.integrations.{module}"
    ended = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True)
    assert ended.stderr.splitlines()[-1].startswith("ImportError: this module needs ")
    assert ended.stderr.endswith(f": {how_to_install(extra)}\n")
