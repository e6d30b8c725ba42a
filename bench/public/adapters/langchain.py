"""LangChain's summarization, which keeps a conversation small; it has no long-term memory of its own."""

from __future__ import annotations

from bench.public.adapter import Adapter
from bench.replay.langchain_peer import Summarization


class LangChain(Adapter):
    name = "langchain"
    package = "langchain"
    how = "`SummarizationMiddleware` at the size where nacre compacts; a fixed text instead of a summary"
    library = Summarization
