"""Counters of a server process in Prometheus text: numbers and names of operations, no content."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
"""Upper bounds of the histogram of durations, in seconds."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Requests by operation and status, and their durations."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: Counter[tuple[str, float]] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self.in_progress = 0

    def count(self, operation: str, status: int, seconds: float) -> None:
        self._requests[operation, status] += 1
        self._seconds[operation] += seconds
        for bound in BUCKETS:
            self._buckets[operation, bound] += seconds <= bound

    def text(self, gauges: Mapping[str, float]) -> str:
        """Return all figures; `gauges` adds those that others count."""
        lines = ["# TYPE nacre_requests_total counter"]
        lines += [
            f'nacre_requests_total{{operation="{name}",status="{status}"}} {number}'
            for (name, status), number in sorted(self._requests.items())
        ]
        lines.append("# TYPE nacre_request_seconds histogram")
        for name in sorted(self._seconds):
            number = sum(found for (each, _), found in self._requests.items() if each == name)
            below = {f"{bound:g}": self._buckets[name, bound] for bound in BUCKETS} | {"+Inf": number}
            lines += [
                f'nacre_request_seconds_bucket{{operation="{name}",le="{bound}"}} {found}'
                for bound, found in below.items()
            ]
            lines.append(f'nacre_request_seconds_sum{{operation="{name}"}} {self._seconds[name]:.6f}')
            lines.append(f'nacre_request_seconds_count{{operation="{name}"}} {number}')
        for name, value in {"nacre_requests_in_progress": self.in_progress, **gauges}.items():
            lines += [f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"
