"""Who is in an evaluation: cases, patients and labels by stratum."""

import pandas as pd

from nnunet_dro.evaluation import Evaluation


def table_one(evaluation: Evaluation) -> pd.DataFrame:
    """Cases and patients by stratum, all cases first, and how many have each label and how much of it, in ml."""
    scores = evaluation.scores
    cases = pd.Index(scores["case"].unique())
    patient_of_case = evaluation.patient_of_case
    groups: list[tuple[str, str, pd.Index[str]]] = [("all", "all", cases)]
    for attribute, strata in evaluation.stratum_of_case.items():
        if attribute == "all":
            continue
        of_case = strata.astype(str)
        names = [str(name) for name in strata.cat.categories]
        groups += [(attribute, name, pd.Index(of_case.index[of_case == name])) for name in names]
    rows = []
    for attribute, stratum, members in groups:
        row: dict[str, object] = {"attribute": attribute, "stratum": stratum, "cases": len(members)}
        row["share"] = len(members) / len(cases) if len(cases) else float("nan")
        if patient_of_case is not None:
            row["patients"] = patient_of_case.reindex(members).nunique()
        here = scores[scores["case"].isin(members)]
        for label in evaluation.labels:
            present = here[(here["label"].astype(str) == label) & (here["n_reference"] > 0)]
            row[f"{label}, cases with it"] = len(present)
            if scores["reference_ml"].notna().any():
                quarters = present["reference_ml"].quantile([0.25, 0.5, 0.75]).tolist()
                row[f"{label}, median ml"] = quarters[1]
                row[f"{label}, p25 ml"], row[f"{label}, p75 ml"] = quarters[0], quarters[2]
        rows.append(row)
    return pd.DataFrame(rows)
