import json
import re
import sys
import zipfile
from collections import Counter

import openpyxl
import pandas as pd
import pytest

from nnunet_dro.evaluation import check_cases, read_cases, strata
from nnunet_dro.evaluation.stratifying.parts import Part, parse_by
from nnunet_dro.evaluation.stratifying.stratify import notes_on_entries, stratify, stratify_all


@pytest.fixture
def table_of(tmp_path):
    def read(content, name="cases.csv"):
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_cases(tmp_path / name)

    return read


@pytest.fixture
def sheet_of(tmp_path):
    def read(*rows):
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        book.save(tmp_path / "cases.xlsx")
        return read_cases(tmp_path / "cases.xlsx")

    return read


def table(**columns):
    n = len(next(iter(columns.values())))
    return pd.DataFrame({"case": [f"c{i}" for i in range(n)], **columns})


def order(series):
    assert series.cat.ordered
    return series.cat.categories.tolist()


# Reading


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("case,age\n001,07\n1e3,5\n", {"case": ["001", "1e3"], "age": ["07", "5"]}),
        ("\ufeffcase\t centre \n a \t Paris\n", {"case": ["a"], "centre": ["Paris"]}),
        ("case;age\na;0,5\n", {"case": ["a"], "age": ["0,5"]}),
        ('case, site\na, "A, B"\n', {"case": ["a"], "site": ["A, B"]}),
        (
            'case,"centre, city"\n\na,"Köln, ""Süd"" [1]"\n,\n',
            {"case": ["a"], "centre, city": ['Köln, "Süd" [1]']},
        ),
        ("case,centre,\na,A,\n", {"case": ["a"], "centre": ["A"]}),
        ("case,centre\na,\nb, \nc,n/a\nd,NaN\n", {"case": list("abcd"), "centre": ["missing"] * 4}),
        # Of what is written, a carriage return would end the row.
        ('case,note\na,"x\ry"\nb,"x\r\ny"\n', {"case": ["a", "b"], "note": ["x\ny"] * 2}),
    ],
)
def test_tables_are_read_as_text(table_of, text, expected):
    assert table_of(text, "cases.TSV" if "\t" in text else "cases.csv").to_dict("list") == expected


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("case\tsite\n007\tA\n", ["case", "site"]),
        ("case\tage, years; roughly\n007\t61\n", ["case", "age, years; roughly"]),
        # Excel's first line names the separator, whatever the others look like.
        ("sep=;\ncase;site\n007;A\n", ["case", "site"]),
        ("\ufeffsep=;\r\ncase;site\r\n007;A\r\n", ["case", "site"]),
        ("sep=,\ncase,site\n007,A\n", ["case", "site"]),
        ("sep=\t\ncase\tsite\n007\tA\n", ["case", "site"]),
        ('case;"age, years"\n007;61\n', ["case", "age, years"]),
        ("age, years;case_id\n61;007\n", ["age, years", "case"]),
        ('case,"a;b;c;d"\n007,A\n', ["case", "a;b;c;d"]),
        ('case, "a;b;c;d"\n007, A\n', ["case", "a;b;c;d"]),
        ("case\n007\n", ["case"]),
    ],
)
def test_separators_of_spreadsheets_are_understood(table_of, text, columns):
    table = table_of(text)

    assert table.columns.tolist() == columns
    assert table["case"].tolist() == ["007"]


def test_rows_are_numbered_as_in_an_editor_below_the_line_of_excel(table_of):
    with pytest.raises(ValueError, match="1 for 2 columns in row 4"):
        table_of("sep=;\ncase;site\na;A\nb\n")


def test_sheet_gives_text(sheet_of):
    table = sheet_of(
        ["case", "age", "site", 2],
        ["001", 1.0, None, True],
        [2, 0.5, "n/a", pd.Timestamp("2020-01-31")],
    )
    expected = {
        "case": ["001", "2"],
        "age": ["1", "0.5"],
        "site": ["missing"] * 2,
        "2": ["true", "2020-01-31"],
    }

    assert table.to_dict("list") == expected


JSON = {
    "records": [
        {"case": 1, "x": 0.5},
        {"case": "002", "x": True, "y": None},
        {"case": "c", "y": "z"},
    ],
    "mapping": {"1": {"x": 0.5}, "002": {"x": True, "y": None}, "c": {"y": "z"}},
    "columns": {"case": [1, "002", "c"], "x": [0.5, True, None], "y": [None, None, "z"]},
}


