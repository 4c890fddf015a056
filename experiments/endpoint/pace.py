"""So many requests a minute at most, evenly spread, whichever thread sends them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Pace:
    """Lets one request through every 60 / `per_minute` seconds; None lets all through at once.

    Args:
        per_minute: requests a minute at most, retries among them.
        clock: seconds that only grow.
        sleep: waits so many seconds; by default until `stop` at most.
    """

    def __init__(
        self,
        per_minute: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self.seconds = 0.0 if per_minute is None else 60.0 / per_minute
        self._stopped = threading.Event()
        self._clock, self._sleep = clock, sleep or self._stopped.wait
        self._lock = threading.Lock()
        self._next = clock()

    def stop(self) -> None:
        """Let nothing through any more: who waits need not wait on."""
        self._stopped.set()

    def wait(self) -> bool:
        """Return when the next request may be sent; False where none may be, after `stop`."""
        with self._lock:
            now = self._clock()
            turn = max(now, self._next)
            self._next = turn + self.seconds
        if turn > now:
            self._sleep(turn - now)
        return not self._stopped.is_set()
