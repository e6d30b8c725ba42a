"""nacre as an agent of editors: the Agent Client Protocol on stdin and stdout.

The SDK, `agent-client-protocol`, is imported when a client has been connected.
"""
