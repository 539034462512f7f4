"""Every way to end that OpenPAI knows, one row each: number, name, who said it, whose doing it was, and what a retry
would bring. The words for people are in `exit_texts`, row by row; what leads to a row is in `exit_table`.
"""

from __future__ import annotations

from typing import NamedTuple

from .exit import Behaviour


class Row(NamedTuple):
    code: int
    phrase: str
    issuer: str
    causer: str
    type: str
    stage: str
    behaviour: Behaviour


_T, _TC, _P, _U = Behaviour.TRANSIENT, Behaviour.TRANSIENT_CONFLICT, Behaviour.PERMANENT, Behaviour.UNKNOWN

_PROGRAM, _OS, _RUNTIME, _DOCKER = "USER_CONTAINER", "PAI_OS", "PAI_RUNTIME", "PAI_DOCKER"
_K8S, _FC, _DB = "PAI_K8S", "PAI_FC", "PAI_DB_CONTROLLER"
_SUBMISSION, _STOP, _SHRUNK, _HARDWARE = "USER_SUBMISSION", "USER_STOP", "USER_SCALEDOWN", "PAI_HW"
_PLATFORM_UNKNOWN, _UNKNOWN = "PAI_UNKNOWN", "UNKNOWN"
_WAITED = "RESOURCE_ALLOCATION_TIMEOUT"

_SUCCESS, _STOPPED, _USER, _PLATFORM = "USER_SUCCESS", "USER_STOP", "USER_FAILURE", "PLATFORM_FAILURE"
_NOBODY_KNOWS = "UNKNOWN_FAILURE"

_SUBMITTING, _ALLOCATING, _LAUNCHING, _RUNNING = "SUBMITTING", "ALLOCATING", "LAUNCHING", "RUNNING"
_COMPLETING, _ANY = "COMPLETING", "UNKNOWN"

OTHER_NEGATIVE = -8000  # stands in for negative codes without a row
OTHER_POSITIVE = 256  # and for positive ones

# The platform's own: the task never ran, was ended from outside, or the job was not taken.
_OWN = (
    Row(0, "Succeeded", _PROGRAM, _PROGRAM, _SUCCESS, _COMPLETING, _U),
    Row(-100, "ConfigMapExternalDeleted", _FC, _PLATFORM_UNKNOWN, _PLATFORM, _ANY, _T),
    Row(-101, "PodExternalDeleted", _FC, _PLATFORM_UNKNOWN, _PLATFORM, _ANY, _T),
    Row(-110, "ConfigMapLocalCacheCreationTimeout", _FC, _PLATFORM_UNKNOWN, _PLATFORM, _LAUNCHING, _T),
    Row(-111, "PodLocalCacheCreationTimeout", _FC, _PLATFORM_UNKNOWN, _PLATFORM, _LAUNCHING, _T),
    Row(-120, "PodCreationTransientError", _FC, _PLATFORM_UNKNOWN, _PLATFORM, _LAUNCHING, _T),
    Row(-200, "PodCreationPermanentError", _FC, _SUBMISSION, _USER, _SUBMITTING, _P),
    Row(-210, "StopFrameworkRequested", _FC, _STOP, _STOPPED, _ANY, _P),
    Row(-220, "FrameworkAttemptCompletion", _FC, _STOP, _STOPPED, _ANY, _P),
    Row(-230, "DeleteTaskRequested", _FC, _SHRUNK, _STOPPED, _ANY, _P),
    Row(-300, "PodFailedWithoutFailedContainer", _FC, _UNKNOWN, _NOBODY_KNOWS, _LAUNCHING, _U),
    Row(-310, "PodCreationUnknownError", _FC, _UNKNOWN, _NOBODY_KNOWS, _LAUNCHING, _U),
    Row(-1000, "PodEvicted", _K8S, _K8S, _PLATFORM, _RUNNING, _T),
    Row(-1001, "PodNodeLost", _K8S, _K8S, _PLATFORM, _RUNNING, _T),
    Row(-1002, "PodScheduledToInsufficientResourceNode", _K8S, _K8S, _PLATFORM, _LAUNCHING, _T),
    Row(-1003, "PodPreemptedForCriticalPod", _K8S, _K8S, _PLATFORM, _RUNNING, _T),
    Row(-1004, "PodDeadlineExceeded", _K8S, _STOP, _STOPPED, _RUNNING, _P),
    Row(-1005, "PodNodeAdmissionForbidden", _K8S, _SUBMISSION, _USER, _LAUNCHING, _P),
    Row(-1006, "PodNodeAdmissionUnexpectedError", _K8S, _K8S, _PLATFORM, _LAUNCHING, _T),
    Row(-1100, "CreateFrameworkPermanentFailed", _DB, _SUBMISSION, _USER, _SUBMITTING, _P),
    Row(-1200, "UserContainerDockerOOMKilled", _DOCKER, _PROGRAM, _USER, _RUNNING, _P),
    Row(-1201, "ContainerDockerCreationError", _DOCKER, _UNKNOWN, _NOBODY_KNOWS, _LAUNCHING, _U),
    Row(-1202, "ContainerDockerStartCmdPermissionDenied", _DOCKER, _RUNTIME, _PLATFORM, _LAUNCHING, _P),
    Row(-1203, "ContainerDockerStartCmdNotFound", _DOCKER, _RUNTIME, _PLATFORM, _LAUNCHING, _P),
    Row(-1204, "ContainerDockerStartUnknownError", _DOCKER, _UNKNOWN, _NOBODY_KNOWS, _LAUNCHING, _U),
    Row(-1205, "ContainerGpuDeviceNotFoundError", _DOCKER, _HARDWARE, _PLATFORM, _LAUNCHING, _T),
    Row(-1300, "InitContainerDockerOOMKilled", _DOCKER, _RUNTIME, _PLATFORM, _LAUNCHING, _T),
    Row(OTHER_NEGATIVE, "ContainerUndefinedNegativeExitCode", _UNKNOWN, _UNKNOWN, _NOBODY_KNOWS, _ANY, _U),
)

