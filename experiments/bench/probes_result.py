"""What `selfprobe bench probes` found: numbers for a file, and a table of them for a person."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class ProbesBench:
    """What a fit costs, and whether it gives the same.

    Attributes:
        speedup_over: "sklearn": its time a fit over ours, median over rounds.
        milliseconds_a_fit: wall time over fits, all cores at work: "sweep", "sklearn", and "gpu" where there is one.
        sklearn_milliseconds_by_c: of a fit in its own process, median, by C.
        max_auroc_difference: largest difference of an out-of-fold AUROC of the sample from that of scikit-learn's
            solution at a tolerance of 1e-9 in float64.
        max_auroc_difference_at_default_tol: the same from the fits that were timed.
        n_not_converged: rows of the sweep, of `n_rows`, that say so.
        peak_memory_bytes: of a process that does nothing but sweep 8 layers.
        peak_memory_4x_layers: that over the same with 2 layers.
        n_items, n_features, n_cells, n_fits, n_sampled, cores, gpu: what was run; `gpu` is None where there is none.
        seconds: every round's times and numbers of fits.
    """

    speedup_over: dict[str, float]
    milliseconds_a_fit: dict[str, float]
    sklearn_milliseconds_by_c: dict[str, float]
    max_auroc_difference: float
    max_auroc_difference_at_default_tol: float
    n_not_converged: int
    n_rows: int
    peak_memory_bytes: int
    peak_memory_4x_layers: float
    n_items: int
    n_features: int
    n_cells: int
    n_fits: int
    n_sampled: int
    cores: int
    gpu: str | None
    seconds: list[dict[str, float]]

    def to_dict(self) -> dict[str, object]:
        """Everything, JSON-able."""
        return asdict(self)

    def lines(self) -> list[str]:
        """A table for a person."""
        ms = self.milliseconds_a_fit
        gpu = f"{ms['gpu']:10.3f}  ({self.gpu})" if "gpu" in ms else "         -  (none here)"
        return [
            f"{self.n_cells} cells of {self.n_items} x {self.n_features}, {self.n_fits} fits, {self.n_sampled} of them "
            f"by scikit-learn too, {self.cores} cores",
            "",
            "milliseconds a fit, all cores at work",
            f"  {'sweep':<36}{ms['sweep']:10.3f}",
            f"  {'sweep on a GPU':<36}{gpu}",
            f"  {'scikit-learn in a joblib pool':<36}{ms['sklearn']:10.3f}",
            *(
                f"    {f'C = {c}, in its own process':<34}{value:10.3f}"
                for c, value in self.sklearn_milliseconds_by_c.items()
            ),
            f"speedup over scikit-learn             {self.speedup_over['sklearn']:10.1f}",
            "largest difference of an out-of-fold AUROC",
            f"  {'from scikit-learn, converged':<36}{self.max_auroc_difference:10.1e}",
            f"  {'from scikit-learn, default tol':<36}{self.max_auroc_difference_at_default_tol:10.1e}",
            f"rows not converged                    {self.n_not_converged:10d}  (of {self.n_rows})",
            f"peak memory, megabytes                {self.peak_memory_bytes / 1e6:10.0f}",
            f"  {'4 times the layers':<36}{self.peak_memory_4x_layers:10.2f}",
        ]
