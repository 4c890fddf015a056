"""What a run puts to a model, chosen and checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.config import RunConfig
from experiments.elicitation import Questions, answer_length, option_spellings
from experiments.items import first_groups, load_items
from experiments.tasks import Elicitation, Item, Task, ValueQuestion
from hooks import Model, Prompt, check_lengths, plan_capture


def choose_items(task: Task, config: RunConfig) -> list[Item]:
    """The user's own items or the task's, whole groups up to the number asked for.

    Of a task that makes its items with the model, all drafts.

    Raises:
        ValueError: as `load_items`; an item lacks what the task needs.
    """
    items = task.items() if config.items is None else _own_items(task, config)
    if config.answer_revealed and not all(item.answers for item in items):
        raise ValueError(
            f"answer_revealed: items of task {task.name!r} have no reference answers; leave it out"
        )
    return items if config.n is None or task.makes_items else first_groups(items, config.n)


def _own_items(task: Task, config: RunConfig) -> list[Item]:
    assert config.items is not None
    items = task.read_items(config.items)
    if items is not None and config.columns:
        raise ValueError(f"columns: {config.items} has none to map; leave them out")
    if items is None:
        items = load_items(
            config.items, task.name, columns=config.columns, needs_answers=task.needs_answers
        )
    return task.adopt(items)


def asked_of(task: Task, config: RunConfig) -> Questions:
    """What a run asks about every item of a task."""
    return Questions.of(task, config.paraphrases, config.words, config.asks_other_contexts)


def asked_prompts(
    question: Elicitation | ValueQuestion, items: Sequence[Item], config: RunConfig
) -> list[Prompt]:
    """One question put to every item, with the reference answer where the run reveals it."""
    return [question.prompt(item, answer_revealed=config.answer_revealed) for item in items]


def samples_of(task: Task, config: RunConfig) -> int:
    """Completions a prompt: as many as the run asks for, or as the task needs."""
    return max(config.samples, task.min_samples)


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
        check_lengths(model, own, task.max_new_tokens)
        prompts += own
        questions = asked_of(task, config)
        for _, question in questions.all:
            asked = asked_prompts(question, items, config)
            check_lengths(model, asked, answer_length(question))
            if question in questions.captured:
                reports += asked
        for apart in questions.apart.values():
            asked = [prompt for one in apart for prompt in asked_prompts(one, items, config)]
            plan_capture(model, asked, config.report_spec(), options=option_spellings(apart))
    options = option_spellings([e for task in chosen for e in asked_of(task, config).options])
    plan_capture(model, prompts, config.task_spec())
    plan_capture(model, reports, config.report_spec(), options=options)


def check_drafts(model: Model, drafts: Mapping[Task, Sequence[Item]], config: RunConfig) -> None:
    """The same of drafts that the model is yet to make items of: what they are asked is not known."""
    prompts = [item.prompt() for items in drafts.values() for item in items]
    for task, items in drafts.items():
        check_lengths(model, [item.prompt() for item in items], task.max_new_tokens)
    if prompts:
        plan_capture(model, prompts, config.task_spec())
