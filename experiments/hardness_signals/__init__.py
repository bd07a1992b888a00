"""What a stale loss says: how much of it is the case, and how much where its patch fell."""
