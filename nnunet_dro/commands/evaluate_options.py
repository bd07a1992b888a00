"""The arguments and options of `nnunet-dro evaluate`, with their helps."""

from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.choices import EmptyRule, MissingRule
from nnunet_dro.commands.completion import complete_column

Reference = Annotated[Path, typer.Argument(help="Folder of reference label maps.", readable=False)]
Prediction = Annotated[
    Path,
    typer.Argument(
        help="Folder of predicted label maps, model folder of nnU-Net, or its summary.json.", readable=False
    ),
]
DatasetJson = Annotated[
    Path | None,
    typer.Option(help="dataset.json with the names of the labels; default: in or above REFERENCE.", readable=False),
]
By = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of the case table to report by (repeatable); centre,pathology for both at once; age:0,18,65 "
        "or volume:q3 to cut numbers; auto:size, auto:components, auto:spacing, auto:volume, auto:contrast or "
        "auto:noise to compute it.",
        autocompletion=complete_column,
    ),
]
Overall = Annotated[
    bool, typer.Option("--overall/--no-overall", help="Report all cases together, too, where --by divides them.")
]
ReferenceStratum = Annotated[
    str | None, typer.Option(help="Stratum that the worst one is compared with, in place of the best one.")
]
Patient = Annotated[
    str | None,
    typer.Option(
        help="Column of the case table that names the patient, where some have several cases.",
        autocompletion=complete_column,
    ),
]
Metrics = Annotated[
    str,
    typer.Option(
        help="Any of dice, iou, sensitivity, precision, hd95, hd95_pooled, hd, assd and nsd; with --instances also "
        "lesion_recall, lesion_precision, lesion_f1, pq, sq, rq, lesion_dice, lesion_hd95 and lesion_nsd."
    ),
]
NsdTolerance = Annotated[float, typer.Option(help="Tolerance of the normalised surface distance, in mm.")]
Empty = Annotated[EmptyRule, typer.Option(help="Score of a label that reference, prediction or both lack.")]
Missing = Annotated[MissingRule, typer.Option(help="Stop at missing predictions, or score them as failed.")]
Jobs = Annotated[
    int | None, typer.Option(min=1, help="Number of cases to score at a time; default: one per processor.")
]
Workers = Annotated[
    str | None, typer.Option(help="Dask scheduler whose workers score the cases, such as tcp://scheduler:8786.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with an interrupted run; files that changed are scored again.")
]
Method = Annotated[str | None, typer.Option(help="Name of the method in tables; default: taken from the path.")]
Require = Annotated[
    list[str] | None,
    typer.Option(help='Quality requirement (repeatable): "pathology=spina_bifida label=cerebellum p5>=0.70".'),
]
Images = Annotated[
    Path | None,
    typer.Option(help="Folder of images (CASE_0000.nii.gz ...), for auto:contrast and auto:noise.", readable=False),
]
Instances = Annotated[
    list[str] | None,
    typer.Option(help="Label to compare lesion by lesion, by components (repeatable); * for every label."),
]
Match = Annotated[
    str | None,
    typer.Option(help="How lesions are matched: iou:0.5 (one to one), overlap or brats:3. Default: iou:0.5."),
]
Connectivity = Annotated[
    int | None, typer.Option(help="Neighbours of a voxel that belong to its lesion: 6, 18 or 26. Default: 26.")
]
LesionsAbove = Annotated[
    float | None, typer.Option(help="Count only lesions of the reference above this volume. Default: all.")
]
