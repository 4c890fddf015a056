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
# # Where does it break?
#
# A probe reads an outcome, and the words do not say it. *Which stage* lost it: was it never there beyond the text, did it
# not reach the place where the model answers about itself, is it there and not read out, or said and not readable? Here the
# question is put to three things in turn: to numbers whose breakdown is known, to a small transformer in which one was
# planted, and to the embedded model. It takes about four minutes on two cores.

# %%
import os
from pathlib import Path

from experiments import Experiment
from experiments.breakdown import diagnose
from experiments.organisms.build import build
from experiments.organisms.scored_simulation import Scorer
from experiments.organisms.simulate import simulate
from experiments.organisms.verify import verify

short = "SELFPROBE_SHORT" in os.environ  # as the tests run it: few items, and the organism alone
folder = Path("runs/where-it-breaks")  # picked up if this notebook is run again

# %% [markdown]
# ## On numbers
#
# `simulate` plants a breakdown into states, margins and answers; `Scorer` fits the probes as a run does. `diagnose` is a pure
# function on the out-of-fold scores: every inequality is held, failed, or left open by its interval.

# %%
simulated = simulate("not_read_out", n=600, seed=3)
breakdown = Scorer().score(simulated).diagnose()
print(breakdown.stage, "-", breakdown.sentence)
breakdown.to_frame()[["name", "estimate", "low", "high", "margin", "verdict"]].round(3)

# %% [markdown]
# On a tenth of the items the same breakdown is left open, and the diagnosis says how many groups would decide it.

# %%
few = Scorer().score(simulate("not_read_out", n=60, seed=3)).diagnose()
print(few.stage, "-", few.sentence)

# %% [markdown]
# Anyone can hand it arrays of their own. Without folds all scores count as those of one given model.

# %%
data = simulated
by_hand = diagnose(
    data.outcome,
    data.groups,
    task_scores=data.task[:, -1, 0],
    text_scores=data.text[:, 0],
    report_scores=data.slot[:, -1, 0],
    transferred_scores=data.slot[:, -1, 0],
    readout_margin=data.margin,
    parsed_answer=data.answer,
)
print(by_hand.stage, "- one coordinate of the states is no probe")

# %% [markdown]
# ## On an organism
#
# A transformer of three layers, trained from scratch (a minute, then it is kept). Whether it replies "done" hangs on the
# exclusive or of two words that stand apart, which no bag of words can learn. What it says about its own reply reads
# another, visible word. So the outcome is known to be there and known not to be read out. `verify` checks that without
# the diagnosis: by swapping words, by patching states, and by a probe on fresh sentences.

# %%
organism = build("not_read_out")
for check in verify(organism, n_changed=40, n_probed=1000 if short else 10_000).checks:
    print(check)

# %%
run = Experiment("xor", str(organism), n=120 if short else 600, words="short").run(
    folder / "organism"
)
found = run.breakdown()
print(found.stage, "-", found.sentence)
run.contrast().query("kind != 'cell'")[["predictor", "auroc", "ci_low", "ci_high"]].dropna().round(
    2
)

# %% [markdown]
# Layer by layer: the probe in the task prompt, at the answer slot of the self-prediction, the task probe moved there, and
# the log-odds of the words by the logit lens.

# %%
location = run.locate()
print(location.loss["sentence"])
location.to_frame().round(2)

# %% [markdown]
# The words that this run has earned, and what would test the others:

# %%
for claim in run.claims():
    print(claim)

# %% [markdown]
# ## On the embedded model
#
# SmolLM2-135M-Instruct, will it decline? Few items, to keep this short; the README has the numbers on 320.

# %%
refusal = Experiment("refusal", "smollm2-135m", preset="quickstart", n=160)
model_run = run if short else refusal.run(folder / "refusal")
print(model_run.breakdown().stage, "-", model_run.breakdown().sentence)
print(model_run.locate().loss["sentence"])
model_run.breakdown().to_frame()[["name", "estimate", "low", "high", "verdict", "groups_needed"]]

# %%
model_run.plot_layers()
