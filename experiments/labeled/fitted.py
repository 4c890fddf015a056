"""The probe that is kept: fitted on all labeled items, at the cell and penalty that were chosen most often."""

from __future__ import annotations

from jaxtyping import Float32
from numpy import ndarray

from experiments.labeled.labels import Labels
from experiments.labeled.measured import ProbeSettings
from probes import MultinomialProbe, RidgeRegressionProbe, probe_of
from probes.storage import StoredProbe


def fit_probe(
    labels: Labels,
    settings: ProbeSettings,
    penalty: float,
    features: Float32[ndarray, "item d_model"],
) -> StoredProbe:
    """Fit the kind of probe that the labels want."""
    if labels.kind == "classes":
        return MultinomialProbe(C=penalty).fit(features, labels.y)
    if labels.kind == "rate":
        return RidgeRegressionProbe(alpha=penalty).fit(features, labels.y)
    return probe_of(settings.probe, penalty).fit(features, labels.y)
