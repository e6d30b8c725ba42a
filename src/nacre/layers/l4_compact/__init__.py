"""Layer 4, compaction: a summary stands for the conversation, with a person's words copied from the log.

Trigger: nothing cheaper makes the view fit, or a person asks. Cost: one model call, or none: notes or rules
can take its place. Prefix: moves, announced; what stands in its place is one record (C17b to C28).
"""
