import pytest

from nnunet_dro.pages.html import breakable


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("grey_matter", "grey_<wbr>matter"),
        ("nnUNetTrainerDRO_share0.3", "nn<wbr>UNet<wbr>Trainer<wbr>DRO_<wbr>share0.3"),
        ("C-1.5T/rest", "C-<wbr>1.5T/<wbr>rest"),
        ("60.5", "60.5"),
        ("<b>&lt;", "&lt;b&gt;&amp;lt;"),
        ("end_", "end_"),
    ],
)
def test_names_break_between_words_and_stay_text(name, expected):
    assert breakable(name) == expected
