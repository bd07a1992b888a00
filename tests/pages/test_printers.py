"""One table in Markdown, in LaTeX, on a page and in the terminal."""

import re
from dataclasses import replace

import pytest

from nnunet_dro.naming import NO_VALUE, count, plain, share
from nnunet_dro.pages import latex, markdown
from nnunet_dro.pages.document import Cell, Column, Figure, Heading, Note, Prose, Table
from nnunet_dro.pages.html import breakable, html
from nnunet_dro.pages.terminal import printed
from tests.pages.screen import screen

COLUMNS = (
    Column("Site", "name"),
    Column("La_bel", "name"),
    Column("n"),
    Column("Mean", above="Dice", hint="of all cases", spare="below"),
    Column("Worst in", "text"),
)
ROWS = (
    (
        Cell("<A>"),
        Cell("x|y"),
        Cell("20", ("2 undef.",)),
        Cell("61.2", ("[50, 70]",), {"†": ""}, "few"),
        Cell("c_1"),
    ),
    (Cell("<A>"), Cell("z"), Cell("20"), Cell("70.0", ("≤ 80",), kind="best", strong=True), Cell()),
    (Cell("B"), Cell("z"), Cell("3"), Cell(NO_VALUE), Cell("c_2")),
)
TABLE = Table("Dice [%]", COLUMNS, ROWS, ("In brackets: 95 % interval.",), "Dice: overlap.")


def joined_html(blocks):
    return "".join(html(blocks))


def lines_of(*blocks, **options):
    return [line.rstrip() for line in screen(printed(blocks), **options).splitlines()]


def test_markdown_has_a_line_per_row():
    assert markdown.markdown([TABLE]) == (
        r"""## Dice \[%\]

| Site | La\_bel | n | Dice: Mean | Worst in |
| --- | --- | ---: | ---: | --- |
| &lt;A&gt; | x\|y | 20 (2 undef.) | 61.2† \[50, 70\] | c\_1 |
| &lt;A&gt; | z | 20 | **70.0** (≤ 80) |  |
| B | z | 3 | – | c\_2 |

In brackets: 95 % interval. Mean: of all cases.
"""
    )


def test_key_that_tables_share_is_said_once():
    assert markdown.markdown([TABLE, TABLE]).count("In brackets") == 1
    assert markdown.markdown([replace(TABLE, notes=TABLE.key)]).count("Mean: of all cases") == 1
    assert joined_html([TABLE, TABLE]).count("In brackets") == 1
    assert "In brackets" in latex.latex([TABLE, TABLE]).split("\\end{table}")[1]


def test_narrow_terminal_has_no_key_to_what_it_leaves_out():
    columns = (
        Column("Label", "name"),
        Column("Mean", spare="below"),
        Column("Typical case", spare="column", hint="of half of them"),
    )
    cells = (Cell("cortical grey matter"), Cell("61.2", ("[50.1, 70.2]",)), Cell("+1.0"))
    table = Table("", columns, [cells], ("†: few.",), notes_below=("In brackets: 95 % interval.",))

    assert (
        lines_of(table)[-1] == "In brackets: 95 % interval. †: few. Typical case: of half of them."
    )
    narrow = " ".join(lines_of(table, width=32))
    assert "†: few. A wider terminal shows" in narrow
    assert "In brackets" not in narrow
    assert "half of them" not in narrow


def test_columns_that_a_phone_leaves_out_are_marked():
    table = Table("", (Column("Mean"), Column("IQR", is_minor=True)), [(Cell("1"), Cell("2"))])
    page = joined_html([table])
    assert '<th scope="col" class="num minor">IQR</th>' in page
    assert '<td class="num minor">2</td>' in page
    assert '<td class="num">1</td>' in page


def test_heading_above_spans_what_a_phone_keeps_of_its_columns():
    below = [Column("a", above="Mean", is_minor=True), Column("b", above="Mean")]
    others = [Column("c", above="n", is_minor=True), Column("d", above="P5")]
    page = joined_html([Table("", (*below, *others), [(Cell("1"),) * 4])])
    span = '<th scope="colgroup" colspan='
    assert f'{span}"2" class="span minor">Mean</th>{span}"1" class="span phone">Mean</th>' in page
    assert f'{span}"1" class="span minor">n</th>{span}"1" class="span">P5</th>' in page


