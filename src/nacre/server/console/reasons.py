"""The parts of a recall score in words: many features of the ranking, a few reasons."""

from __future__ import annotations

from collections.abc import Mapping

SHOWN = 5
REASONS = {
    "words in common": (
        "passage", "covered", "covered_squared", "share", "head_same", "body_same", "matches", "terms",
        "head_explained", "rarest",
    ),
    "words side by side": ("pairs", "near"),
    "the text around it": (
        "before", "after", "before_2", "after_2", "before_told", "after_told", "window_covered",
        "folder_best",
    ),
    "related words": (
        "head_concept", "head_near", "body_concept", "body_near", "reached", "head_related", "characters",
        "prefixes",
    ),
    "meaning": ("similar", "cosine"),
    "who says it": (
        "by_asked_author", "asked_passage", "mentions_asked", "by_assistant", "told_by_assistant",
        "told_best",
    ),
    "kind of memory": (
        "is_question", "first_person", "rule", "preference", "rule_covered", "preference_covered", "user",
        "feedback", "project", "reference", "task_feedback", "task_user", "place_reference", "person_project",
    ),
    "what is asked for": (
        "wants_time", "wants_duration", "wants_number", "wants_place", "time_offered", "number_offered",
        "date_inside", "date_near",
    ),
    "length": ("length", "document_length"),
}  # fmt: skip
"""Features of the ranking by what they are about."""
_REASON_OF = {feature: reason for reason, features in REASONS.items() for feature in features}


def reasons(parts: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return the reasons that count most, each with its share of the score."""
    sums: dict[str, float] = {}
    for feature, value in parts.items():
        if value:
            name = _REASON_OF.get(feature, feature.replace("_", " "))
            sums[name] = sums.get(name, 0.0) + value
    ranked = sorted(sums.items(), key=lambda one: -abs(one[1]))
    return [one for one in ranked if abs(one[1]) >= 0.05][:SHOWN]
