"""Where tensors are computed: one contract, and one folder for each device."""
