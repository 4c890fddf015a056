"""`selfprobe capture` and `selfprobe bench`, as a person meets them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from activations_cache import ActivationsCache
from hooks import CaptureSpec, Prompt, capture, load_model
from hooks.gather import Gather
from tests.experiments import parity

Command = Callable[..., tuple[int, str, str]]
ROWS = [
    {"id": "a", "prompt": "What is the capital?", "group": "g"},
    {"id": "b", "messages": [{"role": "user", "content": "Will you answer?"}], "group": "g"},
    {"id": "c", "text": "The capital of France is"},
]


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return parity.save_tiny_model(tmp_path_factory.mktemp("model") / "tiny-llama")


@pytest.fixture
def command(
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """Run the command line in an empty folder: status, standard output, standard error's last line."""
    from experiments.cli import _status

    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        given = [str(tiny_folder) if a == "TINY" else str(a) for a in arguments]
        monkeypatch.setattr(sys, "argv", ["selfprobe", *given])
        status = _status()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return status, out, (err.strip().splitlines() or [""])[-1]

    return run


def write(path: str, rows: list[dict[str, object]] = ROWS) -> str:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


CAPTURE = ("capture", "--model", "TINY", "--prompts", "p.jsonl", "--out", "cache")


def test_prompts_of_all_forms_end_in_a_cache(command: Command, tiny_folder: Path) -> None:
    write("p.jsonl")
    status, out, _ = command(*CAPTURE, "--layers", "0,2", "--storage", "float32")
    assert status == 0
    assert "3 prompts x 4 cells in cache" in out
    cache = ActivationsCache.open("cache")
    model = load_model(str(tiny_folder), device="cpu")
    prompts = [
        Prompt.chat("a", "What is the capital?"),
        Prompt.chat("b", "Will you answer?"),
        Prompt(id="c", text="The capital of France is"),
    ]
    spec = CaptureSpec(layers=(0, 2), positions=("instruction_last", "prompt_last"))
    (acts,) = capture(model, prompts, spec)
    found = cache.read("resid_post", layer=2, position="prompt_last", ids=acts.ids)
    np.testing.assert_array_equal(found, acts.sites["resid_post"][:, 1, 1].numpy())
    assert Path("cache/prompts.csv").read_text() == "id,group\na,g\nb,g\nc,c\n"


def test_a_base_model_reads_transcripts_and_the_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from experiments.cli import _status

    monkeypatch.chdir(tmp_path)
    base = parity.save_tiny_model(tmp_path / "tiny-base")
    (base / "chat_template.jinja").unlink()
    for rows, n_notes in ((ROWS, 1), (ROWS[2:], 0)):
        command = ["capture", "--model", str(base), "--out", f"cache-{n_notes}", "--prompts"]
        monkeypatch.setattr(sys, "argv", ["selfprobe", *command, write("prompts.jsonl", rows)])
        assert _status() == 0
        assert capsys.readouterr().err.count("note:") == n_notes
    cache = ActivationsCache.open("cache-1")
    assert cache.fingerprint["prompt_format"] == "completion"


def test_the_same_command_again_changes_nothing_and_extend_adds(command: Command) -> None:
    write("p.jsonl")
    first = (*CAPTURE, "--layers", "0", "--positions", "prompt_last")
    assert command(*first)[0] == 0
    before = {path.name: path.read_bytes() for path in Path("cache").iterdir()}
    assert command(*first)[0] == 0
    assert {path.name: path.read_bytes() for path in Path("cache").iterdir()} == before
    wider = (*CAPTURE, "--layers", "0-2", "--sites", "resid_post,mlp_out")
    status, _, error = command(*wider)
    assert status == 2
    assert "extend" in error
    status, out, _ = command(*wider, "--extend", "--json")
    assert status == 0
    assert json.loads(out)["layers"] == [0, 1, 2]
    cells = ActivationsCache.open("cache").cells()
    assert ("mlp_out", 1, "instruction_last") in cells
    assert len(cells) == 12


