"""What the words themselves show: which way round they rank, whether they can be read, whether they lean aside."""

from __future__ import annotations

import numpy as np

from experiments.inequalities import Comparisons, Evidence, Rules, Verdict, groups_for
from experiments.scored import Scored
from probes import Interval, criterion_interval, rate_interval


def upright_evidence(path: Comparisons, words: Scored) -> Evidence:
    """Whether the log-odds rank the outcome the right way round; under 0.5 they are inverted."""
    auroc = words.interval(path.outcome, path.scored_by, path.groups)
    return _sided("words rank the right way round", "AUROC of the log-odds", auroc, 0.5)


def parse_evidence(parsed: np.ndarray, groups: np.ndarray, rules: Rules) -> Evidence:
    """Whether enough of the generated answers can be parsed; `parsed` `[item]` is NaN where not."""
    rate = rate_interval(~np.isnan(parsed), groups)
    return _sided(
        "answers can be parsed", "parse rate of the generated answers", rate, rules.parse_rate
    )


def bias_evidence(
    outcome: np.ndarray, parsed: np.ndarray, groups: np.ndarray, rules: Rules
) -> Evidence:
    """Whether the parsed answers lean to one side more than the rules allow."""
    scored = ~np.isnan(parsed)
    name, question = "answers are not biased", "criterion c of the parsed answers"
    if len(set(groups[scored])) < 2:
        return Evidence(name, question, np.nan, np.nan, np.nan, rules.criterion, "undecided")
    c = criterion_interval(outcome[scored], parsed[scored].astype(int), groups[scored])
    clear_of_zero = c.low > rules.criterion_clear_of or c.high < -rules.criterion_clear_of
    verdict: Verdict = "undecided"
    if abs(c.estimate) > rules.criterion and clear_of_zero:
        verdict = "over"
    elif c.low > -rules.criterion and c.high < rules.criterion:
        verdict = "under"
    needed = None
    if verdict == "undecided" and abs(c.estimate) > rules.criterion:
        needed = groups_for(c, abs(c.estimate) - rules.criterion_clear_of)
    elif verdict == "undecided":
        needed = groups_for(c, rules.criterion - abs(c.estimate))
    return Evidence(name, question, c.estimate, c.low, c.high, rules.criterion, verdict, needed)


def _sided(name: str, question: str, interval: Interval, limit: float) -> Evidence:
    """Whether a quantity lies decidedly under or over a limit."""
    verdict: Verdict = "undecided"
    if interval.high < limit:
        verdict = "under"
    elif interval.low > limit:
        verdict = "over"
    needed = None
    if verdict == "undecided":
        needed = groups_for(interval, abs(interval.estimate - limit))
    estimate, low, high = interval.estimate, interval.low, interval.high
    return Evidence(name, question, estimate, low, high, limit, verdict, needed)
