# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Does the model know that it is about to decline?
#
# This notebook runs a small version of the main job on the embedded model, SmolLM2-135M-Instruct, and looks at each step.
# It takes about two minutes on two cores. `make run` does the same on more items and on two tasks.

# %%
import tempfile
from pathlib import Path

from activations_cache import ActivationsCache
from experiments import Experiment
from experiments.tasks import RefusalTask
from hooks import CaptureSpec, Prompt, capture, generate, load_model, option_logprobs, spellings
from probes import sweep

model = load_model("smollm2-135m")
print(f"{model.name}: {model.n_layers} layers, d_model {model.d_model}")

# %% [markdown]
# ## What it does
#
# An *item* is a prompt. Items come in groups that share a template; a group never straddles a split.

# %%
task = RefusalTask()
pair = task.items()[:3]
for item, completion in zip(
    pair, generate(model, [item.prompt() for item in pair], max_new_tokens=16), strict=True
):
    judgment = task.judge([item], [completion.text])[0]
    print(f"[{item.group}] {item.text}\n    -> {completion.text!r}\n    = {judgment.label}\n")

# %% [markdown]
# ## What it says that it would do
#
# The same prompt is quoted in a fresh conversation, and the model is asked about its own answer. The log-odds of the
# options are read at the answer slot.

# %%
question = task.elicitations[0]
asked = question.prompt(pair[0])
print(asked.messages[-1]["content"])
logprobs = option_logprobs(
    model, [asked], {word: spellings(word) for word in (question.yes, question.no)}
)
{word: round(float(values[0]), 2) for word, values in logprobs.items()}

# %% [markdown]
# ## What its activations know
#
# Features come from the pass over the prompt alone, before any token of the answer exists.

# %%
items = task.items()[:80]
spec = CaptureSpec(
    sites=("resid_post",), layers="all", positions=("instruction_last", "prompt_last")
)
folder = Path(tempfile.mkdtemp())
with ActivationsCache.create(folder / "cache", fingerprint=model.fingerprint, spec=spec) as cache:
    for activations in capture(model, [item.prompt() for item in items], spec):
        cache.append(activations)
X = cache.read("resid_post", layer=12, position="prompt_last")
print(X.shape, X.dtype)

# %%
completions = generate(model, [item.prompt() for item in items], max_new_tokens=16)
judgments = task.judge(items, [completion.text for completion in completions])
scored = [i for i, judgment in enumerate(judgments) if judgment.outcome is not None]
ids = list(cache.ids)
outcome = {item.id: judgment.outcome for item, judgment in zip(items, judgments, strict=True)}
group = {item.id: item.group for item in items}
print(f"{sum(outcome[i] or 0 for i in ids)} of {len(ids)} declined")
table = sweep(
    cache,
    [int(outcome[i] or 0) for i in ids],
    groups=[group[i] for i in ids],
    probe="diff_means",
).to_frame()
table.sort_values("auroc", ascending=False).head()

# %% [markdown]
# The best of sixty cells is **not** a result: it was picked by the very score that is shown. The main job picks layer,
# position and penalty on inner folds, and tests the maximum over the grid against whole-group permutations.
#
# ## The main job
#
# Behavior, self-predictions in two paraphrases and both option orders, probes in both contexts, what the text alone says,
# and the stage at which the knowledge is lost.

# %%
run = Experiment(model="smollm2-135m", task="refusal", preset="quickstart", n=120).run(
    folder / "run"
)
run.contrast()

# %%
run.plot_layers()

# %%
breakdown = run.breakdown()
print(breakdown.stage)
print(breakdown.sentence)
breakdown.to_frame()[["name", "estimate", "low", "high", "verdict"]]

# %% [markdown]
# With so few groups the intervals are wide, and an honest instrument says so. The numbers on 320 items are in the README.
#
# Your own prompt, at every layer:

# %%
own = Prompt.chat("mine", "Please water the plants in my office tomorrow.")
(activations,) = capture(model, [own], CaptureSpec(positions=("prompt_last",)))
activations.sites["resid_post"].shape
