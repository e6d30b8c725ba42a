"""Memory and context management for LLM agents: seven thin layers, cheapest first."""

__version__ = "0.1.0"
