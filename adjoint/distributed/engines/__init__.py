"""Who carries the bytes: MPI for arrays on the host, NCCL for arrays on GPUs."""
