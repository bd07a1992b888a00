"""Verdicts for programs: every requirement with its number, and JUnit that a pipeline can read."""

import json
from xml.etree import ElementTree

import pytest

from nnunet_dro.evaluation.judging.requirements import parse_requirement
from nnunet_dro.evaluation.judging.verdict_files import verdict_files
from tests.commands import done, run
from tests.evaluation.made_folders import run_evaluate, write_cases, write_study

MET = "REQ/1.2: label=tumour mean>=0.5"
MISSED = "label=tumour min>=0.99"
UNCLEAR = "REQ-3: label=tumour p5>=0@95"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return write_study(tmp_path_factory.mktemp("study"), shifts=(0, 1, 1))


@pytest.mark.parametrize(
    ("requirements", "code"),
    [
        ([MET], 0),
        ([MISSED], 3),
        ([UNCLEAR], 4),
        ([UNCLEAR, MISSED], 3),
        ([MET, UNCLEAR], 4),
    ],
)
def test_the_exit_code_is_that_of_the_surest_failure(study, requirements, code):
    words = [word for text in requirements for word in ("--require", text)]
    done(run_evaluate(study, *words, "--overwrite"), code)


def test_verdicts_are_written_for_programs(study):
    words = [word for text in (MET, MISSED, UNCLEAR) for word in ("--require", text)]
    result = done(run_evaluate(study, *words, "--overwrite"), 3)

    content = json.loads((study / "out" / "verdicts.json").read_text(encoding="utf-8"))
    assert content["counts"] == {"met": 1, "not met": 1, "cannot tell": 1}

    met, missed, unclear = content["verdicts"]
    assert [entry["identifier"] for entry in content["verdicts"]] == ["REQ/1.2", "R2", "REQ-3"]
    assert [entry["requirement"] for entry in content["verdicts"]] == [MET, MISSED, UNCLEAR]
    assert (met["estimand"], met["n"], met["verdict"]) == ("mean of Dice over cases", 3, "met")
    # The cubes are four voxels wide: moved by one, three quarters remain.
    assert (missed["value"], missed["comparison"], missed["bound"]) == (0.75, ">=", 0.99)
    assert missed["unit"] == "fraction"
    assert unclear["value"] is None
    assert unclear["estimand"] == "lower 95 % bound of the 5th percentile of Dice over cases"

    line = "cannot tell if a requirement is met: REQ-3: label=tumour: p5 has no lower 95 % bound"
    assert line in result.stderr


def test_junit_has_a_test_for_each_verdict(study):
    words = [word for text in (MET, MISSED, UNCLEAR) for word in ("--require", text)]
    done(run_evaluate(study, *words, "--overwrite"), 3)

    suites = ElementTree.parse(study / "out" / "verdicts.xml").getroot()
    (suite,) = suites
    numbers = {name: suite.get(name) for name in ("tests", "failures", "errors")}
    assert numbers == {"tests": "3", "failures": "1", "errors": "1"}

    kinds = {case.get("classname"): [child.tag for child in case] for case in suite}
    assert kinds == {"REQ/1.2": [], "R2": ["failure"], "REQ-3": ["error"]}
    (failure,) = suite.iter("failure")
    assert "min 0.75" in failure.get("message")


def test_earlier_verdicts_do_not_stay_beside_new_results(study):
    done(run_evaluate(study, "--require", MISSED, "--overwrite"), 3)
    done(run_evaluate(study, "--overwrite"))

    assert not (study / "out" / "verdicts.json").exists()
    assert not (study / "out" / "verdicts.xml").exists()


def test_a_comparison_has_verdicts_with_numbers_of_their_own(study):
    done(run_evaluate(study, "--overwrite"))
    words = ("--require", "mean_difference>=0.5pt", "-o", study / "both")
    done(run("compare", f"a={study / 'out'}", f"b={study / 'out'}", *words), 3)

    content = json.loads((study / "both" / "verdicts.json").read_text(encoding="utf-8"))
    entries = [(entry["identifier"], entry["method"]) for entry in content["verdicts"]]
    assert set(entries) == {("C1", "b")}
    words = "difference in the mean (method minus baseline) of Dice over cases"
    assert content["verdicts"][0]["estimand"] == words


def test_names_that_xml_cannot_write_do_not_break_it():
    record = {
        "identifier": "R1",
        "requirement": "a=\x00 p5>=0.7",
        "attribute": "a",
        "stratum": "\udc80<&\"'>",
        "label": "1",
        "method": "",
        "verdict": "not met",
        "line": "\x0b",
    }
    text = verdict_files("\x01", [record])["verdicts.xml"]
    (suite,) = ElementTree.fromstring(text.encode("utf-8"))
    assert suite[0].get("name") == "a=\ufffd p5>=0.7 (a=\ufffd<&\"'> label=1)"


@pytest.mark.parametrize(
    ("text", "identifier", "attribute"),
    [
        ("SRS-4.1: centre=A p5>=0.7", "SRS-4.1", "centre"),
        ("auto:size=small p5>=0.7", "", "auto:size"),
        ("p5>=0.7", "", None),
    ],
)
def test_an_identifier_stands_before_a_colon_and_a_space(text, identifier, attribute):
    requirement = parse_requirement(text)
    assert (requirement.identifier, requirement.attribute) == (identifier, attribute)
    assert requirement.text == text


def test_patients_are_what_the_estimand_is_over(study):
    table = write_cases(study, patient=["1", "1", "2"])
    words = ("--cases", table, "--patient", "patient", "--require", MET)
    done(run_evaluate(study, *words, out="patients"))

    content = json.loads((study / "patients" / "verdicts.json").read_text(encoding="utf-8"))
    (entry,) = content["verdicts"]
    assert (entry["estimand"], entry["n_patients"]) == ("mean of Dice over patients", 2)
