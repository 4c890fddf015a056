"""The Python surface of the design, run as written on the embedded model."""

import numpy as np
import pytest

from experiments.items import first_groups
from experiments.tasks import RefusalTask

DESIGN_BLOCK = """
from hooks import load_model, Prompt, CaptureSpec, capture, generate, option_logprobs, intervene, Steer, Ablate, Patch
from activations_cache import ActivationsCache
from probes import LogisticProbe, RidgeProbe, DiffMeansProbe, LDAProbe, sweep
from experiments import Experiment, load_run

model = load_model("smollm2-135m")
spec  = CaptureSpec(sites=("resid_post",), layers="all", positions=("instruction_last", "prompt_last"))
cache = ActivationsCache.create("cache", fingerprint=model.fingerprint, spec=spec)
for acts in capture(model, prompts, spec):
    cache.append(acts)
X = cache.read("resid_post", layer=12, position="prompt_last")          # float32 [n_items, d_model]
table = sweep(cache, y, groups=groups, probe="logistic").to_frame()      # a row a cell

run = Experiment(model="smollm2-135m", task="refusal").run("runs/demo")
run.contrast(); run.breakdown(); run.plot_layers()
"""


@pytest.fixture
def few_refusal_items(monkeypatch: pytest.MonkeyPatch) -> None:
    all_items = RefusalTask().items()
    monkeypatch.setattr(RefusalTask, "items", lambda self: first_groups(all_items, 60))


def test_design_block_runs_as_written(tmp_path, monkeypatch, few_refusal_items) -> None:
    monkeypatch.chdir(tmp_path)
    items = RefusalTask().items()[:60]
    names = {
        "prompts": [item.prompt() for item in items],
        "y": np.arange(60) % 2,
        "groups": [item.group for item in items],
    }

    exec(DESIGN_BLOCK, names)

    assert names["X"].shape == (60, names["model"].d_model)
    assert names["X"].dtype == np.float32
    assert len(names["table"]) == names["model"].n_layers * 2
    assert (tmp_path / "runs/demo/report.html").exists()
    assert names["run"].breakdown().stage
    assert {"probe", "verbal", "text"} <= set(names["run"].contrast()["predictor"])
