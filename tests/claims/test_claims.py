"""Every number that the documentation gives as evidence is in a committed table."""

import re

import pandas as pd
import pytest

from docs import evidence

LISTED = evidence.listed()


@pytest.mark.parametrize("page", sorted({table["page"] for table in LISTED["table"]}))
def test_the_tables_of_a_page_are_those_of_the_committed_files(page):
    text = (evidence.ROOT / page).read_text(encoding="utf-8")
    assert evidence.with_tables(text, page, LISTED) == text, "run: python docs/evidence.py"


@pytest.mark.parametrize("page", LISTED["page"])
def test_every_number_of_a_page_is_in_a_committed_table(page):
    wrong = evidence.wrong_in((evidence.ROOT / page).read_text(encoding="utf-8"), page, LISTED)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("picture", LISTED["picture"], ids=lambda picture: picture["file"])
def test_a_picture_shows_the_numbers_of_the_committed_files(picture):
    drawn = evidence.numbers_of(picture)
    in_file = evidence.numbers_in_picture(evidence.ROOT / picture["file"])

    assert in_file == drawn.to_json(), "run: python docs/evidence.py"

    # Of an arm that was not tried nothing is drawn.
    tried = sum(len(panel["methods"]) for panel in picture["panels"])
    assert drawn["difference"].notna().sum() == drawn["share"].gt(0).sum() == tried
    assert all(set(panel["methods"]) <= set(picture["arms"]) for panel in picture["panels"])


def test_no_page_with_links_to_results_is_left_out():
    left = [
        page.relative_to(evidence.ROOT).as_posix()
        for page in (evidence.ROOT / "docs").glob("*.md")
        if "](results/" in page.read_text(encoding="utf-8")
    ]
    # Numbers on the papers' page are the papers'.
    assert set(left) - {"docs/papers.md"} <= set(LISTED["page"])


@pytest.fixture
def made(tmp_path, monkeypatch):
    (tmp_path / "made.csv").write_text(
        'method,stratum,mean,- plain,passes\nplain,rare,0.1234,,\nDRO,rare,0.4561,"+33.3 [+1.6, +17.0]",True\n'
        'DRO,usual,0.9,"-0.5",False\n'
    )
    monkeypatch.setattr(evidence, "RESULTS", tmp_path)


MEANS = "made.csv 100*mean: method=plain/DRO, stratum=rare"
DIFFERENCE = "made.csv - plain: method=DRO, stratum=rare"


@pytest.mark.parametrize(
    ("phrase", "source"),
    [
        ("12 and 46", MEANS),
        ("a gain of +33.3 [+1.6, +17.0]", DIFFERENCE),
        ("2 of them", "made.csv mean<=0.5: stratum=rare"),
        ("a loss of 0.5", "made.csv - plain#1: method=DRO, stratum=usual"),
        (
            "from `beta10` 46 to +33.3",
            "made.csv 100*mean: method=DRO, stratum=rare; - plain#1: method=DRO, stratum=rare",
        ),
        # 77.66 and 0; with two pairs the half of the interval is 12.706 times the mean.
        (
            "38.8 [-454.6, +532.2]",
            f"made.csv 100*mean: method=DRO, stratum=usual/rare minus {MEANS}",
        ),
        # Above 33.27 and 44.39 by 44.39 and -44.39.
        (
            "0.0 [-564.0, +564.0]",
            f"made.csv 100*mean: method=DRO, stratum=usual/rare minus {MEANS}"
            f" minus made.csv 100*mean: method=DRO, stratum=rare/usual minus {MEANS}",
        ),
    ],
)
@pytest.mark.usefixtures("made")
def test_a_phrase_with_the_numbers_of_its_source_is_proved(phrase, source):
    text = f"# Page 7\n\nWith 24 cases it is\n{phrase} ([page](results/a1.md)).\n\n```bash\nrun 3\n```\n"
    listed = {"page": {"a.md": {"phrases": [[phrase, source]], "settings": ["24 cases"]}}}

    assert evidence.wrong_in(text, "a.md", listed) == []


