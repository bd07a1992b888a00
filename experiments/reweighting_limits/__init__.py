"""What reweighting cannot change: six digits, a linear model, and three ways to weight them, trained to the end."""