# The program ended by a signal, or with the code that a shell gives for one.
_SIGNALS = (
    Row(130, "ContainerSigIntReceived", _OS, _OS, _PLATFORM, _RUNNING, _T),
    Row(131, "ContainerSigQuitReceived", _OS, _OS, _PLATFORM, _RUNNING, _T),
    Row(132, "ContainerSigIllReceived", _PROGRAM, _PROGRAM, _USER, _RUNNING, _P),
    Row(134, "ContainerSigAbrtReceived", _PROGRAM, _UNKNOWN, _NOBODY_KNOWS, _RUNNING, _U),
    Row(135, "ContainerSigBusReceived", _PROGRAM, _PROGRAM, _USER, _RUNNING, _P),
    Row(136, "ContainerSigFpeReceived", _PROGRAM, _PROGRAM, _USER, _RUNNING, _P),
    Row(137, "ContainerSigKillReceived", _OS, _OS, _PLATFORM, _RUNNING, _T),
    Row(139, "ContainerSigSegvReceived", _PROGRAM, _UNKNOWN, _NOBODY_KNOWS, _RUNNING, _U),
    Row(141, "ContainerSigPipeReceived", _PROGRAM, _PROGRAM, _USER, _RUNNING, _P),
    Row(143, "ContainerSigTermReceived", _OS, _OS, _PLATFORM, _RUNNING, _T),
)

# The log told more than the exit code did.
_TOLD_BY_LOG = (
    Row(220, "UserCommandExitWithError", _PROGRAM, _PROGRAM, _USER, _RUNNING, _P),
    Row(221, "ContainerTensorflowOOMKilled", _RUNTIME, _PROGRAM, _USER, _RUNNING, _P),
    Row(222, "ContainerMPISegvFault", _RUNTIME, _PROGRAM, _USER, _RUNNING, _P),
    Row(223, "ContainerCudaUncorrectableECCError", _RUNTIME, _HARDWARE, _PLATFORM, _RUNNING, _T),
    Row(224, "ContainerCudaVersionMismatch", _RUNTIME, _PROGRAM, _USER, _RUNNING, _P),
    Row(225, "ContainerCudaDnnVersionMismatch", _RUNTIME, _PROGRAM, _USER, _RUNNING, _P),
    Row(226, "ContainerCudaOOMKilled", _RUNTIME, _PROGRAM, _USER, _RUNNING, _P),
    Row(228, "ContainerIncorrectParameterError", _RUNTIME, _PROGRAM, _USER, _RUNNING, _P),
    Row(229, "ContainerIncorrectDataModelError", _RUNTIME, _PROGRAM, _USER, _RUNNING, _P),
    Row(230, "ContainerInvalidSavePath", _RUNTIME, _PROGRAM, _USER, _RUNNING, _P),
    Row(231, "ContainerSyntaxError", _RUNTIME, _PROGRAM, _USER, _RUNNING, _P),
    Row(232, "ContainerImportError", _RUNTIME, _PROGRAM, _USER, _RUNNING, _P),
    Row(233, "ContainerIndexOutOfRange", _RUNTIME, _PROGRAM, _USER, _RUNNING, _P),
    Row(234, "ContainerSigvFault", _RUNTIME, _PROGRAM, _USER, _RUNNING, _P),
    Row(235, "ContainerEngineCoreDump", _RUNTIME, _PROGRAM, _USER, _RUNNING, _P),
)