def test_latex_spans_names_and_stacks_what_is_below():
    assert latex.latex([TABLE, Prose("Not in it.")], "a remark").splitlines()[1:] == [
        "% a remark",
        r"\providecommand{\withbelow}[2]{\begin{tabular}[t]{@{}r@{}}#1\\{\scriptsize #2}\end{tabular}}",
        r"\begin{table}[tb]",
        r"  \centering",
        r"  \caption{Dice [\%]. Dice: overlap. In brackets: 95 \% interval. Mean: of all cases.}",
        r"  \begin{tabular}{llrrl}",
        r"    \toprule",
        r"    \textbf{Site} & \textbf{La\_bel} & \textbf{n} & \textbf{Dice: Mean} & \textbf{Worst in} \\",
        r"    \midrule",
        r"    \multirow[t]{2}{*}{\textless{}A\textgreater{}} & x\textbar{}y & \withbelow{20}{2 undef.} & "
        r"\withbelow{61.2\textsuperscript{\textdagger}}{[50, 70]} & c\_1 \\",
        r"     & z & 20 & \withbelow{\textbf{70.0}}{$\le$ 80} &  \\",
        r"    \midrule",
        r"    B & z & 3 & -- & c\_2 \\",
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]

    # Rows may begin with what belongs to a line break.
    lines = latex.latex(
        [Table("A", (Column("Label", "name"),), [(Cell(name),) for name in ("a", "[1]", "*")])]
    )
    assert {r"{}[1] \\", r"{}* \\"} <= {line.strip() for line in lines.splitlines()}


def test_page_groups_rows_by_their_first_name():
    page = re.sub(r">\s+<", "><", joined_html([TABLE]))
    assert '<th scope="colgroup" colspan="1" class="span">Dice</th>' in page
    assert '<th scope="col" class="num"><abbr title="of all cases">Mean</abbr></th>' in page
    assert (
        '<tr class="group"><th scope="rowgroup" colspan="4"><span>&lt;A&gt;</span></th></tr>'
        in page
    )
    assert '<td class="num few">61.2<sup>†</sup><span class="ci">[50, 70]</span></td>' in page
    assert '<td class="num best"><b>70.0</b><span class="ci">≤ 80</span></td>' in page
    assert page.count("<tbody>") == 2


def test_terminal_spares_intervals_and_stacks_the_rest_where_it_is_narrow():
    wide, narrow, narrowest = (lines_of(TABLE, width=width) for width in (80, 44, 30))
    assert wide[0] == "Dice [%]"
    assert wide[3].split() == ["<A>", "x|y", "20", "(2", "undef.)", "61.2†", "[50,", "70]", "c_1"]
    assert wide[-1] == "In brackets: 95 % interval. Mean: of all cases."
    assert sum("95 % interval" in line for line in lines_of(TABLE, TABLE)) == 1, (
        "what they have in common, once"
    )
    assert "[50" not in "\n".join(narrow)
    assert "A wider terminal shows more." in " ".join(narrow)
    assert narrow[3].split() == ["<A>", "x|y", "20", "(2", "undef.)", "61.2†", "c_1"]
    assert max(map(len, narrowest)) <= 30
    assert narrowest[3].split() == ["<A>", "x|y", "20", "61.2†", "c_1"]


def test_narrow_terminal_breaks_no_word_that_has_room():
    columns = (
        Column("Stratum", "name"),
        Column("Difference"),
        Column("n"),
        Column("Typical", spare="column"),
    )
    rows = [
        (
            Cell("unusual anatomy"),
            Cell("+46.9", ("[+3.5, +90.4]",)),
            Cell("6", ("5 patients",)),
            Cell("+9.9"),
        )
    ]
    for width in (30, 34, 40):
        lines = lines_of(Table("A", columns, rows), width=width)
        assert max(map(len, lines)) <= width
        assert {"unusual", "anatomy", "Difference", "patients)"} <= set(" ".join(lines).split())
        assert "Typical" not in " ".join(lines)


def test_narrow_terminal_breaks_no_bound_that_has_room():
    columns = (Column("Label", "name"), Column("Stratum", "name"), Column("< 50"))
    rows = [(Cell("hippocampus anterior"), Cell("unusual anatomy"), Cell("2", ("≤ 55.0 %",)))]
    for width in (30, 34, 40):
        lines = lines_of(Table("A", columns, rows), width=width)
        assert max(map(len, lines)) <= width
        assert any("(≤ 55.0 %)" in line for line in lines), lines