@pytest.mark.parametrize("form", JSON)
def test_json_in_every_form_gives_the_same_table(table_of, form):
    expected = {
        "case": ["1", "002", "c"],
        "x": ["0.5", "true", "missing"],
        "y": ["missing", "missing", "z"],
    }
    assert table_of(JSON[form], "cases.json").to_dict("list") == expected


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("participant_id,age", ["case", "age"]),
        ("age,participant_id,case_id", ["age", "participant_id", "case"]),
        ("participant_id,case,case_id", ["participant_id", "case", "case_id"]),
    ],
)
def test_identifier_column_is_found(table_of, header, columns):
    assert (
        table_of(f"{header}\n{','.join('sub-01' for _ in columns)}\n").columns.tolist() == columns
    )


#: What is no table, and words of the error, by the ending of the file.
DAMAGED = r"readable table, got .*cases\.xlsx.*complete spreadsheet"
UNUSABLE = {
    "xlsx": [(b"", DAMAGED), (b"PK\x03\x04 truncated", DAMAGED), (b"case,centre\na,A\n", DAMAGED)],
    "ods": [(b"", r"end in \.csv, \.tsv, \.xlsx or \.json, got '.*cases\.ods'")],
    "csv": [
        ("name,centre\na,A\n", "must have a column `case`, got name, centre in "),
        ("case,centre\n", "a row per case, got none"),
        ("", "readable table"),
        ("\n\n", "readable table"),
        ("case,centre\na,A\na,B\nb,B\n", "every case once, got a twice"),
        ("case,centre,centre\na,A,B\n", "every column once, got centre twice"),
        ("case,centre\n\na,A\n,B\n", "empty name in row 4"),
        (
            "case,centre\na,A,surplus\nb,B,surplus\n",
            "a name for every column, got 2 for 3 entries in row 2",
        ),
        ("case,centre\na,A\nb\n", "an entry for every column, got 1 for 2 columns in row 3"),
        (",case\n0,a\n", "a name for every column, got none for column 1"),
        ('case,centre\na,A\n"b,B\n', "readable table"),
        (b"case\n\xff\xfe\x00", "readable table"),
    ],
    "json": [
        ("", "readable table"),
        ('[{"case": "a"', "readable table"),
        ("[" * 100_000, "readable table"),
        ("[]", "got nothing"),
        ("{}", "row per case"),
        ("3", "must be a list of records"),
        ("[1, 2]", "must be a list of records"),
        ('{"case": ["a", "b"], "x": [1]}', "differ in length"),
        ('{"a": {"x": 1}, "a": {"x": 2}}', "'a' is duplicated"),
        ('{"a": {"case": "b"}}', "every column once, got case twice"),
        ('[{"case": "a", "x": [1, 2]}]', "several values"),
        ('[{"case": "a"}, {"case": null, "x": 1}]', "empty name in row 2"),
    ],
}


@pytest.mark.parametrize(
    ("ending", "content", "message"), [(e, *row) for e, rows in UNUSABLE.items() for row in rows]
)
def test_unusable_table_is_refused_in_one_line(table_of, ending, content, message):
    with pytest.raises(ValueError, match=message) as raised:
        table_of(content, f"cases.{ending}")
    assert "\n" not in str(raised.value)


def alter_sheet(path, pattern, replacement):
    """Alter the XML of the first sheet of a spreadsheet."""
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name).decode() for name in book.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = re.sub(pattern, replacement, parts[sheet])
    with zipfile.ZipFile(path, "w") as book:
        for name, text in parts.items():
            book.writestr(name, text)


def test_formulas_that_were_never_computed_are_not_missing_values(sheet_of, tmp_path):
    refused = pytest.raises(ValueError, match=r"formulas were never computed \(B2\)\. Open it")
    with refused:
        sheet_of(["case", "age"], ["a", "=2*3"])

    # Some programs write a wrong size of the sheet.
    path = tmp_path / "cases.xlsx"
    alter_sheet(path, '<dimension ref="A1:B2"', '<dimension ref="A1"')
    with refused:
        read_cases(path)

    # What Excel writes where the result of a formula is an empty text.
    alter_sheet(path, '<c r="B2">(<f>.*?</f>)', r'<c r="B2" t="str">\1')
    assert read_cases(path)["age"].tolist() == ["missing"]


