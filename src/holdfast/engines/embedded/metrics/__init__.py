"""Resource usage of tasks: cgroups, processes, GPUs and TCP traffic."""