@pytest.mark.parametrize(
    ("text", "phrases", "says"),
    [
        ("12 and 47", [["12 and 47", MEANS]], "but [12.34, 45.61]"),
        ("12", [["12", MEANS]], "but [12.34, 45.61]"),
        ("other words", [["12 and 46", MEANS]], "is not on the page"),
        (
            "12 and 46, then 1,000 [there](results/b.md)",
            [["12 and 46", MEANS]],
            "nothing proves 1,000",
        ),
    ],
)
@pytest.mark.usefixtures("made")
def test_what_is_wrong_with_a_sentence_is_said(text, phrases, says):
    (wrong,) = evidence.wrong_in(text, "a.md", {"page": {"a.md": {"phrases": phrases}}})
    assert says in wrong


@pytest.mark.usefixtures("made")
def test_numbers_without_a_link_to_results_count_on_whole_pages_alone():
    assert evidence.wrong_in("It took 5 hours.", "a.md", {"page": {"a.md": {}}}) == []
    assert evidence.wrong_in("It took 5 hours.", "a.md", {"page": {"a.md": {"whole": True}}})


@pytest.mark.usefixtures("made")
def test_a_source_names_one_row_for_each_value():
    with pytest.raises(ValueError, match="has 2 rows"):
        evidence.values("made.csv mean: method=DRO")


@pytest.mark.usefixtures("made")
def test_a_table_is_made_between_its_marks():
    table = {"page": "a.md", "name": "gains", "head": ["data", "Dice", "gain", "a - b", "passes"]}
    table["cells"] = [
        "{0}",
        f"{MEANS} | .0f",
        "made.csv - plain: method={1}",
        f"made.csv 100*mean: method=DRO, stratum=usual/rare minus {MEANS}",
        "made.csv passes: method={1}",
    ]
    table["rows"] = [["**made**", "DRO, stratum=rare"]]

    text = "before\n<!-- begin gains -->\nold\n<!-- end gains -->\nafter\n"

    assert evidence.with_tables(text, "a.md", {"table": [table]}) == (
        "before\n<!-- begin gains -->\n| data | Dice | gain | a - b | passes |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| **made** | 12, 46 | +33.3 [+1.6, +17.0] | +38.8 [-454.6, +532.2] | yes |\n<!-- end gains -->\nafter\n"
    )
    with pytest.raises(ValueError, match="begin gains"):
        evidence.with_tables("nothing", "a.md", {"table": [table]})


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
    assert evidence.is_rounded(shown, value) is right


def test_one_gain_of_the_default_is_open_for_other_cases_alone():
    changed = []
    for path in sorted(evidence.RESULTS.glob("*-wider.csv")):
        for row in pd.read_csv(path).to_dict("records"):
            sides = [signs(row[kind]) for kind in ("trainings", "trainings and cases")]
            if sides[0] != sides[1]:
                changed.append((path.stem, row["method"], row["trainings"][0]))

    gains = [(study, method) for study, method, sign in changed if sign == "+"]
    assert gains == [
        ("convergence-dilated-wider", "IW"),
        ("convergence-hopeless-wider", "hardest_kinds"),
        ("convergence-lesions-wider", "plain_again"),
        ("convergence-longest-wider", "IW"),
    ]
    assert len(changed) == 10
    of_the_default = [sign for _, method, sign in changed if method == "hardest_kinds"]
    assert sorted(of_the_default) == ["+", *"----"]


def test_phantoms_of_several_seeds_are_several_cases():
    cases = pd.read_csv(evidence.RESULTS / "convergence-fresh-cases.csv")
    wider = pd.read_csv(evidence.RESULTS / "convergence-fresh-wider.csv").set_index("stratum")

    rare = cases[cases["stratum"] == "rare"].drop_duplicates(["seed", "case"])
    assert wider.loc["rare", "cases"] == len(rare) == 200


def signs(text):
    """The signs of the ends of an interval, as in ``+2.1 [-0.0, +4.1]``."""
    return re.findall(r"[-+](?=\d)", text)[1:]