def test_failed_formulas_and_merged_cells_are_no_missing_values(sheet_of, table_of, tmp_path):
    assert sheet_of(["case", "age"], ["a", "#N/A"])["age"].tolist() == ["missing"]
    for age in ("#DIV/0!", "#REF!", "#NAME?"):
        with pytest.raises(
            ValueError, match=rf"formula that failed, got {re.escape(age)} in row 3"
        ):
            sheet_of(["case", "age"], ["a", 5], ["b", age])
    with pytest.raises(ValueError, match=r"formula that failed, got Err:502 in row 2"):
        table_of("case,age\na,Err:502\n")

    sheet_of(["case", "centre"], ["a", "A"], ["b", None])
    merged = '<mergeCells count="1"><mergeCell ref="B2:B3"/></mergeCells>'
    alter_sheet(tmp_path / "cases.xlsx", "(</sheetData>)", rf"\1{merged}")
    with pytest.raises(ValueError, match=r"cells are merged \(B2:B3\)"):
        read_cases(tmp_path / "cases.xlsx")


def test_the_first_sheet_that_is_not_hidden_is_read(tmp_path):
    book = openpyxl.Workbook()
    book.active.sheet_state = "hidden"
    shown = book.create_sheet()
    shown.append(["case"])
    shown.append(["a"])
    book.save(tmp_path / "cases.xlsx")

    assert read_cases(tmp_path / "cases.xlsx")["case"].tolist() == ["a"]

    book.create_chartsheet()
    book.save(tmp_path / "cases.xlsx")
    with pytest.raises(ValueError, match="chart sheet without a chart, which has to be deleted"):
        read_cases(tmp_path / "cases.xlsx")


def test_a_missing_openpyxl_or_table_is_named(sheet_of, tmp_path, monkeypatch):
    sheet_of(["case"], ["a"])
    monkeypatch.setitem(sys.modules, "openpyxl", None)

    with pytest.raises(ValueError, match="pip install openpyxl"):
        read_cases(tmp_path / "cases.xlsx")
    with pytest.raises(FileNotFoundError, match=r"cases\.csv"):
        read_cases(tmp_path / "cases.csv")


def test_cases_without_a_row_are_named(table_of):
    table = table_of("case,centre\na,A\nb,B\n")
    check_cases(table, {"a", "b"})

    check_cases(table, {"a"})

    with pytest.raises(
        ValueError, match=r"a row for every case, got none for c1, c2, c3, c4, c5 and 1 more\."
    ):
        check_cases(table, {"a", "b", *(f"c{n}" for n in range(1, 7))})


@pytest.mark.parametrize("column", ["scanner", "case"])
@pytest.mark.parametrize("divided", [strata, stratify])
def test_absent_column_names_those_there_are(table_of, divided, column):
    with pytest.raises(ValueError, match=f"got '{column}'. Choose from: centre, age"):
        divided(table_of("case,centre,age\na,A,1\n"), column)


# Strata


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("centre", [Part("centre")]),
        ("centre, age", [Part("centre"), Part("age")]),
        ("age:0,18,65", [Part("age", ("0", "18", "65"))]),
        (
            "centre,age:-1e1,.5,inf,stage",
            [Part("centre"), Part("age", ("-1e1", ".5", "inf")), Part("stage")],
        ),
        ("age:q3,centre", [Part("age", n_quantiles=3), Part("centre")]),
        ("a,b:1", [Part("a,b:1")]),
        ("t:2:0,5", [Part("t:2", ("0", "5"))]),
        ("18,age", [Part("18"), Part("age")]),
        # Columns may be typed in another of Unicode's forms.
        ("gro\u0308\u00dfe", [Part("gr\u00f6\u00dfe")]),
        ("gro\u0308\u00dfe:q3, age", [Part("gr\u00f6\u00dfe", n_quantiles=3), Part("age")]),
    ],
)
def test_by_is_read(spec, parts):
    columns = ["centre", "age", "stage", "a,b:1", "t:2", "18", "gr\u00f6\u00dfe"]
    assert list(parse_by(spec, columns)) == parts


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "got ''"),
        ("centre,", "got ''"),
        ("scanner:0,5", "got 'scanner:0,5'|got 'scanner:0'"),
        ("age:0,18,sixty", "got 'sixty'. Choose from: centre, age"),
        ("age:", "two or more increasing numbers, got 'age:'"),
        ("age:5", "two or more increasing numbers, got 'age:5'"),
        ("age:0,18,18", "two or more increasing numbers, got 'age:0,18,18'"),
        ("age:young,18", "two or more increasing numbers, got 'age:young'|got 'age:young,18'"),
        ("age:0,nan", "got 'nan'"),
        ("age:q1", "got 'age:q1'"),
        ("age:q3,5", "got 'age:q3,5'"),
        ("age:0,5,age:q2", "every column once"),
        ("centre,centre", "every column once"),
    ],
)
def test_unusable_by_is_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        parse_by(spec, ["centre", "age"])


