"""The answers on the terminal."""

import math
from operator import itemgetter
from typing import Any

from rich.console import RenderableType

from nnunet_dro.inspection.doctor.advice import advice, command
from nnunet_dro.inspection.doctor.answer import Answer, duration
from nnunet_dro.inspection.doctor.rare_images import RareImages
from nnunet_dro.inspection.doctor.words import heading, notes, why
from nnunet_dro.naming import count
from nnunet_dro.pages.document import Block, Column, Heading, Note, Prose, Table
from nnunet_dro.pages.terminal import printed

#: The trainer that draws rare images more often.
RARE_TRAINER = "nnUNetTrainerDRO_rare4"


def answer_lines(answer: Answer) -> RenderableType:
    """The finding, what it rests on, and what to do, for rich's console.

    Names from files are shown as they are.
    """
    first, *others = advice(answer)
    blocks: list[Block] = [
        Heading(heading(answer)),
        Prose(why(answer)),
        Prose(first, kind="first"),
        Prose(others),
    ]
    next_command = command(answer)
    if next_command:
        blocks.append(Prose(next_command, kind="command"))

    spread = answer.spread
    if spread is not None:
        differ = f"Losses differ by {spread.between:.3f} between cases"
        if not math.isnan(spread.within):
            differ += f" and by {spread.within:.3f} from patch to patch"
        text = f"{differ} (standard deviation; {answer.spread_from})."
        blocks.append(Prose(text, kind=""))
    if answer.training_seconds:
        took = duration(answer.training_seconds)
        text = f"The plain training took {took}; a robust one takes as long."
        blocks.append(Prose(text, kind=""))

    training = count(answer.diagnosis.n_training, "training case")
    validation = count(int((~answer.is_training).sum()), "validation case")
    blocks += map(Note, notes(answer))
    blocks.append(Prose(f"{training}, {validation}."))
    return printed(blocks)


def rare_images_lines(images: RareImages) -> RenderableType:
    """The cases whose images look rarest, and what to do, for rich's console.

    Names from files are shown as they are.
    """
    rarest = images.rarest
    entries = [str(column) for column in rarest.columns[2:]]
    columns: list[Any] = [
        (Column("Case", "name"), itemgetter("case")),
        (Column("Rarity"), lambda row: f"{row['rarity']:.2g}"),
        *((Column(name, "text", spare="column"), itemgetter(name)) for name in entries),
    ]
    title = f"The {len(rarest)} rarest of {count(len(images.table), 'image')}"
    table = Table.of(title, columns, rarest.to_dict("records"))

    target = images.target
    plans = "" if target.plans == "nnUNetPlans" else f" -p {target.plans}"
    train = f"nnUNetv2_train {target.dataset} {target.configuration} 0 -tr {RARE_TRAINER}{plans}"
    return printed(
        [
            Heading("Images that look like few others"),
            Prose(
                "Look at the picture first: an image may also look rare because it is broken. What "
                "belongs to the task can be drawn more often in a training:",
                kind="",
            ),
            Prose(train, kind="command"),
            table,
            Prose(
                "Rarity is the inverse density of what the preprocessed images look like, 1 on "
                "average. It sees no rare anatomy in an ordinary image."
            ),
        ]
    )
