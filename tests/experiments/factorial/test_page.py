from experiments.factorial.page import Words
from tests.experiments.factorial.made_table import STRATA, made_table

WORDS = Words("made", "nuclei/factorial", STRATA, (1000, 10))


def test_trainings_that_have_learnt_nothing_are_left_out_once_more():
    table = made_table(lambda corner: 50.0 - 6 * corner.weights)
    lost = (table["setting"] == "SGD, beta 10, weights") & (table["seed"] == 1)
    table.loc[lost, "mean"] = 0.5

    text = WORDS.text(table, quick=False)

    assert "next to nothing in any stratum (1 of the 56 trainings)." in text

    (row,) = (
        line.split(" | ")
        for line in text.splitlines()
        if line.startswith("| weights in place of none | 12 | ")
    )
    assert [cell.startswith("-6.0 ") for cell in row[2:]] == [False, False, True, True]
    assert "next to nothing" not in WORDS.text(table[table["seed"] == 0], quick=False)
