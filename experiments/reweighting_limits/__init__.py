"""What reweighting cannot change: six digits and three ways to weight them, to the end."""
