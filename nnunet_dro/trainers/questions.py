"""Find the name of a trainer by questions."""

from collections.abc import Callable, Sequence

from nnunet_dro.trainers.registry import parse_trainer_name

#: What somebody may have, and the trainer for it; ``{column}`` is asked for.
SITUATIONS = (
    ("Some cases are rare or hard, and nobody has recorded which.", "nnUNetTrainerDRO"),
    ("A column of cases.csv has the group of every case, and each group shall be seen equally often.", "IW_{column}"),
    ("A column of cases.csv has the group of every case, and the worst group shall count most.", "GroupDRO_{column}"),
    ("Some labels may be wrong, and a few cases can be trusted (column `trusted` of cases.csv).", "L2RW"),
    ("There are few cases, and scanners that are not among them are to come.", "LS"),
    ("I want the published configuration of hardness weighted sampling.", "HWS"),
)

_PREFIX = "nnUNetTrainer"


def ask_for_name(choose: Callable[[str, Sequence[str]], int], ask: Callable[[str, str], str]) -> str:
    """Ask what somebody has, and build the trainer's name.

    Args:
        choose: Shows a question and its answers, and gives the position of the chosen one.
        ask: Shows a question and its default, and gives the answer.

    Returns:
        The name, as nnU-Net's ``-tr`` takes it.

    Raises:
        ValueError: If an answer makes no name; the message says what is wrong.
    """
    position = choose("What do you have?", [situation for situation, _ in SITUATIONS])
    name = SITUATIONS[position][1].removeprefix(_PREFIX)
    if "{column}" in name:
        name = name.format(column=ask("Which column of cases.csv has the group?", "centre").strip())
    if name == "DRO":
        share = ask("From what share of the cases shall it draw? Less is more robust, and riskier.", "0.5").strip()
        name += "" if _is_number(share, 0.5) else f"_share{share}"
    epochs = ask("How many epochs? 1000 are nnU-Net's.", "1000").strip()
    name = f"{_PREFIX}{name}" + ("" if epochs == "1000" else f"_{epochs}epochs")
    parse_trainer_name(name)
    return name


def _is_number(text: str, number: float) -> bool:
    try:
        return float(text) == number
    except ValueError:
        return False
