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
# # Does the model use what the probe reads?
#
# A direction can decode well and do nothing when it is changed. Here the residual stream is moved along the probe's
# direction: on an organism, where it is known what must happen, and on the embedded model. The same direction is applied in
# whichever context is being measured. It takes about five minutes on two cores.

# %%
import os
from dataclasses import replace
from pathlib import Path

import pandas as pd

from experiments import Experiment
from experiments.causal import CausalSettings, causal
from experiments.causal.figures import plot_dissociation, plot_doses
from experiments.organisms.build import build

short = "SELFPROBE_SHORT" in os.environ  # as the tests run it: few items, and the organism alone
folder = Path("runs/causal")  # picked up if this notebook is run again


def effects(found):
    """The dissociation table: what moved, by how much, and whether that beats the nulls."""
    rows = found["dissociation"]["rows"]
    return pd.DataFrame(rows).T[["estimate", "ci", "p", "n", "n_null", "moved"]]


# %% [markdown]
# ## An organism that is blind to itself
#
# Its reply hangs on the exclusive or of two words; what it says about its own reply reads another word. Moving it along the
# direction of the exclusive or must move the reply and not the report.

# %%
organism = build("not_read_out")
run = Experiment("xor", str(organism), n=120 if short else 400, words="short").run(
    folder / "organism"
)
settings = CausalSettings(n_null=40 if short else 199, n_items=24, n_null_items=8)
# The exclusive or was planted behind block 1, at the last token.
planted = replace(settings, layer=1, position="prompt_last")
found = causal(run, settings=planted)["tasks"]["xor"]
print(found["dissociation"]["sentence"])
effects(found)

# %%
plot_doses(found)
# %%
plot_dissociation(found)
# %% [markdown]
# ## The embedded model
#
# Will it decline? The behavior is the log-odds of the openings of a refusal at the first token; the report is the log-odds of
# the words at the answer slot. 199 random and shuffled-label directions are the null: with fewer no small p-value exists.

# %%
refusal = Experiment("refusal", "smollm2-135m", preset="quickstart", n=160)
model_run = run if short else refusal.run(folder / "refusal")
moved = causal(model_run, settings=settings)["tasks"][model_run.result()["task"]]
print(moved["dissociation"]["sentence"])
effects(moved)

# %% [markdown]
# What the same doses do to text that has nothing to do with the task: where the divergence or the perplexity goes beyond its
# bound, a dose is marked and not interpreted.

# %%
guards = moved["guards"]
pd.DataFrame(guards["probe"] | {"interpreted": guards["within"]}, index=guards["doses"]).round(3)

# %%
plot_doses(moved)
# %% [markdown]
# The claims of the run now heed what was intervened on:

# %%
for claim in model_run.claims():
    print(claim)
