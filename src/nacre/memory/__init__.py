"""What is known across sessions: a directory of plain Markdown, its index, ways to read and change it.

May import providers, store, tools, messages and below. Nothing is re-exported, because `nacre memory path`
must start quickly; the public name `nacre.Memory` is `nacre.memory.memory.Memory`.
"""
