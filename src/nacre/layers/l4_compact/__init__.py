"""Layer 4, compaction: a summary replaces the conversation, with the user's words copied from the log.

Trigger: nothing cheaper makes the view fit, or a person asks. Cost: one model call, or none: notes or rules
can take its place. Prefix: changes, announced; the replacement is one record (C17b to C28).
"""
