"""Every number that the documentation gives as evidence is in a committed table."""

from pathlib import Path

import pytest

from tests.claims import claims
from tests.claims.claims import blocks_of, claims_in, is_rounded, unclaimed

ROOT = Path(__file__).parents[2]
#: Pages whose numbers must all be proved.
WHOLE_PAGES = ("docs/when-it-helps.md",)
#: Pages, and phrases of them with numbers that are settings or names, not results. All other numbers must be proved in
#: the first, and in paragraphs, items and rows with a link to a page of results in the others.
PAGES = {
    "docs/when-it-helps.md": (
        "(24 of 600 cases)",
        "with 0.01, 0.1 and 1 plain training",
        "after 8,000 iterations",
        "After 8,000 iterations",
        "after 2,000 iterations",
        "of 16,000 iterations",
        "after a tenth of 8,000 iterations",
        "After 2,000 of 8,000 iterations",
        "With 30 % of the label maps",
        "of the first 20 suspects",
        "from ten to 199 times",
        "version 0.1",
        "Fidon et al. 2022",
        "beta 10 is better on the 3s by more than 10 (2020)",
        "or more than 15 points (2022)",
        "(beta 100, brain tumours)",
        "Beta 100",
        "100 in place of a beta of ten",
        "points, and 1000 by",
        "in their Table 3",
        "and 1,000 epochs",
        "Wang et al. 2024",
        "Ren et al. 2018",
    ),
    "README.md": (
        "(24 of 600 phantoms)",
        "(6, 6 and 4 of 316 microscopy images)",
        "of the first 20 of",
        "With 30 of 100",
    ),
    "docs/default.md": (
        "seeds 0 to 4",
        "after 2,000 iterations",
        "(2,000 iterations, one seed",
        "slices of 56 x 40 pixels",
        "On slices of 16 x 16 pixels",
        "share 0.5, pooled hardness",
        "in a training of 1,000 iterations",
    ),
    "docs/finetuning.md": (
        "1,000 iterations",
        "then 100 of",
        "then 100 more, or 1,000",
        "With 0.01",
        "with 0.003",
        "with 0.001",
        "so chose 0.01",
        "had 4,000 iterations",
        "continued for 400",
    ),
    "docs/suspects.md": ("30 of 100", "first 20 suspects"),
    "docs/trainers.md": (
        "of the first 20 suspects",
        "version 0.1",
        "1.4 beta s",
        "(1 - m) / sqrt(1 + m), which is 0.1 beta s for m = 0.9",
        "above 1, use",
        "beta 10 without",
        "a beta of 10 was better than 100",
        "points with 100",
        "with 100), and the others",
        "a momentum of 0.9 gave",
        "a momentum of 0.9 changed",
        "drawn about 1 / (1 - m) times",
        "after 600 iterations",
        "30 % wrong labels",
        "weights are 0, so a batch of 4 is one of 2",
        "4s against 9s",
        "199 times as many 9s",
    ),
}


@pytest.mark.parametrize("page", PAGES)
def test_every_number_of_a_page_is_in_a_committed_table(page):
    wrong = []
    for block in blocks_of((ROOT / page).read_text(encoding="utf-8")):
        wrong += [claim.wrong() for claim in claims_in(block) if claim.wrong()]
        if page in WHOLE_PAGES or "results/" in block:
            wrong += [f"not proved: {number} in {block[:120]!r}" for number in unclaimed(block, PAGES[page])]
    assert not wrong, "\n".join(wrong)


@pytest.fixture
def table(tmp_path, monkeypatch):
    (tmp_path / "made.csv").write_text(
        'method,stratum,mean,- plain\nplain,rare,0.1234,\nDRO,rare,0.4561,"+33.3 [+1.6, +17.0]"\nDRO,usual,0.9,"-0.5"\n'
    )
    monkeypatch.setattr(claims, "RESULTS", tmp_path)


@pytest.mark.usefixtures("table")
def test_a_comment_proves_the_numbers_before_it():
    block = (
        "- With `beta10`, [here](a1.md): 12 and 46 <!-- made.csv 100*mean: method=plain/DRO, stratum=rare -->, so\n"
        "  +33.3 [+1.6, +17.0] <!-- made.csv - plain: method=DRO, stratum=rare -->, and a loss of\n"
        "  0.5 <!-- made.csv - plain#1: method=DRO, stratum=usual --> points."
    )
    assert [claim.wrong() for claim in claims_in(block)] == ["", "", ""]
    assert unclaimed(block) == []


@pytest.mark.usefixtures("table")
def test_a_wrong_number_is_found():
    (claim,) = claims_in("It is 47 <!-- made.csv 100*mean: method=DRO, stratum=rare --> points.")
    assert "the page has 47, the table (45.6" in claim.wrong()
    (claim,) = claims_in("Numbers: 46 <!-- made.csv 100*mean: method=plain/DRO, stratum=rare -->")
    assert "2 numbers are proved" in claim.wrong()
    with pytest.raises(ValueError, match="has 2 rows"):
        claims_in("46 <!-- made.csv mean: method=DRO -->")


@pytest.mark.usefixtures("table")
def test_a_number_without_a_comment_is_found():
    block = "Of 24 of 600 cases, 9 and 46 <!-- made.csv 100*mean: method=DRO, stratum=rare -->, then 1,000"
    assert unclaimed(block, settings=("24 of 600 cases",)) == ["9", "1,000"]


@pytest.mark.usefixtures("table")
def test_several_columns_in_one_comment():
    block = (
        "12 (46; +33.3) <!-- made.csv 100*mean: method=plain/DRO, stratum=rare; - plain#1: method=DRO, stratum=rare -->"
    )
    assert [claim.wrong() for claim in claims_in(block)] == [""]


@pytest.mark.parametrize(
    ("shown", "value", "right"),
    [
        ("46", 45.61, True),
        ("46", 45.4, False),
        ("1,000", 1000.0, True),
        ("-0.5", -0.52, True),
        ("-0.5", 0.5, False),
        ("1.1", -1.06, True),
        ("5e-15", 4.73e-15, True),
        ("5e-15", 5.73e-15, False),
    ],
)
def test_numbers_are_rounded_to_the_digits_that_are_shown(shown, value, right):
    assert is_rounded(shown, value) is right


def test_blocks_are_paragraphs_items_and_rows():
    rows = ["| a | b |", "| --- | --- |", "| 1 | 2 |"]
    text = "# A 1\n\none\ntwo\n\n- three\n  four\n- five\n\n" + "\n".join(rows) + "\n\n```bash\nrun 3\n```\n"
    assert blocks_of(text) == ["one\ntwo", "- three\n  four", "- five", *rows]
