"""What reweighting cannot change: six digits, a linear model, and three ways to weigh them, trained to the end."""
