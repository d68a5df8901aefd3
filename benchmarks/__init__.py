"""What compll is compared with: formulas written by hand in torch, and the layer shapes of well-known models."""
