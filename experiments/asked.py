"""What a run puts to a model, chosen and checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.config import RunConfig
from experiments.elicitation import ANSWER_TOKENS, option_spellings
from experiments.items import first_groups, load_items
from experiments.tasks import Elicitation, Item, Task
from hooks import Model, Prompt, check_lengths, plan_capture


def choose_items(task: Task, config: RunConfig) -> list[Item]:
    """The user's own items or the task's, whole groups up to the number asked for.

    Raises:
        ValueError: as `load_items`.
    """
    if config.items is not None:
        items = load_items(config.items, task.name, needs_answers=task.needs_answers)
    else:
        items = task.items()
    return items if config.n is None else first_groups(items, config.n)


def asked_of(task: Task, config: RunConfig) -> tuple[Elicitation, ...]:
    """The elicitations of a run: both orders of its paraphrases."""
    return task.elicitations[: 2 * config.paraphrases]


def check_groups(chosen: Mapping[str, Sequence[Item]], config: RunConfig) -> None:
    """Raise ValueError where a task (by name) has fewer groups than folds."""
    for name, items in chosen.items():
        n_groups = len({item.group for item in items})
        if n_groups < config.folds:
            raise ValueError(
                f"items: {n_groups} groups for task {name!r}, but {config.folds} folds "
                "need at least as many; give more groups"
            )


def check_prompts(model: Model, chosen: Mapping[Task, Sequence[Item]], config: RunConfig) -> None:
    """Refuse what would fail in the middle of the work.

    Raises:
        ValueError: a prompt or an answer too long, a site, layer, position or option that the model lacks.
    """
    prompts: list[Prompt] = []
    reports: list[Prompt] = []
    for task, items in chosen.items():
        own = [item.prompt() for item in items]
        asked = [e.prompt(item) for item in items for e in asked_of(task, config)]
        check_lengths(model, own, task.max_new_tokens)
        check_lengths(model, asked, ANSWER_TOKENS)
        prompts += own
        reports += asked
    options = option_spellings([e for task in chosen for e in asked_of(task, config)])
    plan_capture(model, prompts, config.task_spec())
    plan_capture(model, reports, config.report_spec(), options=options)
