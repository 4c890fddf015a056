"""The states that heads read, as something that gradients flow through to the trunk."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from experiments.self_prediction.continuations import BATCH_TOKENS
from experiments.self_prediction.place import Place
from hooks import Model, Rendered
from hooks.backends.torch import Recorder, model_inputs, stopping_after
from hooks.batching import plan_batches
from hooks.plan import may_share
from hooks.positions import check_positions


def differentiable_states(
    model: Model, prompts: Sequence[Rendered], place: Place
) -> Float[Tensor, "prompt d_model"]:
    """The state of each prompt at a place: `capture`'s numbers, in float32, with their gradients.

    The caller's autocast and gradient mode hold. No block above the place is run.

    Args:
        model: its module may carry adapters.
        prompts: in any order, each id once.
        place: site, layer and position.

    Raises:
        ValueError: a site or layer that the model lacks, or a position that a prompt lacks.
    """
    spec = place.spec.resolve(model.n_layers)
    model.architecture.require(spec.sites)
    check_positions(prompts, spec.positions)
    # By their places: an epoch's end and the next one's beginning may ask for a prompt twice in a step.
    numbered = [Rendered(str(i), one.token_ids, one.spans) for i, one in enumerate(prompts)]
    found: list[Tensor] = [torch.empty(0)] * len(prompts)
    for planned in plan_batches(
        numbered,
        batch_tokens=BATCH_TOKENS,
        share=may_share(model),
        window=model.architecture.window,
        rope_switch=model.architecture.rope_switch,
    ):
        batch = planned.lay_out(model.pad_id)
        recorder = Recorder(model, batch, spec)
        with recorder.watching(), stopping_after(model, spec):
            model.architecture.backbone(**model_inputs(model, batch))
        recorder.check_filled()
        for id, state in zip(batch.ids, recorder.sites[place.site][:, 0, 0], strict=True):
            found[int(id)] = state
    return torch.stack(found)
