"""What is evaluated, and how: folders of label maps, summaries of nnU-Net, and options."""
