"""One endpoint, asked one request at a time: tries, pace and every fault in one place. Safe to use from threads.

The `openai` client sends the requests and tries again after a timeout, a lost connection, a 408, 409, 429 or 5xx:
after as long as `Retry-After` says (up to two minutes), else after 0.5 s doubling to 8 s, less up to a quarter at
random. Redirects are not followed, so that neither a prompt nor the key goes to a host that nobody named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
from openai import APIStatusError, OpenAI, OpenAIError

from experiments.endpoint.asking import Answer, Ask
from experiments.endpoint.dialect import Dialect
from experiments.endpoint.faults import (
    EndpointError,
    StoppedError,
    TooLargeError,
    fault,
    server_words,
    shown,
)
from experiments.endpoint.pace import Pace
from experiments.endpoint.reading import MalformedError, read_answer
from hooks import Prompt

MAX_BYTES = 8 * 2**20
"""The largest body of an answer that is read."""
MAX_COMPRESSED = MAX_BYTES // 100
"""The same of one that is compressed, which may hold a thousand times as much."""

_NO_KEY = "none"
_CHECK = "Reply with one word: yes or no?"
_CHECK_TOKENS = 4


class EndpointClient:
    """Asks one model at one endpoint.

    Args:
        url: the base URL, as `checked_url` returns it.
        model: the model's name there.
        key: sent as bearer token; None where the endpoint needs none.
        pace: when a request may be sent.
        timeout_s: of one try: to connect, and between two parts of an answer.
        retries: further tries after the first.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key: str | None = None,
        pace: Pace | None = None,
        timeout_s: float = 60.0,
        retries: int = 5,
    ) -> None:
        self.url, self.model = url, model
        self.dialect = Dialect()
        self._key, self._timeout_s = key, timeout_s
        self._pace = pace or Pace(None)
        http = httpx2.Client(
            timeout=timeout_s,
            follow_redirects=False,
            event_hooks={"request": [self._wait_for_turn], "response": [_limit_size]},
        )
        self._client = OpenAI(
            base_url=url, api_key=key or _NO_KEY, max_retries=retries, http_client=http
        )

    def check(self) -> Answer:
        """Ask one short question, so that a wrong URL, key or model is found before the work.

        Raises:
            EndpointError: as `ask`.
        """
        prompt = Prompt.chat("check", _CHECK)
        answer = self.ask(Ask(prompt, _CHECK_TOKENS, logprobs=True), retries=1)
        if not answer.text:
            raise EndpointError(
                f"endpoint {self.url}: answers a plain question with nothing (finish_reason "
                f"{shown(answer.finish_reason)!r}); give a model that answers in words"
            )
        return answer

    def ask(self, ask: Ask, *, retries: int | None = None) -> Answer:
        """Put one request and read the answer.

        Where the endpoint refuses an optional part (seed, temperature, log-probabilities), this request and all later
        ones go without it; `dialect.left_out` says which.

        Raises:
            EndpointError: one line with the URL and the mend.
        """
        retries = self._client.max_retries if retries is None else retries
        while True:
            dialect = self.dialect
            try:
                response = self._client.post(
                    "/chat/completions",
                    body=dialect.body(self.model, ask),
                    options={"max_retries": retries},
                    cast_to=httpx2.Response,
                )
                return read_answer(response, ask.max_tokens)
            except APIStatusError as error:
                simpler = _simpler(dialect, error)
                if simpler is None:
                    raise self._fault(error) from None
                self.dialect = simpler
            except OpenAIError as error:
                raise self._fault(error) from None
            except MalformedError as error:
                told = error.told.format(shown(error.said, self._key))
                raise EndpointError(f"endpoint {self.url}: {told}") from None

    def stop(self) -> None:
        """Send nothing any more: requests that wait for their turn end with an error."""
        self._pace.stop()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _wait_for_turn(self, request: httpx2.Request) -> None:
        if not self._pace.wait():
            raise StoppedError("stopped")

    def _fault(self, error: OpenAIError) -> EndpointError:
        return fault(error, self.url, self.model, self._timeout_s, self._key)


def _simpler(dialect: Dialect, error: APIStatusError) -> Dialect | None:
    if error.status_code not in (400, 422):
        return None
    body = error.body if isinstance(error.body, dict) else {}
    return dialect.without(str(body.get("param") or server_words(error)))


class _Limited(httpx2.SyncByteStream):
    """A body that ends with an error where it passes so many bytes."""

    def __init__(self, stream: Any, limit: int) -> None:
        self._stream, self._limit = stream, limit

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for part in self._stream:
            size += len(part)
            if size > self._limit:
                raise TooLargeError(
                    f"sends an answer of over {self._limit // 1024} KiB; is the URL that of a chat endpoint?"
                )
            yield part

    def close(self) -> None:
        self._stream.close()


def _limit_size(response: httpx2.Response) -> None:
    compressed = response.headers.get("content-encoding", "identity") != "identity"
    limit = MAX_COMPRESSED if compressed else MAX_BYTES
    response.stream = _Limited(response.stream, limit)
