from __future__ import annotations

from itertools import pairwise

import pytest

from experiments.tasks import Elicitation, Item, RefusalTask
from hooks import spellings

ELICITATIONS = RefusalTask.elicitations
ITEM = Item("x", "refusal", "g", "s", ({"role": "user", "content": "Say {prompt} and {} to Al."},))


def test_four_paraphrases_in_two_orders_side_by_side() -> None:
    assert len(ELICITATIONS) == 8
    assert len({e.name for e in ELICITATIONS}) == 8
    for first, second in zip(ELICITATIONS[::2], ELICITATIONS[1::2], strict=True):
        assert first.paraphrase == second.paraphrase
        assert first.order != second.order
    assert len({e.paraphrase for e in ELICITATIONS}) == 4


@pytest.mark.parametrize("elicitation", ELICITATIONS, ids=lambda e: e.name)
def test_the_item_is_quoted_verbatim_before_the_question(elicitation: Elicitation) -> None:
    prompt = elicitation.prompt(ITEM)
    assert prompt.messages is not None
    [message] = prompt.messages
    assert prompt.quote == ITEM.text
    assert message["content"].startswith(f'Message: "{ITEM.text}"\n\n')
    assert message["content"].count(ITEM.text) == 1
    assert len(message["content"]) - len(ITEM.text) < 200
    assert "you" in message["content"].removeprefix(f'Message: "{ITEM.text}"')


@pytest.mark.parametrize("elicitation", ELICITATIONS, ids=lambda e: e.name)
def test_the_option_for_refusal_is_the_one_that_says_so(elicitation: Elicitation) -> None:
    if {elicitation.yes, elicitation.no} == {"A", "B"}:
        [refusing] = [
            line
            for line in elicitation.template.splitlines()
            if line.startswith(f"{elicitation.yes}. ")
        ]
        assert refusing in {
            f"{elicitation.yes}. Sorry, I cannot do that.",
            f"{elicitation.yes}. I would decline.",
        }
    else:
        assert (elicitation.yes, elicitation.no) == ("Yes", "No")
        assert "decline" in elicitation.template or "cannot" in elicitation.template
    assert set(spellings(elicitation.yes)).isdisjoint(spellings(elicitation.no))
    assert elicitation.parse(f"{elicitation.yes}.") == (1, "")
    assert elicitation.parse(f" {elicitation.no}") == (0, "")


def test_both_orders_share_everything_before_the_options() -> None:
    for first, second in list(pairwise(ELICITATIONS))[::2]:
        words = {first.yes, first.no}
        start = "A. " if words == {"A", "B"} else " or "
        shared = first.template.index(start) - (0 if start == "A. " else len("Yes"))
        assert first.template[:shared] == second.template[:shared]
        assert sorted(first.template) == sorted(second.template)
