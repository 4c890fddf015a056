"""Read the answer off a response of status 200, which may still be no answer at all."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import httpx2

from experiments.endpoint.asking import Answer

_CHARACTERS_A_TOKEN = 100
"""No tokenizer's tokens are longer on average."""
_NAME = 100
"""Characters of a name that are kept."""


class MalformedError(ValueError):
    """A response of status 200 that holds no answer.

    `told` says so and names the mend; its `{}` is for what the endpoint `said`, which may be long or hold the key.
    """

    def __init__(self, told: str, said: str = "") -> None:
        super().__init__(told)
        self.told, self.said = told, said


def read_answer(response: httpx2.Response, max_tokens: int) -> Answer:
    """Read the first choice of a chat completion.

    A refusal in a field of its own is the text. Content that is null or empty is an empty text, unless all tokens
    were spent on it: then the model thinks before it answers, and would do so for every prompt.

    Raises:
        MalformedError: no JSON, no choices, no text, or a text far beyond `max_tokens`.
    """
    found = _json_object(response)
    choices = found.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise MalformedError(
            "answers without choices ({}); try later, or another model",
            json.dumps(found.get("error") or found),
        )
    choice = choices[0]
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    text = message.get("content") or message.get("refusal") or ""
    finish = _clean(str(choice.get("finish_reason")))[:_NAME]
    if not isinstance(text, str):
        raise MalformedError("answers with a content that is no text; is it a chat endpoint?")
    if not text and finish == "length":
        raise MalformedError(
            "spent all tokens of an answer without a word (content empty, finish_reason 'length'): the model thinks "
            "first; give one that answers at once, or turn its thinking off at the endpoint"
        )
    if len(text) > _CHARACTERS_A_TOKEN * max_tokens:
        raise MalformedError(
            f"answers with {len(text)} characters where at most {max_tokens} tokens were asked for; "
            "it must honor max_tokens"
        )
    usage = found.get("usage")
    counted = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return Answer(
        text=_clean(text),
        n_tokens=counted if isinstance(counted, int) else len(text.split()),
        finish_reason=finish,
        first_token=_first_token(choice.get("logprobs")),
        served_by=_clean(str(found.get("model", "")))[:_NAME],
    )


def _json_object(response: httpx2.Response) -> Mapping[str, Any]:
    kind = response.headers.get("content-type", "nothing").partition(";")[0]
    try:
        found = json.loads(response.content)
    except (ValueError, RecursionError):
        raise MalformedError(
            "answers with something other than JSON ({}); does the URL end as it should (often /v1)?",
            f"{kind}: {response.text[:1000]}",
        ) from None
    if not isinstance(found, dict):
        raise MalformedError("answers JSON that is no object; is it an OpenAI-compatible endpoint?")
    return found


def _first_token(logprobs: Any) -> dict[str, float] | None:
    """The alternatives to the first token; one that comes twice (pieces of one character) has both its shares."""
    shares: dict[str, float] = {}
    try:
        for one in logprobs["content"][0]["top_logprobs"]:
            token = _clean(one["token"])
            shares[token] = shares.get(token, 0.0) + math.exp(min(float(one["logprob"]), 0.0))
    except (TypeError, LookupError, ValueError, AttributeError):
        return None
    return {token: math.log(share) for token, share in shares.items() if share > 0} or None


def _clean(text: str) -> str:
    """Without half characters (lone surrogates), which no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
