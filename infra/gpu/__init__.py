"""What cards a host has: NVML where there are GPUs, and the CPU as a card, declared as such."""
