"""The sandbox of a task: root filesystem, mounts, devices, system call filter."""
