"""A folder for the file: tables, model card and what a reporting guideline asks, from one evaluation."""

from nnunet_dro.evidence.pack import evidence_pack, table_one

__all__ = ["evidence_pack", "table_one"]
