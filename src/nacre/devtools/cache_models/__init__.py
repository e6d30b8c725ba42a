"""The prompt-cache rules of Anthropic and OpenAI as pure functions."""
