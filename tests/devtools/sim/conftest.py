"""A running simulator and the two official SDKs pointed at it; every client is closed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from nacre.devtools.sim import Simulator

MODEL = "claude-opus-5-5"


@pytest.fixture
async def sim() -> AsyncIterator[Simulator]:
    async with Simulator() as running:
        yield running


@pytest.fixture
async def claude(sim: Simulator) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(api_key="any", base_url=sim.url, max_retries=0) as client:
        yield client


@pytest.fixture
async def gpt(sim: Simulator) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(api_key="any", base_url=f"{sim.url}/v1", max_retries=0) as client:
        yield client
