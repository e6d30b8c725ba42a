"""A provider without a model: answers plain requests with tool calls, offline and deterministically."""
