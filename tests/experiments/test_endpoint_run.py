"""A whole run on an endpoint of this machine: words against text, picked up after faults, nothing asked twice."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments import Experiment, load_run
from experiments.cli import _status
from experiments.config import make_config
from experiments.dry_run import dry_run
from experiments.endpoint.faults import EndpointError
from experiments.staged import RunError
from experiments.tasks import TASKS
from tests.experiments import parity
from tests.experiments.chat_server import ChatServer, Reply, ok, refused

N_QUESTIONS = 4 + 1
"""Two paraphrases in two orders, and how likely; about another assistant this task words nothing differently."""
REQUESTS = 60 * (1 + N_QUESTIONS)
KEY = "sk-secret-of-the-test"
EVEN, ODD = "answer 4", "answer 0"
"""By their checksums."""
SURE = math.log(0.9), math.log(0.06)


def will_be_odd(text: str) -> bool:
    return zlib.crc32(f"salt {text}".encode()) % 2 == 1


def knows_itself(body: dict[str, Any], *, logprobs: bool = True) -> Reply:
    """A model that knows what it will do, and says so whatever it is asked."""
    prompt = body["messages"][-1]["content"]
    if prompt.startswith("Reply with one word"):
        return ok("yes", {"yes": -0.1} if logprobs else None)
    text = re.split(r" odd, | odd A| even A|\n\n", prompt)[0]
    odd = will_be_odd(text)
    if text == prompt:
        return ok(ODD if odd else EVEN, {"answer": -0.1} if logprobs else None)
    if "How likely" in prompt:
        return ok("90" if odd else "10", {"9": -0.1} if logprobs else None)
    words = ("A", "B") if " A or" in prompt else ("yes", "no")
    yes = words[1] if "even A" in prompt else words[0]
    no = next(word for word in words if word != yes)
    first, second = (yes, no) if odd else (no, yes)
    return ok(first, dict(zip((first, second), SURE, strict=True)) if logprobs else None)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for task in (parity.ParityTask, parity.SilentTask):
        monkeypatch.setitem(TASKS, task.name, task)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with ChatServer(knows_itself).serving() as it:
        yield it


@pytest.fixture(autouse=True)
def fresh(server: ChatServer) -> None:
    server.answer = knows_itself
    server.requests.clear()
    server.script.clear()


def experiment(server: ChatServer, task: str = "parity", **settings: Any) -> Experiment:
    return Experiment(task, "toy", endpoint=server.url, paraphrases=2, **settings)


@pytest.fixture(scope="module")
def finished(server: ChatServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The folder of a run with log-probabilities and a key, and how many requests it took."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TASKS, "parity", parity.ParityTask)
        patch.setenv("OPENAI_API_KEY", KEY)
        server.requests.clear()
        experiment(server).run(out)
    return out, len(server.requests)


def test_the_folder_holds_words_alone(finished: tuple[Path, int]) -> None:
    out, n_requests = finished
    assert {path.name for path in out.iterdir() if path.name != ".lock"} == {
        *("config.yaml", "manifest.json", "items.jsonl", "behavior.jsonl", "self_predictions.jsonl"),
        *("endpoint_answers.jsonl", "results.json", "results.csv", "scores.csv", "figures", "report.html"),
    }  # fmt: skip
    assert n_requests == 1 + REQUESTS
    assert len((out / "endpoint_answers.jsonl").read_text().splitlines()) == REQUESTS


def test_the_key_is_written_nowhere(finished: tuple[Path, int]) -> None:
    out, _ = finished
    assert not [p for p in out.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]


def test_a_model_that_knows_itself_has_the_best_scores(finished: tuple[Path, int]) -> None:
    run = load_run(finished[0])
    result = run.result()
    assert result["activations"] == "none (endpoint)"
    assert result["verbal"]["auroc"] == 1
    assert result["verbal"]["score"] == "log-odds"
    assert result["verbal"]["menu_mass"] == pytest.approx(0.96)
    assert result["verbal"]["strict"] == 1
    assert result["verbal"]["skill"] == pytest.approx(
        min(result["base_rate"], 1 - result["base_rate"]), abs=1e-6
    )
    assert {one["strict"] for one in result["words"]["options"].values()} == {1}
    assert result["baselines"]["text"]["auroc"] < 0.8
    assert result["gap"]["verbal_minus_text"]["ci"][0] > 0
    odds = run.self_predictions["log_odds"].dropna().abs()
    assert odds.to_numpy() == pytest.approx(SURE[0] - SURE[1])
    assert run.results["answered"] == {
        "served_by": ["toy-2026"],
        "requests": REQUESTS,
        "left_out": [],
    }


def test_no_stage_is_diagnosed_and_it_says_why(finished: tuple[Path, int]) -> None:
    run = load_run(finished[0])
    assert run.result()["breakdown"]["stage"] is None
    for asked in (run.breakdown, run.directions, run.plot_layers):
        with pytest.raises(ValueError, match="an endpoint gives no activations"):
            asked()
    page = (finished[0] / "report.html").read_text()
    assert "its words foretell whether it answers with an odd checksum" in page
    assert "an endpoint gives no activations" in page


def test_a_finished_run_is_read_back_without_a_request(
    server: ChatServer, finished: tuple[Path, int]
) -> None:
    before = (finished[0] / "results.json").read_bytes()
    experiment(server, requests_per_minute=5).run(finished[0])
    assert server.requests == []
    assert (finished[0] / "results.json").read_bytes() == before


def test_broken_off_twice_it_asks_nothing_twice_and_ends_alike(
    server: ChatServer, finished: tuple[Path, int], tmp_path: Path
) -> None:
    def until(n: int) -> None:
        def answer(body: dict[str, Any]) -> Reply:
            return knows_itself(body) if len(server.requests) <= n else refused(401, "expired")

        server.answer = answer

    for n, stage in ((30, "behavior"), (200, "self-predictions")):
        until(n)
        with pytest.raises(RunError, match=f"^{stage}: endpoint .* 401 .* is kept"):
            experiment(server).run(tmp_path)
    server.answer = knows_itself
    experiment(server).run(tmp_path)
    asked = Counter(json.dumps(body, sort_keys=True) for body in server.requests)
    check = next(one for one in asked if "Reply with one word" in one)
    assert asked.pop(check) == 3
    n_refused = sum(asked.values()) - REQUESTS
    assert len(asked) == REQUESTS
    assert 2 <= n_refused <= 2 * 4
    for name in ("behavior.jsonl", "self_predictions.jsonl", "results.json", "report.html"):
        assert (tmp_path / name).read_bytes() == (finished[0] / name).read_bytes()


def test_without_log_probabilities_the_parsed_answers_are_scored(
    server: ChatServer, tmp_path: Path
) -> None:
    server.answer = lambda body: (
        refused(400, "logprobs: not supported") if "logprobs" in body
        else knows_itself(body, logprobs=False)
    )  # fmt: skip
    run = experiment(server).run(tmp_path)
    verbal = run.result()["verbal"]
    assert (verbal["auroc"], verbal["score"], verbal["menu_taken"]) == (1, "parsed answers", None)
    assert run.result()["supervised_words"] is None
    assert run.results["answered"]["left_out"] == ["logprobs"]
    assert "The endpoint gave no log-probabilities" in (tmp_path / "report.html").read_text()


def test_nothing_readable_ends_with_a_parse_rate_of_0_and_advice(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    server.answer = lambda body: (
        knows_itself(body, logprobs=False) if "?" not in body["messages"][-1]["content"] else ok("Hm <b>&")
    )  # fmt: skip
    endpoint = ("--endpoint", server.url, "--model", "toy")
    assert command(monkeypatch, "run", "parity", *endpoint, "--out", str(tmp_path)) == 0
    result = load_run(tmp_path).result()
    assert result["words"]["parse_rate"] == 0
    assert result["verbal"]["auroc"] == 0.5
    assert result["verbal"]["strict"] == 0
    assert "none of its answers in words could be read" in capsys.readouterr().out
    assert "<b>&" not in (tmp_path / "report.html").read_text()


def test_labels_of_one_class_are_skipped_and_the_words_still_shown(
    server: ChatServer, tmp_path: Path
) -> None:
    run = experiment(server, "silent").run(tmp_path)
    result = run.result()
    assert result["skipped"]
    assert result["words"]["parse_rate"] == 1
    assert result["activations"] == "none (endpoint)"


def test_a_skipped_task_has_no_predictor_to_trust(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    server.answer = lambda _: ok("Hm.")
    given = ("--endpoint", server.url, "--model", "toy", "--out", str(tmp_path))
    assert command(monkeypatch, "run", "silent", *given) == 0
    told = capsys.readouterr().out
    assert "none of its answers in words could be read: look at them" in told
    assert "trust" not in told


def test_what_needs_log_probabilities_is_refused_before_the_work(
    server: ChatServer, tmp_path: Path
) -> None:
    server.answer = lambda _: ok("yes")
    tasks = ("flip_decision", "logit_estimation", "confidence_recall")
    with pytest.raises(EndpointError, match="the outcome of logit_estimation, confidence_recall"):
        Experiment(tasks, "toy", endpoint=server.url).run(tmp_path / "run")
    assert len(server.requests) == 1
    assert not (tmp_path / "run").exists()


def test_an_outcome_that_takes_no_completion_is_scored(server: ChatServer, tmp_path: Path) -> None:
    server.answer = lambda body: ok(f"It is {zlib.crc32(repr(body['messages']).encode()) % 97}.")
    run = Experiment(
        "recognition", "toy", endpoint=server.url, n=20, paraphrases=1, words="short"
    ).run(tmp_path)
    assert run.result()["skipped"] is None
    scores = pd.read_csv(tmp_path / "scores.csv", keep_default_na=False)
    assert list(scores["completion"]) == [""] * 20


def test_a_task_without_items_is_named(server: ChatServer, tmp_path: Path) -> None:
    server.answer = lambda _: ok("never a sentence")
    with pytest.raises(
        RunError, match=r"^items: recognition: none of the model's .*; leave it out"
    ):
        Experiment(("silent", "recognition"), "toy", endpoint=server.url).run(tmp_path)


def test_samples_are_requests_of_their_own(server: ChatServer, tmp_path: Path) -> None:
    experiment(server, "silent", samples=3).run(tmp_path)
    sampled = [body for body in server.requests if body["temperature"] == 1]
    assert len(sampled) == 3 * 20
    assert len({(body["messages"][-1]["content"], body["seed"]) for body in sampled}) == 3 * 20


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (refused(404, "no such model"), r"404 \(no such model\); is 'toy' a model there"),
        (
            Reply(body="<html>hello</html>", kind="text/html"),
            r"something other than JSON \(text/html",
        ),
    ],
)
def test_what_is_wrong_from_the_start_is_told_before_anything_is_written(
    server: ChatServer, tmp_path: Path, reply: Reply, says: str
) -> None:
    server.answer = lambda _: reply
    with pytest.raises(EndpointError, match=says):
        experiment(server).run(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert len(server.requests) == 1


def test_the_command_line_tells_faults_in_one_line(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    server.answer = lambda _: refused(404, "no such model")
    out = ("--model", "toy", "--out", str(tmp_path / "run"))
    assert command(monkeypatch, "run", "parity", "--endpoint", server.url, *out) == 1
    *costs, fault = capsys.readouterr().err.splitlines()
    assert costs[-1] == f"{server.url}: {REQUESTS} requests, less what the folder holds"
    assert fault.startswith(f"selfprobe: endpoint {server.url}: 404 (no such model); ")
    assert command(monkeypatch, "run", "parity", "--endpoint", "https://SECRET@h/v1", *out) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "SECRET" not in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"endpoint": "https://h/v1"}, "model: name the model that the endpoint"),
        ({"endpoint": "https://h/v1", "model": "m", "peer": "p"}, "peer: an endpoint gives no activations"),
        ({"endpoint": "https://h/v1", "model": "m", "layers": "3"}, "layers: an endpoint gives no activations"),
        ({"endpoint": "https://SECRET@h/v1", "model": "m"}, "endpoint: the URL of h holds a user"),
        ({"endpoint": "h/v1", "model": "m"}, "endpoint: not an http or https URL"),
        ({"requests_per_minute": 9}, "requests_per_minute: is of an endpoint"),
        ({"endpoint": "https://h/v1", "model": "m", "requests_per_minute": 0}, "requests_per_minute: .*greater than 0"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}") as caught:
        make_config({"tasks": "parity", **settings})
    assert "SECRET" not in str(caught.value)


def test_activations_cannot_be_collected(server: ChatServer, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="gives no activations to collect"):
        experiment(server).collect(tmp_path / "run")


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["selfprobe", *arguments])
    return _status()


def test_a_dry_run_asks_nothing_and_writes_nothing(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    out = ("--out", str(tmp_path / "run"), "--dry-run")
    endpoint = ("--endpoint", server.url, "--model", "toy")
    assert command(monkeypatch, "run", "parity", *endpoint, *out) == 0
    told = capsys.readouterr().out
    assert f"60 items, 60 completions of behavior, {60 * N_QUESTIONS} answers" in told
    assert "odd, yes or no?" in told
    assert len(re.findall("^question ", told, re.MULTILINE)) == N_QUESTIONS
    assert command(monkeypatch, "run", "parity", "--model", "no/such-model", *out, "--json") == 0
    (listed,) = json.loads(capsys.readouterr().out)
    contexts = Counter(one["context"] for one in listed["prompts"])
    # An endpoint gives no activations, and is asked nothing that only they are read of.
    assert "input question" not in told
    assert contexts == {
        "behavior": 60,
        "self_prediction": 60 * N_QUESTIONS,
        "input_question": 60 * 2,
    }
    assert server.requests == []
    assert not (tmp_path / "run").exists()


def test_a_dry_run_lists_what_a_run_puts(finished: tuple[Path, int]) -> None:
    (listed,) = dry_run(make_config({"tasks": "parity", "paraphrases": 2}))
    rows = (finished[0] / "endpoint_answers.jsonl").read_text().splitlines()
    assert {one.id for one in (*listed.behavior, *listed.questions)} == {
        json.loads(row)["prompt"] for row in rows
    }
    assert listed.n_requests == REQUESTS
    assert listed.whole
