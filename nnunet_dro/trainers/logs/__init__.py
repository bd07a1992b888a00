"""What a training writes after each epoch: CSV files, pictures and lines for nnU-Net's log."""