SITES = ["site10", "missing", "site2", "Site1", "site2"]
YOUNG = "0 to 18"
MIDDLE = "18 to 65"
OLD = "65 to 120"
THIRDS = ["q1: 0.4 to 0.8", "q2: 1.2 to 1.5", "q3: 5 to 30"]


@pytest.mark.parametrize(
    ("columns", "spec", "expected", "in_order"),
    [
        ({"site": SITES}, "site", SITES, ["Site1", "site2", "site10", "missing"]),
        (
            {"tesla": ["3", "0.6", "10", "0.55", "-1"]},
            "tesla",
            None,
            ["-1", "0.55", "0.6", "3", "10"],
        ),
        (
            {
                "centre": ["B", "A", "A", "missing", "A"],
                "pathology": ["x", "y", "missing", "x", "x"],
            },
            "centre,pathology",
            ["B,x", "A,y", "A,missing", "missing,x", "A,x"],
            ["A,x", "A,y", "A,missing", "B,x", "missing,x"],
        ),
        # Edges are in the stratum above, and the last one in the last.
        (
            {"age": ["0", "17.9", "18", "64", "65", "120", "missing"]},
            "age:0,18,65,120",
            [YOUNG, YOUNG, MIDDLE, MIDDLE, OLD, OLD, "missing"],
            [YOUNG, MIDDLE, OLD, "missing"],
        ),
        (
            {"age": ["70", "1"]},
            "age:0,18,65,inf",
            ["65 to inf", "0 to 18"],
            ["0 to 18", "65 to inf"],
        ),
        (
            {"centre": ["B", "A"], "age": ["70", "1"], "sex": ["f", "m"]},
            "centre,age:0,18,120,sex",
            ["B,18 to 120,f", "A,0 to 18,m"],
            ["A,0 to 18,m", "B,18 to 120,f"],
        ),
        # Quantiles name their range, and equal entries stay in one.
        (
            {"volume": ["1.2", "0.4", "missing", "5", "1.5", "30", "0.8"]},
            "volume:q3",
            [THIRDS[1], THIRDS[0], "missing", THIRDS[2], THIRDS[1], THIRDS[2], THIRDS[0]],
            [*THIRDS, "missing"],
        ),
        (
            {"volume": ["0"] * 90 + [str(n) for n in range(1, 11)]},
            "volume:q3",
            ["q1: 0"] * 90 + ["q2: 1 to 5"] * 5 + ["q3: 6 to 10"] * 5,
            ["q1: 0", "q2: 1 to 5", "q3: 6 to 10"],
        ),
        (
            {"volume": ["0.123456789", "1234567.891", "-12.3456789012", "1e-7"]},
            "volume:q2",
            None,
            ["q1: -12.346 to 1e-7", "q2: 0.12346 to 1234568"],
        ),
    ],
)
def test_strata_have_names_and_an_order(columns, spec, expected, in_order):
    attribute, series = stratify(table(**columns), spec)
    assert attribute == ",".join(columns)
    assert order(series) == in_order
    if expected:
        assert series.tolist() == expected
        assert series.index.tolist() == [f"c{n}" for n in range(len(expected))]


