"""How each option is written in a trainer's name."""

from nnunet_dro.trainers.options.option import number_option, switch

_FIDON = "Fidon et al. 2022"
_WANG = "Wang et al. 2024"


#: All options, in the order in which names give them.
OPTIONS = (
    number_option(
        "hardest<d>",
        "Moves a part d of the draws to the hardest cases, as far as they are learnt; 0 <= d < 1. "
        "Each of these is drawn up to about 6 times as often as by chance, or as often as the "
        "rarest kind of images if that is more. Every case keeps 1 - d of the draws that it would "
        "have otherwise. With 0 the images alone decide, see rare<c>.",
    ),
    number_option(
        "rare<c>",
        "Draws images of a rare kind more often than others; c >= 1, and with 1 no image is looked "
        "at. A kind is rare if it has at least five cases, and a share s of all cases below 0.2. "
        "It is drawn min(c, 0.2 / s) times as often as others.",
    ),
    number_option(
        "share<s>",
        "Draws hard cases more often, about as if only a share s of the cases were drawn, whether "
        "they are learnt or not; 0 < s < 1. With IW it is the share of the cases of each group. "
        "share0.5 was the default of version 0.2.",
        source="Hu and Hong 2013",
    ),
    number_option(
        "earned<s>",
        "Draws as share<s> does, but only as far as the hardest cases are learnt; at first it "
        "therefore draws uniformly; 0 < s < 1. earned0.5 was the default of version 0.3.",
    ),
    number_option(
        "beta<x>",
        "Draws a case with the probability softmax(x * stale loss). With 0 all cases are drawn "
        "equally often, as in plain nnU-Net.",
        source=f"{_FIDON}, Algorithm 1",
    ),
    switch(
        "betaauto",
        "Sets beta after each epoch to 1 / the standard deviation of the losses between the cases. "
        "It is 0 until all cases were drawn once.",
        field="auto_beta",
        source=f"{_FIDON}, on the choice of beta",
    ),
    switch(
        "chi2",
        "Draws with the probabilities that are nearest to (1 + beta * stale loss / 2) / n, not "
        "below 0, and sum to 1 (Pearson divergence instead of KL). Easy cases get 0.",
        source="Fidon et al. 2020, eq. (21)",
    ),
    number_option(
        "cvar<a>",
        "Draws only from the hardest share a of the cases, these uniformly (conditional value at "
        "risk); 0 < a < 1.",
        source="Rockafellar and Uryasev 2000",
    ),
    number_option(
        "doro<e>",
        "With cvar: first sets the hardest share e of the cases aside, as suspected outliers, and "
        "names them in the log.",
        source="Zhai et al. 2021",
    ),
    switch(
        "asWeights",
        "Reads the column as the weight of every case, not as its group: a case is drawn in "
        "proportion to its weight, and never if that is 0.",
        field="as_weights",
    ),
    number_option(
        "power<x>",
        "Draws a group of n cases in proportion to n^(1 - x); 0 <= x <= 1. With 1 all groups are "
        "drawn equally often, with 0 all cases.",
        source="Mahajan et al. 2018, x = 0.5",
    ),
    number_option(
        "nu<x>",
        "Size of the steps by which the weights of the groups change, once per iteration.",
        source="Sagawa et al. 2020",
    ),
    number_option(
        "adj<C>",
        "Adds C / sqrt(number of cases) to the loss of each group, so that small groups count as "
        "harder.",
        field="adjustment",
        source="Sagawa et al. 2020, eq. (5)",
    ),
    number_option(
        "alpha<a>",
        "Label smoothing: the reference of the cross-entropy gives 1 - a to the label and shares "
        "a among the other classes; 0 <= a <= 0.5.",
        field="smoothing",
        source=_WANG,
    ),
    number_option(
        "T<n>",
        "Number of gradient steps that change the images of a batch, 1 to 15.",
        field="steps",
        source=_WANG,
        read=int,
    ),
    number_option(
        "eta<x>",
        "Size of the gradient steps that change the images of a batch.",
        field="step_size",
        source=_WANG,
    ),
    number_option(
        "gamma<x>",
        "Keeps the features of the changed images close to those of the original ones, by the "
        "penalty x / 2 * squared distance.",
        field="penalty",
        source=_WANG,
    ),
    number_option(
        "rms<e>",
        "Bounds the root mean square change of an image to e standard deviations of the image.",
        field="largest_change",
    ),
    switch(
        "IS",
        "Turns the importance weights exp(beta * change of the stale loss) on. With DRO, cases are "
        "then drawn by earned0.5 unless share, earned, beta or betaauto is named.",
        field="importance_sampling",
        source=_FIDON,
    ),
    switch(
        "noIS",
        "Turns the importance weights exp(beta * change of the stale loss) off: every drawn case "
        "counts the same.",
        field="importance_sampling",
        value=False,
        source=_FIDON,
    ),
    switch(
        "exactIS",
        "Computes the importance weights from the exact ratio of the probabilities with the new "
        "and the old loss, which never exceeds 1 / p.",
        field="exact_ratio",
        source=f"{_FIDON}, eq. (19)",
    ),
    switch(
        "normIS",
        "Divides the importance weights by their running mean, so that the size of the steps "
        "stays the same.",
        field="normalised",
    ),
    number_option("clip<lo>to<hi>", "Smallest and largest importance weight.", source=_FIDON),
    number_option(
        "momentum<m>",
        "Averages the losses of a case over its draws: "
        "stale loss <- m * stale loss + (1 - m) * loss; 0 <= m < 1. With 0 the last loss counts.",
    ),
    number_option(
        "warmup<n>",
        "Draws cases uniformly for the first n epochs, while losses are collected. GILS changes no "
        "images in them.",
        source="Fidon et al. 2020, one epoch",
        read=int,
    ),
    number_option(
        "explore<e>",
        "Makes a share e of the draws uniform, so that no loss grows old; 0 <= e <= 1.",
        field="exploration",
    ),
    switch(
        "replace",
        "Draws the cases of a batch with replacement, as nnU-Net does, instead of distinct ones.",
    ),
    number_option(
        "sub<a>x<b>x<c>",
        "Divides each case into a grid of sub-volumes, each with a stale loss of its own. A "
        "draw also decides in which sub-volume the patch is centred.",
        field="subvolumes",
        source=f"{_FIDON}, section 4.2.1",
        read=int,
    ),
    switch(
        "hardPooled",
        "Uses Dice and cross-entropy of the last patches of a case together as hardness. The "
        "training loss does not change.",
        field="hardness",
        value="pooled",
    ),
    switch(
        "hardLoss",
        "Uses the training loss of the last patch of a case as hardness.",
        field="hardness",
        value="loss",
        source=_FIDON,
    ),
    switch(
        "hardCE",
        "Uses the cross-entropy alone as hardness. The training loss does not change.",
        field="hardness",
        value="ce",
    ),
    switch(
        "hardPresent",
        "Leaves classes that are in neither the patch nor its prediction out of the Dice of the "
        "hardness. The training loss does not change.",
        field="hardness",
        value="present",
    ),
    number_option(
        "memory<m>",
        "Weight of the earlier patches in the pooled hardness, each time that a case is drawn; "
        "0 <= m < 1. About 1 / (1 - m) patches count.",
    ),
    number_option(
        "la<tau>",
        "Logit adjustment: adds tau * log(share of the class's voxels) to the logits of the "
        "cross-entropy.",
        field="logit_adjustment",
        source="Menon et al. 2021, eq. (10)",
    ),
    number_option(
        "vs<gamma>",
        "Multiplies the logits of the cross-entropy by "
        "(share of the class / largest share)^gamma. Together with la this is the vector-scaling "
        "loss.",
        field="vector_scaling",
        source="Ye et al. 2020; Kini et al. 2021",
    ),
    number_option(
        "poly<alpha>",
        "Gives the cross-entropy a polynomial tail: voxels that are clearly right keep a gradient "
        "of the order of margin^-(alpha + 1).",
        field="polynomial_tail",
        source="Wang et al. 2022",
    ),
    switch(
        "plainSGD",
        "Trains with SGD without momentum instead of nnU-Net's Nesterov momentum of 0.99.",
        field="plain_sgd",
        source=_FIDON,
    ),
    number_option(
        "lr<x>",
        "Learning rate of the first epoch; it falls to 0 as in nnU-Net.",
        field="learning_rate",
    ),
    number_option("<n>epochs", "Number of epochs.", field="epochs", read=int),
    number_option(
        "<n>iters",
        "Training iterations per epoch; the validation iterations change in proportion.",
        field="iterations",
        read=int,
    ),
)
