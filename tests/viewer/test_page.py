import base64
import hashlib
import re
from urllib.parse import parse_qs

import pytest

from nnunet_dro.evaluation.evaluating.read_results import read_evaluation
from nnunet_dro.viewer import viewer_page
from tests.commands import done, run
from tests.evaluation.made_folders import check_refused
from tests.pages.browser import Parts, payload

from .made import evaluated, report

#: What file names allow of markup.
HOSTILE = ("<img src=x onerror=window.hurt=1>", "a'b\"c&amp;", "{{7*7}} ä&label=tumour", "<!--")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return evaluated(tmp_path_factory.mktemp("study"), shifts=(0, 2, 4, 6), n_channels=2).parent


@pytest.fixture(scope="module")
def page(folder):
    return viewer_page(read_evaluation(folder / "out"), folder / "images")


def test_the_worst_cases_of_every_stratum_are_there_with_their_volumes(page):
    data = payload(page.html)
    reasons = {reason for step in data["steps"] for reason in step["strata"]}

    assert reasons == {"among the worst of all cases", "site: A", "site: B"}

    worst = next(
        step for step in data["steps"] if step["label"] == "tumour" and "site: B" in step["strata"]
    )
    assert worst["case"] == "case_03"
    assert worst["score"].startswith("Dice ")
    assert set(data["cases"]) == {step["case"] for step in data["steps"]}
    assert data["cases"]["case_03"]["channels"] == ["T1", "FLAIR"]
    assert list(data["cases"]["case_03"]["labels"]) in (["organ", "tumour"], ["tumour", "organ"])

    parts = Parts(page.html)
    blocks = {
        attributes["id"]
        for attributes, text in parts.scripts
        if attributes.get("type") == "text/plain" and text
    }

    for case in payload(page.html)["cases"].values():
        assert {
            f"{case['id']}-{kind}" for kind in ("reference", "prediction", "channel-0", "channel-1")
        } <= blocks
    assert set(page.links) == {
        (case, label) for case, of in data["cases"].items() for label in of["labels"]
    }
    assert page.links["case_03", "tumour"] == "cases.html#case=case_03&label=tumour"

    stated = re.fullmatch(r"4 cases in (\S+) MB of at most 100 MB", page.summary)
    assert float(stated[1]) == pytest.approx(len(page.html.encode()) / 1e6, abs=0.06)
    assert page.summary in page.html
    assert page.notes == ()


def test_policy_allows_these_scripts_and_no_network(page):
    parts = Parts(page.html)
    policy = next(a["content"] for tag, a in parts.tags if tag == "meta" and "http-equiv" in a)

    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))

    assert rules.keys() == {
        "default-src",
        "script-src",
        "style-src",
        "img-src",
        "base-uri",
        "form-action",
    }
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"

    run = [text for attributes, text in parts.scripts if "type" not in attributes]
    hashes = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (*run, parts.style)
    ]

    assert rules["script-src"].split() == [f"'sha256-{one}'" for one in hashes[:-1]]
    assert rules["style-src"] == f"'sha256-{hashes[-1]}'"
    # Nothing in the page is styled or run in a way that the policy refuses.
    assert not [
        a for _, a in parts.tags if any(name == "style" or name.startswith("on") for name in a)
    ]
    assert not [a for _, a in parts.tags if "src" in a]


def test_what_is_left_out_is_said(folder):
    given = read_evaluation(folder / "out")
    frame = len(viewer_page(given, folder / "images").html) / 1e6

    small = viewer_page(given, folder / "images", most_mb=round(frame - 0.1, 3))

    assert small.notes[-1].startswith("Only the first channel of the images is here")

    smaller = viewer_page(given, folder / "images", most_mb=round(frame - 0.3, 3))
    assert re.match(
        r"\d cases? had no room in 1\.\d+ MB and can only be seen in .*case_00", smaller.notes[0]
    )
    assert smaller.notes[0] in smaller.html
    assert len(smaller.html.encode()) <= round(frame - 0.3, 3) * 1e6
    assert ("case_00", "organ") not in smaller.links


def test_names_with_markup_are_text(tmp_path):
    evaluated(tmp_path, names=HOSTILE, shifts=(6, 4, 2, 0))
    made = viewer_page(read_evaluation(tmp_path / "out"), tmp_path / "images")

    parts = Parts(made.html)

    assert "img" not in {tag for tag, _ in parts.tags}
    assert set(payload(made.html)["cases"]) == set(HOSTILE)
    assert len(parts.scripts) == 4 + 3 * len(HOSTILE)
    for (case, label), address in made.links.items():
        assert parse_qs(address.partition("#")[2]) == {"case": [case], "label": [label]}

    done(report(tmp_path, "--viewer"))


def test_command_writes_links_packs_and_deletes_the_page(folder):
    result = done(report(folder, "--viewer"))

    assert (folder / "out" / "cases.html").is_file()
    assert result.stdout.splitlines() == [
        str(folder / "out" / name) for name in ("report.html", "cases.html")
    ]

    megabytes = (folder / "out" / "cases.html").stat().st_size / 1e6
    assert (
        result.stderr
        == f"nnunet-dro: cases.html has 4 cases in {megabytes:.1f} MB of at most 100 MB.\n"
    )

    html = (folder / "out" / "report.html").read_text()
    assert 'href="cases.html#case=case_03&amp;label=tumour"' in html

    links = payload(html)["links"]
    assert len(links) == 8
    assert "cases.html#case=case_03&label=tumour" in links.values()

    result = done(report(folder, "--viewer", "--viewer-mb", f"{megabytes - 0.35:.3f}"))
    assert "had no room in" in result.stderr
    assert (folder / "out" / "cases.html").stat().st_size <= (megabytes - 0.35) * 1e6

    result = done(report(folder))
    assert not (folder / "out" / "cases.html").exists()
    assert "cases.html of an earlier run was deleted. Give --viewer" in result.stderr
    assert "cases.html" not in (folder / "out" / "report.html").read_text()

    done(report(folder, "--viewer", "--pack", folder / "pack"))
    assert (folder / "pack" / "cases.html").is_file()
    assert "| `cases.html` |" in (folder / "pack" / "README.md").read_text()
    assert "cases.html#case=case_03" in (folder / "pack" / "report.html").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--images", "images", "--viewer", "--viewer-mb", "0.5"),
            ("`--viewer-mb` must be at least", "got 0.5"),
        ),
        (
            ("--images", "images", "--viewer", "--viewer-mb", "-3"),
            ("`--viewer-mb` must be", "got -3"),
        ),
        (
            ("--images", "images", "--viewer", "--viewer-mb", "nan"),
            ("`--viewer-mb` must be", "got nan"),
        ),
        (("--images", "images", "--viewer-mb", "5"), ("`--viewer-mb` bounds cases.html",)),
        (("--viewer",), ("`--viewer` must be given with", "--images")),
        (("--per-stratum", "5"), ("`--per-stratum` must be given with", "--images")),
    ],
)
def test_wrong_options_are_one_line(folder, monkeypatch, options, words):
    monkeypatch.chdir(folder)
    before = {path.name for path in (folder / "out").iterdir()}
    check_refused(run("report", folder / "out", *options), folder, *words, files=before)


def test_missing_image_is_one_line_and_nothing_is_written(tmp_path):
    out = evaluated(tmp_path)
    (tmp_path / "images" / "case_02_0000.nii.gz").unlink()
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}

    check_refused(report(tmp_path, "--viewer"), tmp_path, "got none for 'case_02'", files=before)

    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == before
