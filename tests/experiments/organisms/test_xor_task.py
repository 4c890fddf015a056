"""The task of organisms: balanced groups, words that the tokenizer knows, a text that says nothing."""

from collections import defaultdict

import numpy as np
import pytest

from experiments import Experiment
from experiments.baselines import nested_text_stack, text_families
from experiments.organisms.recipes import ORGANISMS
from experiments.organisms.sentences import PERSON, PLACE, vocabulary
from experiments.organisms.training import N_LAYERS
from experiments.organisms.word_tokenizer import UNKNOWN, all_elicitations, make_tokenizer
from experiments.organisms.xor_task import XorTask, sentence_of
from experiments.tasks import TASKS
from hooks import Prompt, render
from probes import same_fold_auroc

ITEMS = XorTask().items()


def test_a_run_takes_it_though_it_is_not_listed() -> None:
    assert "xor" not in TASKS
    assert Experiment("xor").config.tasks == ("xor",)


def test_items_differ_and_every_group_is_balanced() -> None:
    assert len({item.text for item in ITEMS}) == len({item.id for item in ITEMS}) == len(ITEMS)
    groups = defaultdict(list)
    for item in ITEMS:
        groups[item.group].append(sentence_of(item))
    assert len(groups) >= 300
    for sentences in groups.values():
        bits = {(one.bit(PERSON), one.bit(PLACE)) for one in sentences}
        assert bits == {(0, 0), (0, 1), (1, 0), (1, 1)}
        planted = (PERSON, PLACE, "THING")
        shared = {
            tuple(w for i, w in enumerate(one.words) if i not in map(one.where, planted))
            for one in sentences
        }
        assert len(shared) == 1


def test_the_text_of_an_item_is_its_sentence() -> None:
    for item in ITEMS[:40]:
        words = sentence_of(item).words
        assert item.text.replace(".", " .").split() == list(words)


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [("stay", 1), ("Stay.", 1), ("leave", 0), ("maybe stay", None), ("", None)],
)
def test_the_first_word_of_a_reply_is_judged(reply: str, outcome: int | None) -> None:
    (judged,) = XorTask().judge(ITEMS[:1], [reply])
    assert judged.outcome == outcome
    assert (judged.reason == "") == (outcome is not None)


def prompts_of(item: int) -> list[Prompt]:
    event = XorTask.event
    questions = (*all_elicitations(), event.percent(), event.percent("other"))
    return [ITEMS[item].prompt(), *(question.prompt(ITEMS[item]) for question in questions)]


def test_the_tokenizer_knows_every_word() -> None:
    tokenizer = make_tokenizer()
    unknown = tokenizer.convert_tokens_to_ids(UNKNOWN)
    assert all(tokenizer.convert_tokens_to_ids(word) != unknown for word in vocabulary())
    for item in range(0, len(ITEMS), 100):
        for prompt in prompts_of(item):
            assert unknown not in render(tokenizer, prompt).token_ids


def test_a_window_ends_between_the_slot_and_the_quote_but_not_before_the_task_prompts_words() -> (
    None
):
    """What `not_transported` rests on: with a window of w, L layers reach L (w - 1) tokens back."""
    tokenizer = make_tokenizer()
    window = ORGANISMS["not_transported"].window
    assert window is not None
    reach = N_LAYERS * (window - 1)
    for item in ITEMS[::40]:
        sentence = sentence_of(item)
        at = [sentence.where(PERSON), sentence.where(PLACE)]
        task = render(tokenizer, item.prompt())
        assert len(task) - 1 - (task.spans["instruction"][0] + min(at)) <= reach
        assert abs(at[0] - at[1]) < window  # one layer joins the two
        for question in (*XorTask.elicitations, XorTask.event.percent()):
            quoting = render(tokenizer, question.prompt(item))
            assert len(quoting) - 1 - (quoting.spans["quote"][0] + max(at)) > reach


@pytest.mark.slow
def test_no_text_baseline_learns_the_feature() -> None:
    items = ITEMS[:600]
    y = np.array([sentence_of(item).feature for item in items])
    groups = np.array([item.group for item in items])
    families = text_families(
        [item.text for item in items],
        [item.stratum for item in items],
        [item.meta["type"] for item in items],
        y,
    )
    stack = nested_text_stack(families, y, groups)
    folds = next(iter(stack.families.values())).folds
    every = {name: one.scores for name, one in stack.families.items()} | {"stack": stack.scores}
    for name, scores in every.items():
        mean = np.mean([same_fold_auroc(y, s, f) for s, f in zip(scores, folds, strict=True)])
        assert 0.42 < mean < 0.58, name