# What was around the program.
_AROUND = (
    Row(128, "ContainerMayFailDueToGpuDeviceEccError", _PROGRAM, _HARDWARE, _PLATFORM, _RUNNING, _U),
    Row(200, "ContainerTransientFailed", _PROGRAM, _UNKNOWN, _NOBODY_KNOWS, _ANY, _T),
    Row(201, "ContainerTransientConflictFailed", _PROGRAM, _UNKNOWN, _NOBODY_KNOWS, _ANY, _TC),
    Row(210, "ContainerPermanentFailed", _PROGRAM, _UNKNOWN, _NOBODY_KNOWS, _ANY, _P),
    Row(249, "PAIRuntimeSSHBarrierTimeout", _RUNTIME, _RUNTIME, _PLATFORM, _RUNNING, _P),
    Row(250, "FrameworkBarrierTransientFailed", _RUNTIME, _RUNTIME, _PLATFORM, _LAUNCHING, _T),
    Row(251, "JobGangAllocationTimeout", _RUNTIME, _WAITED, _WAITED, _ALLOCATING, _TC),
    Row(252, "FrameworkBarrierPermanentFailed", _RUNTIME, _RUNTIME, _PLATFORM, _LAUNCHING, _P),
    Row(253, "ContainerPortConflict", _RUNTIME, _RUNTIME, _PLATFORM, _LAUNCHING, _T),
    Row(254, "ContainerImageNotExists", _RUNTIME, _RUNTIME, _USER, _LAUNCHING, _P),
    Row(255, "PAIRuntimeUnknownFailed", _RUNTIME, _UNKNOWN, _NOBODY_KNOWS, _ANY, _U),
    Row(OTHER_POSITIVE, "PAIRuntimeExitAbnormally", _RUNTIME, _RUNTIME, _PLATFORM, _ANY, _U),
)

ROWS = _OWN + _SIGNALS + _TOLD_BY_LOG + _AROUND
SIGNAL_CODES = frozenset(row.code for row in _SIGNALS)

# Of OpenPAI before 1.0, so that a code in an old report can be looked up. Nothing of ours ends with them.
OLD_ROWS = (
    Row(154, "CONTAINER_EXIT_CODE_FILE_LOST", _RUNTIME, _UNKNOWN, _NOBODY_KNOWS, _ANY, _U),
    Row(193, "CONTAINER_DOCKER_RUN_FAILED", _DOCKER, _UNKNOWN, _NOBODY_KNOWS, _LAUNCHING, _U),
    Row(196, "CONTAINER_OOM_KILLED_BY_DOCKER", _DOCKER, _PROGRAM, _USER, _RUNNING, _P),
    Row(198, "CONTAINER_OOD_KILLED_BY_DISKCLEANER", _RUNTIME, _PROGRAM, _USER, _RUNNING, _P),
    Row(-7103, "CONTAINER_PORT_CONFLICT", _RUNTIME, _RUNTIME, _PLATFORM, _LAUNCHING, _T),
    Row(-7112, "CONTAINER_EXPIRED", _RUNTIME, _RUNTIME, _PLATFORM, _ALLOCATING, _T),
    Row(-7113, "CONTAINER_ABORTED_ON_AM_RESTART", _RUNTIME, _RUNTIME, _PLATFORM, _ALLOCATING, _T),
    Row(-7120, "CONTAINER_PREEMPTED", _RUNTIME, _RUNTIME, _PLATFORM, _RUNNING, _T),
    Row(-7252, "AM_GANG_ALLOCATION_TIMEOUT", _RUNTIME, _WAITED, _WAITED, _ALLOCATING, _TC),
    Row(-7351, "APP_STOP_FRAMEWORK_REQUESTED", _FC, _STOP, _STOPPED, _ANY, _P),
    Row(-7400, "TASK_STOPPED_ON_APP_COMPLETION", _FC, _STOP, _STOPPED, _ANY, _P),
)
