"""What reweighting cannot change: six digits and three ways to weight them, with models trained to the end."""
