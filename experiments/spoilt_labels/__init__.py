"""What experiments with wrong labels share: how labels are spoilt, and who can tell."""
