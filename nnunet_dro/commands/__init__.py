"""The commands of `nnunet-dro`, one file each, named as typed.

Heavy modules are imported when a command is called.
"""
