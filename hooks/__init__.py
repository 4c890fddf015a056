"""The model from outside: load, render, run, capture, generate, intervene."""

from __future__ import annotations

from hooks.activations import SITES, Activations, CaptureSpec
from hooks.capture import capture, check_lengths, option_logprobs
from hooks.completions import Completion
from hooks.generation import generate
from hooks.intervention import Ablate, Patch, Steer, intervene
from hooks.kept import Kept
from hooks.model import Model, load_model
from hooks.next_token import NextToken, next_tokens
from hooks.plan import CapturePlan, plan_capture
from hooks.prompts import Message, Prompt, Rendered, render
from hooks.random_weights import randomly_initialized
from hooks.readout import lens_log_odds, logit_lens, spellings
from hooks.weights import available_models

__all__ = [
    "SITES",
    "Ablate",
    "Activations",
    "CapturePlan",
    "CaptureSpec",
    "Completion",
    "Kept",
    "Message",
    "Model",
    "NextToken",
    "Patch",
    "Prompt",
    "Rendered",
    "Steer",
    "available_models",
    "capture",
    "check_lengths",
    "generate",
    "intervene",
    "lens_log_odds",
    "load_model",
    "logit_lens",
    "next_tokens",
    "option_logprobs",
    "plan_capture",
    "randomly_initialized",
    "render",
    "spellings",
]
