"""Which URLs may be asked, and with which key: decided before anything is sent, and never with the key in a message."""

from __future__ import annotations

import sys

import pytest

from experiments.endpoint.address import checked_url, key_for
from experiments.endpoint.connect import connect


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("https://api.example.org/v1", "https://api.example.org/v1"),
        (" https://api.example.org/v1// ", "https://api.example.org/v1"),
        ("HTTPS://API.Example.org", "https://api.example.org"),
        ("http://127.0.0.1:8000/v1/chat/completions", "http://127.0.0.1:8000/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_one_endpoint_has_one_spelling(given: str, plain: str) -> None:
    assert checked_url(given) == plain
    assert checked_url(plain) == plain


@pytest.mark.parametrize(
    "given", ["", "api.example.org/v1", "ftp://h/v1", "https://", "http://[::1", "https://h:99999/v1",
              "https://h h/v1", "https://h/v1\nHost: x", "https://h\t/v1", "https://h/v1\x00"]
)  # fmt: skip
def test_what_is_no_url_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match=r"^endpoint: not an http or https URL"):
        checked_url(given)


@pytest.mark.parametrize(
    "given",
    [
        "https://SECRET@api.example.org/v1",
        "https://me:SECRET@api.example.org/v1",
        "https://api.example.org/v1?key=SECRET",
        "https://api.example.org/v1#SECRET",
    ],
)
def test_a_key_in_the_url_is_refused_and_not_repeated(given: str) -> None:
    with pytest.raises(ValueError, match=r"api\.example\.org holds a user, a query") as caught:
        checked_url(given)
    assert "SECRET" not in str(caught.value)


def test_a_key_goes_out_encrypted_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "SECRET")
    assert key_for("https://api.example.org/v1") == "SECRET"
    for here in ("http://localhost:8000/v1", "http://127.3.2.1/v1", "http://[::1]:8000/v1"):
        assert key_for(here) == "SECRET"
    for there in ("http://10.0.0.5:8000/v1", "http://localhost.example.org/v1", "http://vllm/v1"):
        with pytest.raises(ValueError, match="clear text") as caught:
            key_for(there)
        assert "SECRET" not in str(caught.value)
    monkeypatch.setenv("OPENAI_API_KEY", "SEC\nRET")
    with pytest.raises(ValueError, match=r"^OPENAI_API_KEY: holds a space") as caught:
        key_for("https://api.example.org/v1")
    assert "RET" not in str(caught.value)
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    assert key_for("http://10.0.0.5:8000/v1") is None


def test_without_the_package_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.delitem(sys.modules, "experiments.endpoint.client", raising=False)
    monkeypatch.delitem(sys.modules, "experiments.endpoint.faults", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'selfprobe\[endpoint\]'"):
        connect("http://localhost/v1", "toy")
