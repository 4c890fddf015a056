from __future__ import annotations

from experiments.report.causes import causes
from experiments.report.formatting import MISSING
from tests.experiments import made_up_results as made_up


def test_the_dissociation_table_comes_first_and_says_what_moves() -> None:
    found = causes(made_up.causal())
    assert found.pattern == "Only the behavior moved"
    table, steering = found.tables
    assert [row[0] for row in table.rows][:4] == [
        "behavior",
        "report about itself",
        "report about another",
        "question about the input",
    ]
    assert table.rows[0][1:] == (
        "+0.90 [0.80, 1.00]",
        "p ≤ 0.005",
        "96 items, 40 groups, 199 null directions",
        "moves",
    )
    assert table.rows[1][-1] == "does not move"
    assert [row[0] for row in table.rows][4:] == [
        "behavior and report, item by item (correlation)",
        "report about itself more than report about another",
    ]
    assert steering.heads[1:] == (
        "-2.00 (beyond the guards)",
        "-1.00",
        "+0.00",
        "+1.00",
        "+2.00 (beyond the guards)",
        "p, random directions",
        "p, shuffled labels",
    )
    assert steering.rows[0][:6] == ("behavior", "-1.80", "-0.90", "+0.00", "+0.90", "+1.80")


def test_every_other_effect_is_in_a_table() -> None:
    guards, ablation, patching, shift = causes(made_up.causal()).more
    assert guards.rows == (("1.00", "0.012", "1.010", "yes"), ("2.00", "0.400", "1.400", "no"))
    assert [row[0] for row in ablation.rows] == [
        "behavior, gap before",
        "behavior, mean, probe direction, mean shift",
        "behavior, mean, probe direction, gap change",
    ]
    assert patching.rows[0][:2] == (
        "task (prompt_last) into self prediction (prompt_last)",
        "+0.44 [0.34, 0.54]",
    )
    assert shift.rows == (
        (
            "probe direction",
            "6 and 5 of 48",
            "+0.01 [-0.09, 0.11]",
            "+0.03 [-0.07, 0.13]",
            "-0.02 [-0.12, 0.08]",
            "undecided: the interval of the self-report's fit holds 0",
        ),
        (
            "difference of means",
            "7 and 0 of 48",
            *[MISSING] * 3,
            "cannot tell: the outcome of 0 items (0 groups) flipped to 0, at least 5 groups are needed",
        ),
    )
    assert all(
        len(row) == len(grid.heads)
        for grid in (guards, ablation, patching, shift)
        for row in grid.rows
    )


def test_parts_that_are_absent_leave_no_tables() -> None:
    found = causes({"notes": ["Nothing could be measured."]})
    assert (found.tables, found.more) == ((), ())
    assert found.notes == ("Nothing could be measured.",)
