import pytest

from nnunet_dro.evaluation import check_cases, read_cases, strata


@pytest.fixture
def table_of(tmp_path):
    def read(text, name="cases.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return read_cases(tmp_path / name)

    return read


def test_identifiers_stay_text(table_of):
    assert table_of("case,age\n001,07\n1e3,5\n")["case"].tolist() == ["001", "1e3"]
    assert table_of("case,age\n001,07\n")["age"].tolist() == ["07"]


def test_byte_order_mark_spaces_and_tabs_are_read(table_of):
    table = table_of("\ufeffcase\t centre \n a \t Paris\n", "cases.tsv")

    assert strata(table, "centre").to_dict() == {"a": "Paris"}


@pytest.mark.parametrize("entry", ["", " ", "n/a", "NaN"])
def test_missing_values_are_their_own_stratum(table_of, entry):
    assert strata(table_of(f"case,centre\na,A\nb,{entry}\n"), "centre").to_dict() == {"a": "A", "b": "missing"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,centre\na,A\n", "must have a column `case`, got name, centre"),
        ("case,centre\n", "a row per case, got none"),
        ("", "readable table"),
        ("case,centre\na,A\na,B\nb,B\n", "every case once, got a twice"),
        ("case,centre\na,A\n,B\n", "empty name in row 3"),
        ("case,centre\na,A,surplus\nb,B,surplus\n", "a name for every column"),
        ('case,centre\na,A\n"b,B\n', "readable table"),
    ],
)
def test_unusable_table_is_refused(table_of, text, message):
    with pytest.raises(ValueError, match=message):
        table_of(text)


def test_absent_table_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cases\.csv"):
        read_cases(tmp_path / "cases.csv")


def test_unknown_and_missing_cases_are_named(table_of):
    table = table_of("case,centre\na,A\nb,B\n")

    check_cases(table, {"a", "b"})
    with pytest.raises(ValueError, match=r"that are there, got b\."):
        check_cases(table, {"a"})
    with pytest.raises(ValueError, match=r"a row for every case, got none for c1, c2, c3, c4, c5 and 1 more\."):
        check_cases(table, {"a", "b", *(f"c{n}" for n in range(1, 7))})


@pytest.mark.parametrize("column", ["scanner", "case"])
def test_absent_column_names_those_there_are(table_of, column):
    with pytest.raises(ValueError, match=f"got '{column}'. Choose from: centre, age"):
        strata(table_of("case,centre,age\na,A,1\n"), column)
