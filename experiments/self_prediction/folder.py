"""One comparison is one folder: whose it is, which cells are finished in it, and where its parts lie."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from experiments.config import read_config
from experiments.records import make_folder, read_json, write_json, write_text
from experiments.run_folder import is_taken
from experiments.self_prediction.cells import Cell
from experiments.self_prediction.config import IMMATERIAL, TeachConfig, make_teach_config


class ComparisonFolder:
    """The folder of a comparison. Nothing is written before `claim`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.results = path / "results.json"
        self.table = path / "results.csv"
        self.page = path / "table.md"
        self.figures = path / "figures"
        self.lock = FileLock(path / ".lock", timeout=0)

    def cell(self, cell: Cell) -> Path:
        """The result file of a cell."""
        return self.path / "cells" / f"{cell.name}.json"

    def work(self, cell: Cell) -> Path:
        """What a cell leaves besides: checkpoints, metrics, the head or the adapters."""
        return self.path / "cells" / cell.name

    def is_finished(self, cell: Cell) -> bool:
        """Whether a cell has its result."""
        return self.cell(cell).is_file()

    def read(self, cell: Cell) -> dict[str, Any]:
        """The result of a finished cell."""
        return read_json(self.cell(cell), "delete it and run the same command again")

    def write(self, cell: Cell, result: Mapping[str, Any]) -> None:
        """Write the result of a cell, whole or not at all."""
        path = self.cell(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"cell": cell.to_json(), **result})

    def check(self, config: TeachConfig) -> None:
        """Refuse a folder that holds something else.

        Raises:
            ValueError: a file in the place of the folder, other files, or a comparison with other settings.
        """
        if not is_taken(self.path, self.config):
            return
        held = self.read_config()
        for name in TeachConfig.model_fields:
            there, asked = getattr(held, name), getattr(config, name)
            if name not in IMMATERIAL and there != asked:
                raise ValueError(
                    f"out: {self.path} holds another comparison ({name}: {there!r} there, {asked!r} asked for); "
                    "give another folder"
                )

    def claim(self, config: TeachConfig) -> None:
        """Make the folder this comparison's, and this process the only one at work in it until it ends.

        Raises:
            ValueError: as `check`; a folder that cannot be written, or another process at work in it.
        """
        self.check(config)
        make_folder("out", self.path)
        try:
            self.lock.acquire()
        except Timeout:
            raise ValueError(
                f"out: another process is at work in {self.path}; wait for it or give another folder"
            ) from None
        if not self.config.exists():
            write_text(self.config, config.to_yaml())

    def read_config(self) -> TeachConfig:
        """The settings of the comparison in the folder.

        Raises:
            ValueError: the folder holds no comparison, or its config is damaged.
        """
        if not self.config.is_file():
            raise ValueError(f"{self.path} holds no comparison (no config.yaml)")
        return make_teach_config(read_config(self.config))
