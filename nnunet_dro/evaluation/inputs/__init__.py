"""The files to evaluate: folders of label maps, model folders and summaries of nnU-Net."""

from nnunet_dro.evaluation.inputs.folders import Inputs, find_inputs, labels_by_value
from nnunet_dro.evaluation.inputs.nnunet_summary import matched_inputs, read_summary

__all__ = ["Inputs", "find_inputs", "labels_by_value", "matched_inputs", "read_summary"]
