"""Where a model call goes: one port, adapters behind it, and the choice between them.

May import cache, messages, errors and clock. Vendors' packages are loaded by the first call that needs them;
adapters are in `anthropic`, `openai_compatible`, `embedded`, `scripted`, the choice between them in `choose`.
"""

from nacre.providers.base import Capabilities, Provider, Request, complete
from nacre.providers.retry import RetrySettings, with_retry

__all__ = ["Capabilities", "Provider", "Request", "RetrySettings", "complete", "with_retry"]