def test_a_long_prompt_is_refused_or_cut_on_request(command: Command) -> None:
    write("p.jsonl", [*ROWS, {"id": "long", "prompt": "What is the capital? " * 200}])
    status, _, error = command(*CAPTURE)
    assert status == 2
    assert "'long' has" in error
    assert "at most 256" in error
    assert "truncate" in error
    assert not Path("cache").exists()
    status, out, _ = command(*CAPTURE, "--truncate")
    assert status == 0
    assert "truncated, 1: long" in out
    assert ActivationsCache.open("cache").fingerprint["truncated"] == ["long"]


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        ([], (), "holds no prompt"),
        ([ROWS[0], ROWS[0]], (), "id 'a' stands in line 1 already"),
        ([{"id": "a", "prompt": " "}], (), "field 'prompt' is empty"),
        (ROWS, ("--layers", "7"), "layers: 7 does not exist; this model has layers 0 to 2"),
        (ROWS, ("--layers", "x"), "layers: 'x' is neither"),
        (ROWS, ("--sites", "resid"), "sites: unknown site 'resid'"),
        (ROWS, ("--positions", "template_90"), "has no position 'template_90'; it has"),
        (ROWS, ("--positions", "quote_last"), "has no position 'quote_last'"),
        (ROWS, ("--backend", "tensorflow"), "'tensorflow' is not one of"),
        (ROWS, ("--storage", "float8"), "'float8' is not one of"),
        (ROWS, ("--batch-tokens", "0"), "batch_tokens: 0 is not positive"),
        (ROWS, ("--device", "cuda:9"), "device: 'cuda:9'"),
        (ROWS, ("--model", "nowhere"), "model: unknown model 'nowhere'"),
        (ROWS, ("--prompts", "nowhere.jsonl"), "prompts: no file nowhere.jsonl"),
    ],
)
def test_bad_input_is_named_in_one_line_before_anything_is_written(
    command: Command,
    rows: list[dict[str, object]],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    write("p.jsonl", rows)
    status, out, error = command(*CAPTURE, *arguments)
    assert (status, out) == (2, "")
    assert message in error
    assert [path.name for path in Path().iterdir()] == ["p.jsonl"]


def test_labels_put_into_prompts_csv_are_kept(command: Command) -> None:
    write("p.jsonl")
    assert command(*CAPTURE)[0] == 0
    path = Path("cache/prompts.csv")
    labeled = path.read_text().replace("id,group", "id,group,label").replace("g\n", "g,1\n")
    path.write_text(labeled)
    assert command(*CAPTURE)[0] == 0
    assert path.read_text() == labeled
    write("p.jsonl", [{**row, "group": "h"} for row in ROWS])
    status, _, error = command(*CAPTURE)
    assert status == 2
    assert "gives 'a' the group 'g', not 'h'" in error
    assert path.read_text() == labeled


def test_another_storage_is_refused(command: Command) -> None:
    write("p.jsonl")
    assert command(*CAPTURE)[0] == 0
    status, _, error = command(*CAPTURE, "--storage", "float32")
    assert status == 2
    assert "storage: cache cache is kept in bfloat16, float32 was asked for" in error
    status, _, error = command(*CAPTURE, "--compression", "zstd")
    assert status == 2
    assert "compression: cache cache is kept in None, zstd was asked for" in error


def test_a_model_that_gives_nan_fails_at_work(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("p.jsonl")
    means = Gather.means
    monkeypatch.setattr(Gather, "means", lambda self, rows: means(self, rows) * float("nan"))
    status, _, error = command(*CAPTURE)
    assert status == 1
    assert "site resid_post, layer 0, position instruction_last: nan in dimension 0" in error


@pytest.mark.parametrize("what", ["cache", "capture"])
def test_a_bench_that_could_not_write_its_figures_does_not_start(
    command: Command, what: str
) -> None:
    status, _, error = command("bench", what, "--n", "3", "--json", "nowhere/figures.json")
    assert status == 2
    assert "json: no folder nowhere; make it first" in error


def heed_interrupts() -> None:
    """A test run in the background of a shell ignores interrupts, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_with_one_line_and_status_130(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write("p.jsonl", [{"id": f"{n}", "prompt": f"What is {n}? " * 9} for n in range(9000)])
    arguments = [str(tiny_folder) if argument == "TINY" else argument for argument in CAPTURE]
    script = "import sys; from experiments.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments, "--batch-tokens", "200"],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=heed_interrupts,
    )
    deadline = time.monotonic() + 60
    while not Path("cache/shards.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    last = errors.strip().splitlines()[-1]
    assert last == "selfprobe: stopped; the same command picks up what is finished"


def test_a_cache_of_another_schema_is_refused(command: Command) -> None:
    write("p.jsonl")
    assert command(*CAPTURE)[0] == 0
    manifest = Path("cache/manifest.json")
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "schema": 99}))
    status, _, error = command(*CAPTURE)
    assert status == 2
    assert "is version 99" in error


def test_a_folder_that_cannot_be_written(command: Command, tiny_folder: Path) -> None:
    write("p.jsonl")
    Path("cache").write_text("a file")
    status, _, error = command(*CAPTURE)
    assert status == 2
    assert "cache" in error
    assert Path("cache").read_text() == "a file"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to mount")
def test_a_full_disk_ends_with_one_line_and_resumes(command: Command, tmp_path: Path) -> None:
    """On a real small file system."""
    (tmp_path / "small").mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", tmp_path / "small"],
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("cannot mount a file system here")
    try:
        rows = [{"id": f"{n}", "prompt": f"What is {n}? Yes"} for n in range(200)]
        write("p.jsonl", rows)
        capture_there = (*CAPTURE[:-1], "small/cache", "--sites", "resid_post,mlp_out")
        status, _, error = command(*capture_there)
        assert status == 1
        assert "No space left on device" in error
        resize = ["mount", "-o", "remount,size=8m", tmp_path / "small"]
        subprocess.run(resize, check=True)
        assert command(*capture_there)[0] == 0
        assert len(ActivationsCache.open("small/cache")) == 200
        assert command("cache", "verify", "small/cache")[0] == 0
    finally:
        subprocess.run(["umount", tmp_path / "small"], check=True)
