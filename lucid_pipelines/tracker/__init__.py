"""Step, step time, loss and progress read out of training logs."""
