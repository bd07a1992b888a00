"""The command in a process of its own, with the program that its first word names in the place of
nnUNetv2_train."""

import sys

from nnunet_dro.cli import main
from nnunet_dro.nnunet import command

program = sys.argv.pop(1)
command.find_command = lambda name: program
command.POLL_SECONDS = 0.05
main()
