"""Named positions: which tokens of the *unpadded* prompt a name stands for.

For a prompt of tokens t0 ... t(N-1), whose instruction is t(a) ... t(b-1):

| name | tokens |
|---|---|
| `mean_instruction` | t(a) ... t(b-1), averaged |
| `instruction_last` | t(b-1) |
| `template_k` | t(b-1+k): the k-th token after the instruction |
| `prompt_last` | t(N-1), whose output is the first answer token |
| `quote_last` | the last token of the quote |

Everything is resolved before padding, so that no padding side can shift it.
"""

from __future__ import annotations

from collections.abc import Iterable

from hooks.activations import template_offset
from hooks.prompts import Rendered


def token_range(rendered: Rendered, position: str) -> tuple[int, int]:
    """Return the half-open token range that a position name stands for; wide ranges are averaged.

    Raises:
        ValueError: the prompt has no such position; names the prompt, the position and those
            that it has.
    """
    start, end = rendered.spans["instruction"]
    last = len(rendered)
    offset = template_offset(position)
    if position == "mean_instruction":
        return start, end
    if position == "instruction_last":
        return end - 1, end
    if position == "prompt_last":
        return last - 1, last
    if position == "quote_last" and "quote" in rendered.spans:
        quote_end = rendered.spans["quote"][1]
        return quote_end - 1, quote_end
    if offset is not None and end - 1 + offset < last:
        return end - 1 + offset, end + offset
    raise ValueError(
        f"positions: prompt {rendered.id!r} has no position {position!r}; "
        f"it has {', '.join(positions_of(rendered))}"
    )


def positions_of(rendered: Rendered) -> tuple[str, ...]:
    """Return every position name that a prompt has, in the order of its tokens."""
    n_template = len(rendered) - rendered.spans["instruction"][1]
    quote = ("quote_last",) if "quote" in rendered.spans else ()
    template = tuple(f"template_{k}" for k in range(1, n_template + 1))
    return ("mean_instruction", *quote, "instruction_last", *template, "prompt_last")


def check_positions(prompts: Iterable[Rendered], positions: Iterable[str]) -> None:
    """Raise ValueError if a prompt lacks one of the positions."""
    positions = tuple(positions)
    for rendered in prompts:
        for position in positions:
            token_range(rendered, position)
