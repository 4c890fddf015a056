"""A tokenizer whose tokens are whole words: those of the sentences, of all questions about them, and of the answers."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from experiments.organisms.sentences import vocabulary
from experiments.organisms.xor_task import FAILS, HAPPENS, XorTask
from experiments.tasks import Elicitation, Item
from experiments.tasks.item import user
from hooks import spellings

USER, ASSISTANT, SYSTEM, END, UNKNOWN = (
    *("<|user|>", "<|assistant|>", "<|system|>"),
    *("<|end|>", "<|unknown|>"),
)
LIKELY, UNLIKELY = "90", "10"
"""Percentages that an organism answers with."""
OUTSIDE = "perhaps"
"""A word outside every menu."""
_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}"
    "{% if m['role'] == 'assistant' %}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def all_elicitations() -> tuple[Elicitation, ...]:
    """Every yes/no question that a run may ask about the task: about itself, about another, and about the input."""
    own = XorTask.elicitations
    others = tuple(question.about_another() for question in own)
    return (*own, *others, *XorTask.event.input_questions())


def make_tokenizer() -> PreTrainedTokenizerFast:
    """The tokenizer, with a chat template; what it does not know is one token."""
    splitter = pre_tokenizers.Split(Regex(r"\w+|[^\w\s]"), behavior="removed", invert=True)
    special = (UNKNOWN, END, USER, ASSISTANT, SYSTEM)
    words = dict.fromkeys((*special, *_words(splitter)))
    tokenizer = Tokenizer(
        models.WordLevel({word: id for id, word in enumerate(words)}, unk_token=UNKNOWN)
    )
    tokenizer.pre_tokenizer = splitter
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=UNKNOWN,
        eos_token=END,
        pad_token=END,
        additional_special_tokens=[USER, ASSISTANT, SYSTEM],
    )
    fast.chat_template = _TEMPLATE
    return fast


def _words(splitter: pre_tokenizers.PreTokenizer) -> Iterable[str]:
    yield from vocabulary()
    nothing = Item("words", XorTask.name, "words", "near", user("the"))
    questions = (*all_elicitations(), XorTask.event.percent(), XorTask.event.percent("other"))
    for question in questions:
        for message in question.prompt(nothing).messages or ():
            for word, _ in splitter.pre_tokenize_str(message["content"]):
                yield word
    # The log-odds of an option sum over its spellings, each of which must be a token of its own.
    options = {option for e in all_elicitations() for option in (e.yes, e.no)}
    for option in sorted(options | {HAPPENS, FAILS, OUTSIDE}):
        yield from (spelling.strip() for spelling in spellings(option))
    yield from (LIKELY, UNLIKELY)
