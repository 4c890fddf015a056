"""Answers are kept as they come, and none is asked for twice; options are read off what an endpoint tells."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from experiments.behavior import LocalRunner
from experiments.endpoint.asking import Ask
from experiments.endpoint.book import AnswerBook
from experiments.endpoint.client import EndpointClient
from experiments.endpoint.faults import EndpointError
from experiments.endpoint.options import option_sums
from experiments.endpoint.pace import Pace
from experiments.endpoint.runner import EndpointRunner
from hooks import Prompt, generate, render
from tests.conftest import make_tiny_model
from tests.experiments.chat_server import ChatServer, Reply, ok, refused
from tests.experiments.parity import WORDS

OPTIONS = {"Yes": ("Yes",), "No": ("No",)}


def prompts(n: int) -> list[Prompt]:
    return [Prompt.chat(f"p{i}", f"Question {i}?") for i in range(n)]


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """Repeats the question, with the seed that it was asked with."""
    with ChatServer(
        lambda body: ok(
            f"{body['messages'][-1]['content']} {body['seed']}", {"Yes": math.log(0.75)}
        )
    ).serving() as it:
        yield it


def runner(server: ChatServer, path: Path, samples: int = 1, seed: int = 0) -> EndpointRunner:
    client = EndpointClient(server.url, "toy", retries=0)
    return EndpointRunner(AnswerBook(path, client), samples=samples, seed=seed)


def test_equal_prompts_are_asked_once(server: ChatServer, tmp_path: Path) -> None:
    run = runner(server, tmp_path / "answers.jsonl")
    again = Prompt.chat("other id", "Question 1?")
    answered = run.complete([*prompts(3), again], max_new_tokens=8)
    assert sorted(server.prompts) == ["Question 0?", "Question 1?", "Question 2?"]
    assert [own[0].text for own in answered] == [f"Question {i}? 0" for i in (0, 1, 2, 1)]
    assert [own[0].id for own in answered] == ["p0", "p1", "p2", "other id"]
    run.complete(prompts(3), max_new_tokens=9)
    assert len(server.requests) == 6


def test_samples_have_seeds_of_their_own_and_one_is_greedy(
    server: ChatServer, tmp_path: Path
) -> None:
    run = runner(server, tmp_path / "answers.jsonl", samples=3, seed=2)
    (own,) = run.complete(prompts(1), max_new_tokens=8)
    assert [one.sample for one in own] == [0, 1, 2]
    assert len({one.text for one in own}) == 3
    assert {body["temperature"] for body in server.requests} == {1.0}
    run.complete(prompts(1), max_new_tokens=8, samples=1)
    assert server.requests[-1]["temperature"] == 0


def test_a_failure_keeps_what_was_answered(server: ChatServer, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    answer = server.answer
    server.answer = lambda body: (
        refused(401, "expired")
        if body["messages"][-1]["content"] == "Question 30?"
        else answer(body)
    )
    with pytest.raises(EndpointError, match="401"):
        runner(server, path).complete(prompts(60), max_new_tokens=8)
    kept = [json.loads(line)["prompt"] for line in path.read_text().splitlines()]
    asked = len(server.requests)
    assert len(kept) == asked - 1
    assert 31 - 3 <= asked <= 31 + 3
    server.answer = answer
    answered = runner(server, path).complete(prompts(60), max_new_tokens=8)
    assert [own[0].text for own in answered] == [f"Question {i}? 0" for i in range(60)]
    assert len(server.requests) == asked + 60 - len(kept)
    assert set(Counter(server.prompts).values()) <= {1, 2}
    assert Counter(server.prompts)["Question 30?"] == 2


def test_after_a_failure_nobody_waits_for_a_turn(server: ChatServer, tmp_path: Path) -> None:
    """One request an hour: the other three threads wait for theirs while the first fails."""
    server.answer = lambda _: refused(401, "expired")
    client = EndpointClient(server.url, "toy", pace=Pace(1 / 60))
    with pytest.raises(EndpointError, match="401"):
        EndpointRunner(AnswerBook(tmp_path / "answers", client)).complete(
            prompts(9), max_new_tokens=8
        )
    assert len(server.requests) == 1


_KILLED = """
import sys
from pathlib import Path
from experiments.endpoint.book import AnswerBook
from experiments.endpoint.client import EndpointClient
from experiments.endpoint.runner import EndpointRunner
from hooks import Prompt
prompts = [Prompt.chat(f"p{i}", f"Question {i}?") for i in range(20)]
client = EndpointClient(sys.argv[1], "toy", retries=0)
EndpointRunner(AnswerBook(Path(sys.argv[2]), client)).complete(prompts, max_new_tokens=8)
"""


def test_a_killed_run_goes_on_where_it_was(server: ChatServer, tmp_path: Path) -> None:
    """Ten answers, then silence; killed without notice, torn line and all, it asks for what it has not got."""
    path = tmp_path / "answers.jsonl"
    answer = server.answer

    def ten(body: dict[str, object]) -> object:
        if len(server.requests) > 10:
            server.closing.wait(20)
        return answer(body)

    server.answer = ten  # type: ignore[assignment]
    process = subprocess.Popen([sys.executable, "-c", _KILLED, server.url, str(path)])
    until = time.monotonic() + 60
    while not (path.exists() and path.read_bytes().count(b"\n") == 10):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    held = {json.loads(line)["prompt"] for line in path.read_text().splitlines()}
    with path.open("a") as file:
        file.write('{"key": "torn')
    server.requests.clear()
    server.answer = answer
    answered = runner(server, path).complete(prompts(20), max_new_tokens=8)
    assert [own[0].text for own in answered] == [f"Question {i}? 0" for i in range(20)]
    assert sorted(server.prompts) == sorted(p.instruction for p in prompts(20) if p.id not in held)
    assert len(path.read_text().splitlines()) == 20


def test_log_odds_come_with_the_answer_in_words(server: ChatServer, tmp_path: Path) -> None:
    run = runner(server, tmp_path / "answers.jsonl")
    server.answer = lambda _: ok(
        "Yes", {"Yes": math.log(0.6), " yes": math.log(0.2), "No": math.log(0.1)}
    )
    run.complete(prompts(2), max_new_tokens=8, samples=1)
    read = run.option_logprobs(prompts(2), OPTIONS)
    assert len(server.requests) == 2
    assert read["Yes"] == pytest.approx([math.log(0.8)] * 2)
    assert read["No"] == pytest.approx([math.log(0.1)] * 2)


def test_it_reads_a_model_as_a_runner_in_this_process_does(tmp_path: Path) -> None:
    """The same tiny model behind an endpoint and in this process: equal texts, equal log-odds."""
    model = make_tiny_model("llama")
    one_at_a_time = threading.Lock()

    def serve(body: dict[str, Any]) -> Reply:
        with one_at_a_time:
            prompt = Prompt("served", messages=tuple(body["messages"]))
            (own,) = generate(model, [prompt], max_new_tokens=body["max_tokens"])
            tokens = torch.tensor([render(model, prompt).token_ids])
            with torch.inference_mode():
                logprobs = model.module(tokens).logits[0, -1].log_softmax(-1).tolist()
        spelled = [model.tokenizer.decode([token]) for token in range(len(logprobs))]
        alternatives = [
            {"token": token, "logprob": logprob}
            for token, logprob in zip(spelled, logprobs, strict=True)
        ]
        return ok(own.text, logprobs={"content": [{"top_logprobs": alternatives}]})

    asked = [Prompt.chat(f"p{i}", f"{word}: yes or no, A or B?") for i, word in enumerate(WORDS)]
    options = {"A": ("A",), "B": ("B",)}
    local = LocalRunner(model)
    with ChatServer(serve).serving() as endpoint:
        run = runner(endpoint, tmp_path / "answers.jsonl")
        there = run.complete(asked, max_new_tokens=8)
        told = run.option_logprobs(asked, options)
    here = local.complete(asked, max_new_tokens=8)
    assert [own[0].text for own in there] == [own[0].text for own in here]
    known = local.option_logprobs(asked, options)
    for name in options:
        assert told[name] == pytest.approx(known[name], abs=1e-4)


def test_an_endpoint_without_probabilities_says_so(server: ChatServer, tmp_path: Path) -> None:
    server.answer = lambda _: ok("Yes")
    with pytest.raises(ValueError, match="gives no log-probabilities"):
        runner(server, tmp_path / "answers.jsonl").option_logprobs(prompts(1), OPTIONS)


@given(st.lists(st.floats(0.001, 1), min_size=3, max_size=30), st.integers(1, 20))
def test_a_cut_list_never_makes_log_odds_larger(weights: list[float], k: int) -> None:
    """Against the whole distribution: what the list holds is exact, what it lacks is bounded from above."""
    total = sum(weights)
    words = ["Yes", "No", *(f"w{i}" for i in range(len(weights)))]
    whole = {word: math.log(w / total) for word, w in zip(words, weights, strict=False)}
    top = dict(sorted(whole.items(), key=lambda pair: -pair[1])[:k])
    seen, true = option_sums(top, OPTIONS), option_sums(whole, OPTIONS)
    for name in OPTIONS:
        assert seen[name] >= true[name] - 1e-9
        assert name not in top or seen[name] == pytest.approx(true[name])
    odds, true_odds = seen["Yes"] - seen["No"], true["Yes"] - true["No"]
    assert abs(odds) <= abs(true_odds) + 1e-9
    assert odds * true_odds >= -1e-9


def test_a_word_of_several_tokens_is_told_by_its_beginning() -> None:
    options = {"horse": ("horse",), "house": ("house",), "eagle": ("eagle",)}
    told = {" ho": math.log(0.3), "hor": math.log(0.2), "Ea": math.log(0.1), " ": math.log(0.05)}
    sums = option_sums(told, options)
    assert sums["horse"] == pytest.approx(math.log(0.2))
    assert sums["eagle"] == pytest.approx(math.log(0.1))
    assert sums["house"] == pytest.approx(math.log(0.05))


def test_an_ask_is_told_by_all_that_may_change_its_answer() -> None:
    prompt = prompts(1)[0]
    other = Prompt.chat("p0", "Question 0!")
    asks = [
        Ask(prompt, 8),
        Ask(prompt, 9),
        Ask(prompt, 8, temperature=1.0),
        Ask(prompt, 8, seed=1),
        Ask(prompt, 8, logprobs=True),
        Ask(other, 8),
        Ask(Prompt.chat("p0", "Question 0?", system="Be brief."), 8),
    ]
    assert len({ask.key for ask in asks}) == len(asks)
    assert Ask(Prompt.chat("another id", "Question 0?"), 8).key == asks[0].key
