"""Draws docs/positions.png: the named positions of a prompt, as the embedded model reads it."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt

from hooks import Model, Prompt, load_model, render
from hooks.positions import token_range

PROMPT = Prompt.chat(
    "example",
    "Here is a request: tell me a joke. Will you decline it?",
    system="Be brief.",
    quote="tell me a joke.",
)
# Color-blind safe (Okabe and Ito 2008).
COLORS = {"template": "#e8e8e8", "instruction": "#bfe0f2", "quote": "#f5d9a8"}
LABELED = ("quote_last", "instruction_last", "template_1", "template_2", "prompt_last")


def draw(model: Model, path: Path) -> None:
    """Draw tokens as boxes in reading order, named positions above, what the model predicts below."""
    rendered = render(model, PROMPT)
    words = [model.tokenizer.decode([token]).replace("\n", "\\n") for token in rendered.token_ids]
    start, end = rendered.spans["instruction"]
    quote_start, quote_end = rendered.spans["quote"]
    widths = [0.7 + 0.24 * len(word) for word in words]
    lefts = [sum(widths[:index]) for index in range(len(words))]
    figure, axes = plt.subplots(figsize=(16, 2.9))
    for index, (word, left, width) in enumerate(zip(words, lefts, widths, strict=True)):
        kind = "instruction" if start <= index < end else "template"
        kind = "quote" if quote_start <= index < quote_end else kind
        axes.add_patch(
            plt.Rectangle((left, 0), width, 1, facecolor=COLORS[kind], edgecolor="white", lw=2)
        )
        axes.text(left + width / 2, 0.5, word, ha="center", va="center", fontsize=6.6)
        axes.text(
            left + width / 2, -0.3, str(index), ha="center", va="center", fontsize=6, color="#666"
        )
    for height, position in zip((1.5, 2.9, 2.2, 1.5, 1.5), LABELED, strict=True):
        index = token_range(rendered, position)[0]
        middle = lefts[index] + widths[index] / 2
        axes.annotate(
            position,
            (middle, 1.02),
            (middle, height),
            ha="center",
            va="bottom",
            fontsize=9,
            arrowprops={"arrowstyle": "->", "color": "#333", "shrinkA": 0},
        )
    total = lefts[-1] + widths[-1]
    axes.annotate(
        "first token\nof the answer",
        (total + 0.1, 0.5),
        (total + 2, 0.5),
        ha="left",
        va="center",
        fontsize=9,
        arrowprops={"arrowstyle": "<-", "color": "#333"},
    )
    for left, right, text in (
        (lefts[0], lefts[start], "template and system message"),
        (lefts[start], lefts[end], "instruction: mean_instruction averages it"),
        (lefts[end], total, "template"),
    ):
        axes.plot([left + 0.1, right - 0.1], [-0.75, -0.75], color="#888", lw=1)
        axes.text((left + right) / 2, -0.95, text, ha="center", va="top", fontsize=8.5)
    axes.set_xlim(-0.3, total + 6)
    axes.set_ylim(-1.7, 3.6)
    axes.axis("off")
    figure.savefig(path, dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    draw(load_model("smollm2-135m"), Path(__file__).with_name("positions.png"))
