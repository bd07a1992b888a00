"""The files and commands of nnU-Net, known without importing nnunetv2."""
