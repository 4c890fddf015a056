"""What is finished of the interventions on a run, so that a kill costs no more than the item at work."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from experiments.records import append_rows, read_whole_rows


class Store:
    """Parts by name, in a file of JSON Lines that is added to as they come.

    Parts of other settings, another model or other versions are not taken up.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path = path
        self._digest = hashlib.sha256(
            json.dumps(about, sort_keys=True, default=str).encode()
        ).hexdigest()[:16]
        self._held = {
            row["part"]: row["value"]
            for row in read_whole_rows(path)
            if row["about"] == self._digest
        }

    def get(self, part: str, make: Callable[[], Any]) -> Any:
        """The part as JSON holds it, made and kept if it is not there."""
        if part not in self._held:
            value = json.loads(json.dumps(make()))
            append_rows(self.path, [{"about": self._digest, "part": part, "value": value}])
            self._held[part] = value
        return self._held[part]

    def close(self) -> None:
        """Remove the file: the whole has been written elsewhere."""
        self.path.unlink(missing_ok=True)