@pytest.mark.parametrize(
    ("columns", "spec", "message"),
    [
        (
            {"age": ["5", "old"]},
            "age:0,120",
            "`age` must be a finite number to be cut, got 'old' for 'c1'",
        ),
        (
            {"age": ["5", "inf"]},
            "age:0,120",
            "`age` must be a finite number to be cut, got 'inf' for 'c1'. Correct",
        ),
        (
            {"age": ["5", "61,5"]},
            "age:q2",
            r"got '61,5' for 'c1'\. Write numbers with a decimal point",
        ),
        (
            {"age": ["5", "90.5"]},
            "age:0,90",
            "`age` must be between the edges 0 and 90, got '90.5' for 'c1'. Widen",
        ),
        ({"age": ["5", "-1"]}, "age:0,120", "between the edges 0 and 120, got '-1' for 'c1'"),
        ({"age": ["1", "1.0", "2"]}, "age:q3", "`age` must have at least 3 different numbers"),
        ({"age": ["missing", "missing"]}, "age:q3", "`age` must have at least 3 different numbers"),
        ({"a": ["A,B", "A"], "b": ["C", "B,C"]}, "a,b", "a name of its own, got 'A,B,C' twice"),
    ],
)
def test_entries_that_cannot_be_divided_are_named(columns, spec, message):
    with pytest.raises(ValueError, match=message):
        stratify(table(**columns), spec)


@pytest.mark.parametrize(("n", "q"), [(10, 3), (11, 3), (5000, 7), (7, 7)])
def test_quantiles_without_ties_differ_by_one_case_at_most(n, q):
    sizes = Counter(
        stratify(table(volume=[str(i * 1.25) for i in range(n)]), f"volume:q{q}")[1]
    ).values()
    assert len(sizes) == q
    assert max(sizes) - min(sizes) <= 1


def test_only_the_evaluated_cases_play_a_part_and_cuts_have_names():
    rows = table(centre=["A", "B", "C"], volume=["1", "2", "99"])
    before = rows.copy()

    result = stratify_all(rows, ["centre", "volume:q2"], ["c1", "c0"])

    assert result["centre"].index.tolist() == ["c1", "c0"]
    assert [order(result[name]) for name in ("centre", "volume")] == [
        ["A", "B"],
        ["q1: 1", "q2: 2"],
    ]
    pd.testing.assert_frame_equal(rows, before)

    alone = stratify_all(None, [], ["b", "a"])
    assert {name: of_case.to_dict() for name, of_case in alone.items()} == {
        "all": {"b": "all", "a": "all"}
    }
    assert order(alone["all"]) == ["all"]

    # Another way to cut a column is named by its spec.
    rows = table(age=["1", "70"], centre=["A", "B"])
    specs = ["age:0,18,120", "age:q2", "centre", "centre", "age:0,18,120"]

    assert list(stratify_all(rows, specs, ["c0", "c1"])) == ["age", "age:q2", "centre"]

    both = stratify_all(rows, ["age:q2", "age"], ["c0", "c1"])
    assert list(both) == ["age:q2", "age"]
    assert order(both["age"]) == ["1", "70"]


# Spelling


def test_entries_that_may_mean_the_same_are_noted_column_by_column():
    of_cases = table(
        centre=["A", "a", "Ä", "A\u0308", "B"],
        # Web pages and spreadsheets leave spaces without a width.
        scanner=["1", "1.0", "1.5 T", "1.5_t", "1.5 T\u200b"],
        age=["5", "05", "40", "60", "60"],
        patient=["p 1", "P_01", "p 2", "missing", "p 3"],
    )
    said = (
        "{} has entries that may mean the same: {}. They count as different ones. If they are not, "
        "write them alike in the case table."
    )

    assert notes_on_entries(of_cases, ["centre,scanner", "age:0,18,65"], "patient") == [
        said.format("centre", "A = a, A\u0308 = Ä"),
        said.format("scanner", "1 = 1.0, 1.5 T = 1.5 T\u200b = 1.5_t"),
        said.format("patient", "P_01 = p 1"),
    ]
    assert notes_on_entries(table(site=["A1", "A10", "B1", "10", "1"]), ["site"]) == []
    assert notes_on_entries(None, []) == []


def test_numbers_with_a_decimal_comma_are_noted_and_no_other_commas():
    of_cases = table(volume=["1,5", "2", "missing", "-3,25"], city=["1,5", "Köln, Süd", "2", "3"])

    assert notes_on_entries(of_cases, ["volume", "city"]) == [
        "volume has numbers with a decimal comma (-3,25, 1,5), which count as text. Write them "
        "with a decimal point in the case table."
    ]
