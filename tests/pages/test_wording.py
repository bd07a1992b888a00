from nnunet_dro.pages.wording import count, plain


def test_counts_have_a_plural():
    assert [count(1, "case"), count(1200, "case"), count(2, "stratum")] == ["1 case", "1,200 cases", "2 strata"]


def test_control_characters_are_replaced():
    assert plain("a\x1b[2Jb\n") == "a�[2Jb�"
