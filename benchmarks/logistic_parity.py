"""The batched solver against scikit-learn on random cells: `python -m benchmarks.logistic_parity`."""

from __future__ import annotations

import argparse

import torch
from threadpoolctl import threadpool_limits

from tests.probes.logistic_parity import KINDS, parity, random_cell


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=200)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = {kind: [] for kind in KINDS}
    with threadpool_limits(1):
        for seed in range(arguments.cells):
            cell = random_cell(seed)
            found[cell.kind].append(parity(cell))
    print("| kind | cells | within the bounds | objective | decision values | AUROC |")
    print("|---|---|---|---|---|---|")
    for kind, cells in found.items():
        worst = [
            max(getattr(p, name) for p in cells) for name in ("objective", "decision", "auroc")
        ]
        figures = " | ".join(f"{value:.1e}" for value in worst)
        print(f"| {kind} | {len(cells)} | {sum(p.holds for p in cells)} | {figures} |")


if __name__ == "__main__":
    main()
