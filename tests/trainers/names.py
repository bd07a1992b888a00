"""Names of trainers to test with: every trainer of the registry, alone and with each of its
options."""

from nnunet_dro.trainers.options import OPTIONS, GroupOptions
from nnunet_dro.trainers.registry import TRAINERS

#: A way to write each option, with what it needs beside it.
EXAMPLES = {
    "hardest<d>": "hardest0.3",
    "rare<c>": "rare4",
    "share<s>": "share0.3",
    "earned<s>": "earned0.3",
    "beta<x>": "beta10",
    "betaauto": "betaauto",
    "chi2": "beta10_chi2",
    "cvar<a>": "cvar0.3",
    "doro<e>": "cvar0.3_doro0.2",
    "asWeights": "asWeights",
    "power<x>": "power0.5",
    "nu<x>": "nu0.5",
    "adj<C>": "adj1",
    "alpha<a>": "alpha0.2",
    "T<n>": "T2",
    "eta<x>": "eta0.5",
    "gamma<x>": "gamma0.1",
    "rms<e>": "rms0.1",
    "IS": "beta10_IS",
    "noIS": "beta10_noIS",
    "exactIS": "beta10_exactIS",
    "normIS": "beta10_normIS",
    "clip<lo>to<hi>": "beta10_clip0.5to2",
    "momentum<m>": "momentum0.5",
    "warmup<n>": "warmup1",
    "explore<e>": "explore0.3",
    "replace": "replace",
    "sub<a>x<b>x<c>": "beta10_sub1x2x2",
    "hardPooled": "hardPooled",
    "hardLoss": "hardLoss",
    "hardCE": "hardCE",
    "hardPresent": "hardPresent",
    "memory<m>": "memory0.5",
    "la<tau>": "la1",
    "vs<gamma>": "vs0.5",
    "poly<alpha>": "poly1",
    "plainSGD": "plainSGD",
    "lr<x>": "lr0.001",
    "<n>epochs": "3epochs",
    "<n>iters": "5iters",
}
assert [option.form for option in OPTIONS] == list(EXAMPLES), (
    "an option without an example is not tested"
)

#: The same for trainers that need something else beside the option.
OTHER_EXAMPLES = {
    **{
        ("nnUNetTrainerDRO", form): f"beta10_IS_{word}"
        for form, word in (
            ("exactIS", "exactIS"),
            ("normIS", "normIS"),
            ("clip<lo>to<hi>", "clip0.5to2"),
        )
    },
    ("nnUNetTrainerDRO", "hardCE"): "share0.5_hardCE",
    ("nnUNetTrainerHWS", "memory<m>"): "hardPooled_memory0.5",
    ("nnUNetTrainerGroupDRO", "memory<m>"): "hardPooled_memory0.5",
}
#: Columns of the case table that `tests.nnunet_project` writes, by option: a group of every case,
#: or else a weight.
COLUMNS = {**dict.fromkeys(EXAMPLES, "site"), "asWeights": "number"}


def plain_name(base: str, form: str = "<n>epochs") -> str:
    """The name of a trainer without options, with a column that suits an option."""
    return f"{base}_{COLUMNS[form]}" if isinstance(TRAINERS[base].options, GroupOptions) else base


PLAIN_NAMES = [plain_name(base) for base in TRAINERS]
ALL_NAMES = PLAIN_NAMES + [
    f"{plain_name(base, option.form)}_{OTHER_EXAMPLES.get((base, option.form), EXAMPLES[option.form])}"
    for base, trainer in TRAINERS.items()
    for option in trainer.options.known_options()
]
