"""The model from outside: load, render, run, capture, generate, intervene."""

from __future__ import annotations

from hooks.activations import SITES, Activations, CaptureSpec
from hooks.prompts import Message, Prompt, Rendered, render

__all__ = [
    "SITES",
    "Activations",
    "CaptureSpec",
    "Message",
    "Prompt",
    "Rendered",
    "render",
]