def test_terminal_reads_no_markup_and_no_control_sequence():
    names = ("[bold red]x[/]", "[/]", "\x1b[31mred", "a\nb")
    blocks = [Table(name, (Column(name),), [[Cell(name)]]) for name in names]

    text = "\n".join(
        lines_of(
            *blocks, Prose(names[2]), Note(names[0]), Note(names[2], "finding", names[0], names[3])
        )
    )

    assert "\x1b" not in text
    for name in ("[bold red]x[/]", "�[31mred", "a�b"):
        assert name in text
    assert "\x1b[2m" in "\n".join(lines_of(TABLE, force_terminal=True, color_system="standard"))


@pytest.mark.parametrize(
    ("escape", "text", "escaped"),
    [
        (
            markdown.escape_markdown,
            "a|b_c*d <e> `f` [g](h)\n#",
            r"a\|b\_c\*d &lt;e&gt; \`f\` \[g\](h) \#",
        ),
        (latex.escape_latex, r"a_b & 50% {x} \y", r"a\_b \& 50\% \{x\} \textbackslash{}y"),
        (latex.escape_latex, '#1 $ ~^"', r"\#1 \$ \textasciitilde{}\textasciicircum{}\char34{}"),
        (latex.escape_latex, "▲ +5 ▼", r"$\bigtriangleup$ +5 $\bigtriangledown$"),
        (latex.escape_latex, "two\nlines", "two lines"),
    ],
)
def test_special_characters_are_escaped(escape, text, escaped):
    assert escape(text) == escaped


def test_page_has_a_section_for_each_heading_and_folds_what_is_asked_for():
    blocks = [
        Heading("One", anchor="one"),
        Note("Bad.", "finding", "A <b>", tone="worse"),
        Note("Read this."),
        Heading("Two", anchor="two"),
        Heading("More", 3, folded=True),
        Heading("Inside", 3),
        Figure([("drawn", ["<svg/>"])]),
        Heading("Yet more", 3, folded=True),
        Prose(("a", "b"), kind="steps"),
    ]
    tags = re.findall(r"</?(?:section|h2|h3|details|aside|ol)\b", joined_html(blocks))

    assert " ".join(tag.removeprefix("<") for tag in tags) == (
        "section h2 /h2 ol h3 /h3 /ol /section aside h2 /h2 /aside "
        "section h2 /h2 details h3 /h3 /details details ol /ol /details /section"
    )
    assert "A &lt;b&gt;" in joined_html(blocks)
    assert "&lt;svg/&gt;" in joined_html(blocks), "only what is marked as HTML is taken for it"
    assert markdown.markdown(blocks[:3]) == "## One\n\n- **A &lt;b&gt;**: Bad.\n\n> Read this.\n"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("grey_matter", "grey_matter"),
        ("hippocampus_126", "hippocampus_126"),
        ("cortical_grey_matter", "cortical_<wbr>grey_<wbr>matter"),
        ("nnUNetTrainerDRO_share0.3", "nn<wbr>UNet<wbr>Trainer<wbr>DRO_<wbr>share0.3"),
        ("Centre-1.5T/resting", "Centre-<wbr>1.5T/<wbr>resting"),
        ("60.5", "60.5"),
        ("<b>&lt;", "&lt;b&gt;&amp;lt;"),
        ("end_", "end_"),
    ],
)
def test_long_names_break_between_words_and_stay_text(name, expected):
    assert breakable(name) == expected


def test_counts_have_a_plural_and_control_characters_are_replaced():
    assert [count(1, "case"), count(1200, "case"), count(2, "stratum")] == [
        "1 case",
        "1,200 cases",
        "2 strata",
    ]
    assert plain("a\x1b[2Jb\n") == "a�[2Jb�"


def test_a_share_is_0_or_100_per_cent_only_where_it_is():
    values = (0.0, 0.001, 1 / 200, 0.0051, 0.994, 199 / 200, 1.0, float("nan"))
    shown = ["0 %", "<1 %", "<1 %", "1 %", "99 %", ">99 %", "100 %", NO_VALUE]
    assert [share(value) for value in values] == shown
