"""The answers of an endpoint, written down one by one as they come: none is asked for twice, whatever stops the work.

The file keeps a JSON object a line: the request's digest (`key`), the prompt's id, and the answer. Lines stand in the
order in which answers came. It stays in the folder: answers may have cost money.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.endpoint.asking import Answer, Ask
from experiments.progress import Advance
from experiments.records import append_rows, read_whole_rows

if TYPE_CHECKING:
    from experiments.endpoint.client import EndpointClient

AT_ONCE = 4
"""Requests under way at the same time."""


class AnswerBook:
    """What an endpoint has answered so far, in a file.

    Args:
        path: the file, which may hold the answers of a run that was stopped.
        client: asks what the file does not hold.
    """

    def __init__(self, path: Path, client: EndpointClient) -> None:
        self._path, self._client = path, client
        self._lock = threading.Lock()
        self._held: dict[str, Answer] = {}
        for row in read_whole_rows(path):
            key, _ = row.pop("key"), row.pop("prompt")
            self._held[key] = Answer(**row)

    def answers(self, asks: Sequence[Ask], advance: Advance) -> list[Answer]:
        """The answers `[n]` to `asks`; equal requests are sent once.

        Where one fails, those under way are waited for and kept, and no more are sent.

        Raises:
            EndpointError: the first request that failed.
        """
        wanted = Counter(ask.key for ask in asks)
        missing = {ask.key: ask for ask in asks if ask.key not in self._held}
        advance(sum(count for key, count in wanted.items() if key not in missing))
        stop = threading.Event()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            sent = {pool.submit(self._send, ask, stop): key for key, ask in missing.items()}
            try:
                for future in as_completed(sent):
                    future.result()
                    advance(wanted[sent[future]])
            except BaseException:
                stop.set()
                self._client.stop()
                raise
        return [self._held[ask.key] for ask in asks]

    def holds(self, asks: Iterable[Ask]) -> bool:
        """Whether all of these were answered."""
        return all(ask.key in self._held for ask in asks)

    def __len__(self) -> int:
        """Requests that were answered."""
        return len(self._held)

    @property
    def served_by(self) -> list[str]:
        """The models that the endpoint says have answered."""
        return sorted({answer.served_by for answer in self._held.values()})

    def _send(self, ask: Ask, stop: threading.Event) -> None:
        if stop.is_set():
            return
        try:
            answer = self._client.ask(ask)
        except BaseException:
            stop.set()
            raise
        with self._lock:
            row = {"key": ask.key, "prompt": ask.prompt.id} | answer.to_json()
            append_rows(self._path, [row])
            self._held[ask.key] = answer
