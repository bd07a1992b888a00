"""What README and docs name is there: links and anchors, commands and options, trainers, modules
and files."""

import ast
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
import typer

from nnunet_dro import __version__
from nnunet_dro.cli import app
from nnunet_dro.trainers.registry import TRAINERS, trainer_class
from nnunet_dro.tuning.objective import parse_objective
from nnunet_dro.tuning.space import parse_space
from tests.evaluation.made_folders import bars, write_map, write_study

ROOT = Path(__file__).parents[1]
TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = typer.main.get_command(app)

#: Options in the text that are not those of a command of nnunet-dro: nnU-Net's, and those of
#: scripts.
OTHER_OPTIONS = {"--c", "--val", "--val_best", "--npz", "--quick", "--data", "--check", "--seeds"}

every_page = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix()
)


def code_blocks(text, *languages):
    """The contents of the fenced blocks in one of these languages."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [content for language, content in found if language in languages]


def prose(text):
    """The text without its fenced blocks and the comments of HTML."""
    return re.sub(r"^```.*?^```$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)


def inline_code(text):
    return re.findall(r"`([^`\n]+)`", prose(text))


def anchors(text):
    """What GitHub makes of the headings, a second one of the same name with a number."""
    found = []
    for heading in re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = "".join(c for c in words if c.isalnum() or c in "_- ").replace(" ", "-")
        found.append(slug if slug not in found else f"{slug}-{found.count(slug)}")
    return found


def links(text):
    """The targets of links and pictures; code is no link."""
    without_code = re.sub(r"(?<!\[)`[^`\n]+`", "", prose(text))
    return re.findall(r"\]\(([^)\s]+)\)", without_code) + re.findall(r'src="([^"]+)"', without_code)


def broken_links(page, text):
    broken = []
    for link in links(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path) if path else page
        there = target.exists() and (
            not anchor or anchor in anchors(text if not path else target.read_text("utf-8"))
        )
        if not there:
            broken.append(link)
    return broken


def shell_commands(text):
    """The lines of the fenced blocks for a shell; those that end in a backslash go on."""
    for block in code_blocks(text, "bash", "sh", "yaml"):
        for line in block.replace("\\\n", " ").splitlines():
            yield line.split(" #")[0].strip()


def calls(text):
    """The words of each call of nnunet-dro in the fenced blocks, without its name."""
    found = []
    for command in shell_commands(text):
        match = re.search(r"(?:^|[($;] ?)nnunet-dro (.*)", command.removeprefix("- run: "))
        if match and not command.startswith("#"):
            found.append(shlex.split(match[1].rstrip(")")))
    return found


def refusal(words):
    """Why the command line would not take these words; None if it would. Nothing is run."""
    command = COMMANDS
    words = list(words)
    while hasattr(command, "commands"):
        if not words or words[0] not in command.commands:
            return f"there is no command {words[:1]}"
        name = words.pop(0)
        command = command.commands[name]
    if "--protocol" in words:
        # The file would be read.
        place = words.index("--protocol")
        del words[place : place + 2]
    try:
        command.make_context(name, words)
    except Exception as error:
        # Newer versions of typer raise their own copies of click's errors.
        if "UsageError" not in [cls.__name__ for cls in type(error).__mro__]:
            raise
        return error.format_message()
    return None


def known_options(names=None):
    commands = [COMMANDS.commands[name] for name in names or COMMANDS.commands]
    return {"--help"} | {
        opt for c in [COMMANDS, *commands] for p in c.params for opt in (*p.opts, *p.secondary_opts)
    }


def unknown_in_inline_code(text):
    """Commands and options of nnunet-dro that inline code names, and that are not there."""
    unknown = []
    for code in inline_code(text):
        words = code.split()
        if words[0] == "nnunet-dro" and len(words) > 1 and not words[1].startswith("-"):
            if words[1] not in COMMANDS.commands:
                unknown.append(code)
                continue
            known = known_options([words[1]])
        elif words[0].startswith("--"):
            known = known_options() | OTHER_OPTIONS
        else:
            continue
        unknown += [
            code for word in words if word.startswith("--") and word.partition("=")[0] not in known
        ]
    return unknown


def trainer_names(text):
    """The names of this package's trainers, without what follows in a folder's name and without
    placeholders."""
    base = "|".join(sorted(TRAINERS, key=len, reverse=True))
    names = set()
    for match in re.finditer(rf"(?<!\w)(?:{base})(?![a-z])[\w.]*(<?)", text):
        name = match[0].split("__")[0].rstrip(".<")
        if not match[1] and name not in TRAINERS:
            names.add(name)
    return sorted(names)


@every_page
def test_links_and_commands_of_a_page_work(page):
    text = page.read_text("utf-8")

    assert broken_links(page, text) == []

    # A sentence that goes on with "0. It" in a new line would begin a list.
    assert re.findall(r"^[^\W\d].*\n\d+\. .*", prose(text), re.MULTILINE) == []
    # An item of a list that does not begin its line belongs to the item before.
    assert re.findall(r"\S - \*\*.*", prose(text)) == []

    refused = [(words, refusal(words)) for words in calls(text)]
    assert [(words, why) for words, why in refused if why] == []

    for words in calls(text):
        if words[0] == "tune":
            options = COMMANDS.commands["tune"].make_context("tune", words[1:]).params
            lengths = {"epochs": options["epochs"], "iterations": options["iterations"]}
            parse_space(options["trainer"], options["option"], **lengths)
            parse_objective(options["objective"])


@every_page
def test_python_that_a_page_names_is_there(page):
    text = page.read_text("utf-8")
    for name in trainer_names(text):
        trainer_class(name)

    for block in code_blocks(text, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("nnunet_dro"):
                module = importlib.import_module(node.module)
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []

    for name in inline_code(text):
        if re.fullmatch(r"nnunet_dro(\.\w+)+", name):
            module, _, attribute = name.rpartition(".")
            if not hasattr(importlib.import_module(module), attribute):
                importlib.import_module(name)


@every_page
def test_what_a_page_names_is_there(page):
    text = page.read_text("utf-8")
    # Released versions had what their sections of the changelog name.
    newest = text.partition("\n## [0.")[0] if page.name == "CHANGELOG.md" else text
    assert unknown_in_inline_code(newest) == []

    code = "\n".join([*shell_commands(text), *inline_code(text)])
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"\bmake ([\w-]+)", code)) <= targets

    for module in re.findall(r"\bpython -m ([\w.]+)", code):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module
    for script in re.findall(
        r"(?:\bpython |^)((?:benchmarks|docs|experiments)/[\w/]+\.py)", code, re.MULTILINE
    ):
        assert (ROOT / script).is_file(), script

    optional = (
        (ROOT / "pyproject.toml")
        .read_text("utf-8")
        .split("[project.optional-dependencies]")[1]
        .split("\n[")[0]
    )
    extras = re.findall(r"^([\w-]+) = \[", optional, re.MULTILINE)

    assert set(re.findall(r"(?:nnunet-dro|\.)\[(\w+)\]", code)) <= set(extras)


def test_the_checks_see_what_is_there():
    """A pattern that finds nothing would let everything pass."""
    text = "".join(page.read_text("utf-8") for page in PAGES)
    assert len(links(text)) > 100
    assert len(calls(text)) > 10
    assert {words[0] for words in calls(text)} == set(COMMANDS.commands)
    assert len(trainer_names(text)) > 20
    assert len(code_blocks(text, "python")) > 2


WRONG_COMMANDS = (
    "nnunet-dro nothing",
    "nnunet-dro evaluate labelsTs",
    "nnunet-dro evaluate labelsTs predictions -o out --nothing",
    "nnunet-dro evaluate labelsTs predictions -o out --bootstrap many",
    "nnunet-dro doctor one two three",
    "nnunet-dro protocol",
    "nnunet-dro protocol write protocol.toml --nothing",
    "export A=$(nnunet-dro trainers --nothing)",
    "for m in a b; do\n  nnunet-dro evaluate labelsTs\ndone",
)


def test_what_is_wrong_is_found():
    page = ROOT / "docs" / "training.md"
    for link in (
        "trainers.md#nothing",
        "nothing.md",
        "#nothing",
        "../docs/images/nothing.png",
        "images",
    ):
        expected = [] if link == "images" else [link]
        assert (
            broken_links(page, f"# Title\n\n[text](training.md#the-algorithm) and [text]({link})")
            == expected
        )
        assert broken_links(page, f'# Title\n\n<img src="{link}">') == expected

    for command in WRONG_COMMANDS:
        assert [why for words in calls(f"```bash\n{command}\n```\n") if (why := refusal(words))], (
            command
        )
    for code in (
        "nnunet-dro nothing",
        "nnunet-dro splits 1 --by centre",
        "--nothing",
        "--by=x --no",
    ):
        assert unknown_in_inline_code(f"See `{code}` and `--by`.") == [code]
    assert trainer_names("nnUNetTrainerGroupDRO_<column>, nnUNetTrainerDA5") == []
    assert trainer_names("nnUNetTrainerDRO_beta10__nnUNetPlans__2d/fold_0") == [
        "nnUNetTrainerDRO_beta10"
    ]
    for name in ("nnUNetTrainerDRO_noIS_beta10", "nnUNetTrainerIW_centre_beta1"):
        assert trainer_names(f"`{name}`, it was {name}, and `nnUNetTrainerDRO`.") == [name]
        with pytest.raises(ValueError, match=name.rpartition("_")[0]):
            trainer_class(name)


def test_the_page_of_tune_names_trainers_and_objectives_that_tune_takes():
    text = (ROOT / "docs" / "tuning.md").read_text("utf-8")
    names = re.findall(r"`((?:GroupDRO|DRO|HWS|IW)_[\w.]+)`", text)
    objectives = re.findall(r"^\| `((?:mean|median|p\d+)\b[^`]*)`", text, re.MULTILINE)

    assert len(names) > 1
    for name in names:
        parse_space(name, ["warmup:0:20"], epochs=100, iterations=None)

    assert len(objectives) > 3
    for objective in objectives:
        parse_objective(objective)


def test_the_citation_names_the_version():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def run_as_pasted(page, word, folder, **variables):
    """Run the block of a page that has a word; nnU-Net's commands are stand-ins that write what a
    test set needs."""
    commands = folder / "bin"
    commands.mkdir()
    for name, body in {
        "nnUNetv2_train": 'echo "$@" >> trained',
        "nnUNetv2_predict": 'while [ "$1" != -o ]; do shift; done; mkdir -p "$2"; cp prediction/* "$2"',
        "nnunet-dro": f'exec "{sys.executable}" -m nnunet_dro.cli "$@"',
        "python": f'exec "{sys.executable}" "$@"',
    }.items():
        (commands / name).write_text(f"#!/bin/sh\n{body}\n")
        (commands / name).chmod(0o755)
    (block,) = [
        block for block in code_blocks((ROOT / page).read_text("utf-8"), "bash") if word in block
    ]
    environment = os.environ | {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"} | variables
    done = subprocess.run(
        ["bash", "-euc", block], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_commands_of_the_readme_run_as_pasted(tmp_path):
    """From plain training to comparison."""
    dataset = tmp_path / "preprocessed" / "Dataset001_Tiny"
    write_study(dataset, shifts=(0, 1, 2, 4, 0, 1), centre=["A", "A", "A", "B", "B", "B"])
    (dataset / "reference").rename(dataset / "gt_segmentations")
    for trainer in ("nnUNetTrainer", "nnUNetTrainerDRO"):
        model = f"{trainer}__nnUNetPlans__3d_fullres"
        fold = tmp_path / "results" / dataset.name / model / "fold_0"
        shutil.copytree(dataset / "prediction", fold / "validation")

    folders = {name: str(tmp_path / name) for name in ("raw", "preprocessed", "results")}
    run_as_pasted(
        "README.md",
        "compare",
        tmp_path,
        nnUNet_raw=folders["raw"],
        nnUNet_preprocessed=folders["preprocessed"],
        nnUNet_results=folders["results"],
    )

    trained = (tmp_path / "trained").read_text().splitlines()

    assert trained == ["1 3d_fullres 0 -tr nnUNetTrainerDRO"]
    assert (tmp_path / "results" / "plain" / "report.html").is_file()
    assert (tmp_path / "results" / "comparison" / "report.html").is_file()


def test_the_column_of_cases_without_foreground_is_made_as_pasted(tmp_path):
    dataset = tmp_path / "Dataset123_Name"
    for name, label in {"001": bars(4), "002": np.zeros((8, 8, 8)), "003": bars(0)}.items():
        write_map(dataset / "labelsTr" / f"{name}.nii.gz", label)
        write_map(
            dataset / "imagesTr" / f"{name}_0000.nii.gz",
            np.arange(512).reshape(8, 8, 8),
            dtype=np.float32,
        )

    run_as_pasted("docs/questions.md", "foreground", tmp_path, nnUNet_raw=str(tmp_path))

    assert (dataset / "cases.csv").read_text() == "case,foreground\n001,yes\n002,no\n003,yes\n"
    assert (dataset / "trained").is_file()
