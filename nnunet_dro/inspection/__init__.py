"""Look at a finished training, case by case.

Two commands do: `doctor` asks whether robust training would help, `suspects` which labels may be
wrong.
"""
