"""Resource usage of tasks: control groups, processes, GPUs and TCP traffic."""
