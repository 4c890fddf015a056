"""The client against a server on this machine that fails in every way that endpoints do; nothing really waits."""

from __future__ import annotations

import gzip
import json
import math
import random
import time
from collections.abc import Iterator

import pytest

from experiments.endpoint.asking import Ask
from experiments.endpoint.client import EndpointClient
from experiments.endpoint.faults import EndpointError
from experiments.endpoint.pace import Pace
from hooks import Prompt
from tests.experiments.chat_server import ChatServer, Reply, chat, ok, refused

KEY = "sk-secret-of-the-test"
PROMPT = Prompt.chat("p", "Is the sea blue?", system="Be brief.")
DENSE = gzip.compress(random.Random(0).randbytes(2**17))
ASK = Ask(PROMPT, 8, logprobs=True)


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What would have been slept, in seconds."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    return slept


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(
        lambda _: ok("Yes.", {"Yes": math.log(0.75), "No": math.log(0.25)})
    ).serving() as it:
        yield it


def client(server: ChatServer, **settings: object) -> EndpointClient:
    return EndpointClient(server.url, "toy", **{"key": KEY, "retries": 2, **settings})  # type: ignore[arg-type]


def test_a_request_holds_what_was_asked(server: ChatServer) -> None:
    answer = client(server).ask(Ask(PROMPT, 8, temperature=1.0, seed=7, logprobs=True))
    assert server.requests == [
        {
            "path": "/v1/chat/completions",
            "model": "toy",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Is the sea blue?"},
            ],
            "max_tokens": 8,
            "temperature": 1.0,
            "seed": 7,
            "logprobs": True,
            "top_logprobs": 20,
        }
    ]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert (answer.text, answer.n_tokens, answer.served_by) == ("Yes.", 3, "toy-2026")
    assert answer.first_token == pytest.approx({"Yes": math.log(0.75), "No": math.log(0.25)})


def test_faults_that_pass_are_waited_out(server: ChatServer, naps: list[float]) -> None:
    server.script.extend(
        [refused(429, "slow down", Retry_After="7"), Reply(503, "busy"), ok("No.")]
    )
    assert client(server).ask(ASK).text == "No."
    assert len(server.requests) == 3
    assert naps[0] == 7.0
    assert 0 < naps[1] <= 2.0


def test_a_lost_connection_is_tried_again(server: ChatServer, naps: list[float]) -> None:
    server.script.append(Reply(lost=True))
    assert client(server).ask(ASK).text == "Yes."
    assert len(server.requests) == 2
    assert len(naps) == 1


def test_waits_double_and_end(server: ChatServer, naps: list[float]) -> None:
    server.answer = lambda _: refused(500, "oops")
    with pytest.raises(EndpointError, match=r"500 \(oops\), still so after 5 tries"):
        client(server, retries=4).ask(ASK)
    assert len(server.requests) == 5
    assert all(0.75 * 0.5 * 2**i <= nap <= 0.5 * 2**i for i, nap in enumerate(naps))


@pytest.mark.parametrize(
    ("reply", "says", "n_requests"),
    [
        (refused(401, f"bad key {KEY}"), r"401 \(bad key \*\*\*\); set OPENAI_API_KEY", 1),
        (refused(404, "no model toy"), r"404 \(no model toy\); is 'toy' a model there", 1),
        (refused(429, "too many"), r"429 \(too many\), still so after 3 tries; wait, or .*--rpm", 3),
        (refused(429, "quota", Retry_After="3600"), r"still so after 1 try; it asks to wait 3600 s", 1),
        (Reply(body=DENSE, headers={"content-encoding": "gzip"}), r"an answer of over 81 KiB", 1),
        (refused(400, "prompt too long"), r"refuses the request: 400 \(prompt too long\)", 1),
        (Reply(502, "<html>bad gateway</html>", kind="text/html"), r"502 \(<html>bad gateway", 3),
        (Reply(body="<html>Sign in</html>", kind="text/html"), r"something other than JSON \(text/html: <html>Sign", 1),
        (Reply(body='{"choices": [', kind="application/json"), r"other than JSON", 1),
        (Reply(body="[" * 100_000), r"other than JSON", 1),
        (refused(401, "x" * 190 + KEY), r"401 \(x{190}\*\*\*\); set", 1),
        (Reply(body="x" * 170 + KEY), r"x{170}\*\*\*\); does", 1),
        (Reply(body="[1]"), r"JSON that is no object", 1),
        (Reply(body='{"error": {"message": "no credit"}}'), r"answers without choices .*no credit", 1),
        (Reply(body='{"choices": []}'), r"answers without choices", 1),
        (ok(None, finish_reason="length"), r"spent all tokens of an answer without a word", 1),
        (ok("many words " * 1000), r"answers with 11000 characters where at most 8 tokens", 1),
        (Reply(body=" " * (9 * 2**20)), r"an answer of over 8192 KiB", 1),
        (Reply(lost=True), r"cannot be reached in 3 tries", 3),
        (Reply(slow=True), r"no answer within 0.2 s in 3 tries; it is slow", 3),
    ],
)  # fmt: skip
def test_what_does_not_pass_is_told_in_one_line(
    server: ChatServer, naps: list[float], reply: Reply, says: str, n_requests: int
) -> None:
    server.answer = lambda _: reply
    with pytest.raises(EndpointError, match=says) as caught:
        client(server, timeout_s=0.2).ask(ASK)
    line = str(caught.value)
    assert line.startswith(f"endpoint {server.url}: ")
    assert "\n" not in line
    assert KEY not in line
    assert len(line) < 500
    assert len(server.requests) == n_requests


