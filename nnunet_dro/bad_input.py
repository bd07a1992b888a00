"""What a user gave that is not what it must be: an error is a value, and says itself in one way."""


class InputError(ValueError):
    """An option, or a column of the case table, that is not what it must be.

    Its text is one line, such as "`folds` must be at least 2, got 1. Give more folds."

    Attributes:
        args: The arguments, with which the error goes from one process to another.
    """

    def __init__(self, name: str, must: str, got: object, cure: str = "", kind: str = "") -> None:
        super().__init__(name, must, got, cure, kind)

    def __str__(self) -> str:
        return bad_input(*self.args)


def bad_input(name: str, must: str, got: object, cure: str = "", kind: str = "") -> str:
    """The text of an error about what a user gave.

    Args:
        name: The option, as functions and files call it; commands show its flag.
        must: What it must do, as after "must".
        got: What it is or does instead, as after "got".
        cure: What the user can do, in whole sentences.
        kind: ``column`` where it is a column of the case table, and no option.
    """
    return f"{kind} `{name}` must {must}, got {got}. {cure}".strip()
