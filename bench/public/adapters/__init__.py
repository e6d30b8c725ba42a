"""Adapters by name; each module imports its program when it is used."""

ADAPTERS = {
    "nacre": "bench.public.adapters.nacre:Nacre",
    "nacre-embed": "bench.public.adapters.nacre:NacreEmbed",
    "mem0": "bench.public.adapters.mem0:Mem0",
    "agent-framework": "bench.public.adapters.agent_framework:AgentFramework",
    "langmem": "bench.public.adapters.langmem:LangMem",
    "basic-memory": "bench.public.adapters.basic_memory:BasicMemory",
    "langchain": "bench.public.adapters.langchain:LangChain",
    "bm25": "bench.public.adapters.bm25:Bm25",
}
