"""What experiments with wrong labels share: how labels are spoilt, and whether a training can tell."""