def test_an_endpoint_that_is_down(server: ChatServer, naps: list[float]) -> None:
    with ChatServer(lambda _: ok("")).serving() as gone:
        pass
    with pytest.raises(EndpointError, match=r"cannot be reached in 3 tries .*is it running"):
        client(gone).ask(ASK)
    assert len(naps) == 2


def test_a_redirect_is_not_followed(server: ChatServer) -> None:
    with ChatServer(lambda _: ok("stolen")).serving() as elsewhere:
        server.answer = lambda _: Reply(
            307, headers={"location": elsewhere.url + "/chat/completions"}
        )
        with pytest.raises(EndpointError, match=f"redirects to {elsewhere.url}"):
            client(server).ask(ASK)
        assert elsewhere.requests == []


@pytest.mark.parametrize("status", [400, 422])
def test_refused_parts_are_left_out_from_then_on(server: ChatServer, status: int) -> None:
    """An endpoint of a newer model: another name for the limit, no seed, no temperature, five log-probabilities."""

    def strict(body: dict[str, object]) -> Reply:
        for name in ("max_tokens", "temperature", "seed"):
            if name in body:
                return refused(status, f"Unsupported parameter: {name!r}")
        if int(str(body.get("top_logprobs", 0))) > 5:
            return refused(status, "top_logprobs: must be less than or equal to 5")
        return ok("Yes.", {"Yes": -0.1})

    server.answer = strict
    asked = client(server)
    assert asked.ask(ASK).first_token == pytest.approx({"Yes": -0.1})
    assert sorted(server.requests[-1]) == sorted(
        ["path", "model", "messages", "max_completion_tokens", "logprobs", "top_logprobs"]
    )
    assert asked.dialect.left_out == ["seed", "temperature"]
    before = len(server.requests)
    asked.ask(ASK)
    assert len(server.requests) == before + 1


def test_an_endpoint_without_log_probabilities(server: ChatServer) -> None:
    server.answer = lambda body: (
        refused(400, "logprobs are not supported") if "logprobs" in body else ok("No.")
    )
    asked = client(server)
    answer = asked.ask(ASK)
    assert (answer.text, answer.first_token) == ("No.", None)
    assert asked.dialect.left_out == ["logprobs"]


def test_the_check_is_quick_and_wants_words(server: ChatServer, naps: list[float]) -> None:
    assert client(server).check().text == "Yes."
    server.answer = lambda _: ok(None)
    with pytest.raises(EndpointError, match="answers a plain question with nothing"):
        client(server).check()
    server.answer = lambda _: refused(500, "down")
    with pytest.raises(EndpointError, match="after 2 tries"):
        client(server, retries=9).check()


def test_odd_answers_are_read(server: ChatServer) -> None:
    asked = client(server)
    server.answer = lambda _: ok(None, finish_reason="content_filter")
    assert asked.ask(ASK).text == ""
    server.answer = lambda _: ok("", message={"content": None, "refusal": "I cannot."})
    assert asked.ask(ASK).text == "I cannot."
    uncounted = {k: v for k, v in chat("two words").items() if k not in ("usage", "model")}
    server.answer = lambda _: Reply(body=json.dumps(uncounted))
    assert asked.ask(ASK).n_tokens == 2
    server.answer = lambda _: Reply(body=json.dumps(chat("half \ud83d")))
    assert asked.ask(ASK).text == "half ?"
    for odd in ([], {}, {"content": None}, {"content": [{"top_logprobs": [{"token": 1}]}]}):
        server.answer = lambda _, odd=odd: ok("Yes.", logprobs=odd)  # type: ignore[misc]
        assert asked.ask(ASK).first_token is None


def test_pieces_of_one_character_share_a_token() -> None:
    twice = [{"token": "\ufffd", "logprob": math.log(p)} for p in (0.25, 0.5)]
    reply = ok(
        "x", logprobs={"content": [{"top_logprobs": [*twice, {"token": "a", "logprob": -9999.0}]}]}
    )
    with ChatServer(lambda _: reply).serving() as server:
        assert client(server).ask(ASK).first_token == pytest.approx({"\ufffd": math.log(0.75)})


def test_requests_are_spread_over_the_minute() -> None:
    now, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = Pace(30, clock=lambda: now[0], sleep=sleep)
    for _ in range(3):
        pace.wait()
    now[0] += 10
    pace.wait()
    assert slept == pytest.approx([2.0, 2.0])


def test_tries_again_count_for_the_pace(server: ChatServer, naps: list[float]) -> None:
    server.script.append(refused(500, "oops"))
    let_through: list[int] = []

    class Counting(Pace):
        def wait(self) -> bool:
            let_through.append(1)
            return True

    client(server, pace=Counting(None)).ask(ASK)
    assert len(let_through) == 2
