"""Model providers: the protocol, its adapters, retry and fallback, and the choice of a provider.

SDKs are imported by the first call that needs them. Adapters are `anthropic`, `openai`, `embedded` and
`scripted`; `choose` selects one.
"""

from nacre.providers.base import Capabilities, Provider, Request, complete
from nacre.providers.retry import RetrySettings, with_retry

__all__ = ["Capabilities", "Provider", "Request", "RetrySettings", "complete", "with_retry"]
