"""Options of the Slurm engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.core.job import GIB
from holdfast.disk_space import DiskThresholds
from holdfast.engines.embedded.images.registry_options import RegistryOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmOptions:
    partition: str = ""  # of jobs that choose none; empty: Slurm's default
    account: str = ""
    qos: str = ""
    constraint: str = ""
    reservation: str = ""
    run_as: str = "service"  # or "user": the Unix user with the name of the Holdfast user
    max_queued: int = 100  # tasks that wait in Slurm's queue at a time
    conf: str = ""  # path of slurm.conf; empty: as the commands find it
    installation_id: str = ""  # distinguishes servers that share a cluster; empty: derived from the folder
    change_interval: float = 0.1  # seconds between two looks for changes that nodes report
    busy_interval: float = 2.0  # seconds between two looks while a task starts or ends
    busy_time: float = 60.0  # seconds after a change of a task until looks become seldom
    calm_interval: float = 30.0  # seconds between two looks otherwise
    min_interval: float = 0.5  # seconds between two looks in any case
    log_interval: float = 0.5  # seconds between two looks at logs that are followed
    heartbeat_interval: float = 10.0  # seconds between two signs of life of a task
    report_timeout: float = 15.0  # seconds until a report that the shared folder does not show is taken for missing
    gang_timeout: float = 300.0  # seconds that a task waits until all of its gang were passed
    never_timeout: float = 900.0  # seconds until a task fails that Slurm says it can never start; 0: it waits
    node_interval: float = 60.0  # seconds between two looks at the nodes
    probe_delay: float = 0.5  # seconds after the start until the nodes are checked
    grace: float = 30.0  # seconds that Slurm adds to the time limit of a job
    port_start: int = 15000  # inclusive
    port_end: int = 40000  # exclusive
    log_cap: int = 10 * GIB  # bytes kept of each stream
    unknown_image: str = "fail"  # or "host": use the node's own files
    isolation: str = "auto"  # or one of `IsolationMode`
    node_folder: str = ""  # folder on the own disk of nodes, for /tmp and changes to images; empty: TMPDIR there
    hidden: tuple[str, ...] = ()  # folders of the server that no task may see
    host_show: tuple[str, ...] = ()  # additional folders of nodes for tasks on the image `host`
    marks: DiskThresholds = field(default_factory=DiskThresholds)  # of the disk with the shared folder, for images
    registries: RegistryOptions = field(default_factory=RegistryOptions)
