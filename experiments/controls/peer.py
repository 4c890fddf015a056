"""Another model reads the same items: its activations, and what it does itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from activations_cache import ActivationsCache
from experiments.asked import samples_of
from experiments.behavior import Behavior, LocalRunner, label_behavior
from experiments.captures import capture_into
from experiments.config import RunConfig
from experiments.controls.peer_words import LogOdds, check_questions, read_peer_words
from experiments.progress import Reporter
from experiments.records import read_rows, write_rows
from experiments.run_folder import RunFolder
from experiments.tasks import Item, Task
from hooks import CaptureSpec, Model, Prompt, check_lengths, load_model, plan_capture


@dataclass(frozen=True)
class Peer:
    """What is known of the peer: its name, its states, its behavior by item id, and its words about itself."""

    name: str
    cache: ActivationsCache
    behavior: Mapping[str, Behavior]
    words: LogOdds

    @classmethod
    def open(cls, config: RunConfig, folder: RunFolder) -> Peer | None:
        """The peer of a run, or None where it has none; the cache is to be closed."""
        if config.peer is None:
            return None
        rows = [Behavior.from_row(row) for row in read_rows(folder.peer_behavior)]
        cache = ActivationsCache.open(folder.peer_cache)
        behavior = {row.item: row for row in rows}
        return cls(config.peer, cache, behavior, read_peer_words(folder))


def load_peer(config: RunConfig, items: Mapping[Task, Sequence[Item]]) -> Model:
    """Load the peer and check that it can read all items, answer them and be asked about itself.

    Raises:
        ValueError: it cannot be loaded, an item is too long for it, it lacks the run's site, or its vocabulary does not
            tell the options of a question apart; names the peer.
    """
    assert config.peer is not None
    try:
        model = load_model(config.peer, dtype=config.dtype)
        prompts: list[Prompt] = []
        for task, items_of_task in items.items():
            own = [item.prompt() for item in items_of_task]
            check_lengths(model, own, task.max_new_tokens)
            prompts += own
        plan_capture(model, prompts, peer_spec(config))
        check_questions(model, config, items)
    except ValueError as error:
        raise ValueError(f"peer: {str(error).removeprefix('model: ')}") from error
    return model


def collect_peer(
    folder: RunFolder,
    config: RunConfig,
    model: Model,
    items: Mapping[Task, Sequence[Item]],
    reporter: Reporter,
) -> None:
    """Let the peer read the items into a cache and answer them; what is there of both is picked up."""
    prompts = [item.prompt() for own in items.values() for item in own]
    capture_into(
        folder.peer_cache,
        model,
        prompts,
        peer_spec(config),
        reporter=reporter,
        stage="peer: activations",
    )
    store = folder.peer_behavior.with_suffix(".partial.jsonl")
    rows: list[Behavior] = []
    for task, own in items.items():
        run = LocalRunner(
            model,
            samples=samples_of(task, config),
            seed=config.seed,
            store=store,
            reporter=reporter,
            stage=f"{task.name}: peer's behavior",
        )
        rows += label_behavior(run, task, own)
    write_rows(folder.peer_behavior, (row.to_json() for row in rows))
    store.unlink(missing_ok=True)


def peer_spec(config: RunConfig) -> CaptureSpec:
    """The run's site in all layers, at every position that all models have."""
    return CaptureSpec(
        sites=(config.site,), positions=("instruction_last", "mean_instruction", "prompt_last")
    )
