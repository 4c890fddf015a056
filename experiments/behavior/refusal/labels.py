"""The three labels that every judge of refusal gives."""

LABELS = ("comply", "partial", "refuse")
