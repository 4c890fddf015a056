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
        sleep: waits so many seconds.
    """

    def __init__(
        self,
        per_minute: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.seconds = 0.0 if per_minute is None else 60.0 / per_minute
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._next = clock()

    def wait(self) -> None:
        """Return when the next request may be sent."""
        with self._lock:
            now = self._clock()
            turn = max(now, self._next)
            self._next = turn + self.seconds
        if turn > now:
            self._sleep(turn - now)
