"""What to tell people about each row of `exit_rows`: why it happens, how to see it happen, what to try."""

from __future__ import annotations

from typing import NamedTuple

from .exit import Cause


class Text(NamedTuple):
    reason: str
    repro: tuple[str, ...]
    solution: tuple[str, ...]


_WAIT = "Wait: it is tried again by itself, and the try does not count."
_ASK = "If it keeps happening, show an admin the job's events."
_READ = "Read the end of the task's log; the first error there is usually the cause."
_EVENTS = "Read the job's events and the task's message."
_MENDED = "Submit the job again once that is mended."

TEXTS: dict[int, Text] = {
    0: Text("Every command ran and the last one ended with 0.", ("Run `exit 0`.",), ("Nothing is to be done.",)),
    -100: Text(
        "What the platform had noted about this attempt of the job was removed by somebody else.",
        ("Remove the attempt's object while the job runs.",),
        (_WAIT, _ASK),
    ),
    -101: Text(
        "What the task had on its machine is gone, so nobody can tell how it ended. Tasks that had to make room for "
        "others end this way too.",
        ("Remove the task's folder while it runs.",),
        (_WAIT, "See that nothing cleans up the platform's folders behind its back.", _ASK),
    ),
    -110: Text(
        "The platform wrote down a new attempt and did not see it appear in time.",
        ("Pause the cluster's control plane while a job starts.",),
        (_WAIT, _ASK),
    ),
    -111: Text(
        "The platform asked for a task and did not see it appear in time.",
        ("Pause the cluster's control plane while a task starts.",),
        (_WAIT, _ASK),
    ),
    -120: Text(
        "The machine could not start the task just then; a full disk or too many processes are common causes.",
        ("Fill the disk of the platform's state folder, then submit a job.",),
        (_WAIT, "Ask an admin to look at the machine's disk and memory.", _ASK),
    ),
    -200: Text(
        "The task as it was written can never be started, for example because of a variable that no program can have.",
        ("Submit a task with a NUL byte in an environment variable.",),
        ("Mend what the message names in the job file.", _MENDED),
    ),
    -210: Text("Somebody asked for the job to stop.", ("Stop a running job.",), ("Submit it again if it was a slip.",)),
    -220: Text(
        "Other tasks had already decided the attempt, so this one was ended.",
        ("Run two tasks with minFailedInstances 1, and let one of them fail.",),
        ("Look at the task that decided: the job names it.", "Change the role's completion rule if it should go on."),
    ),
    -230: Text(
        "The role was made smaller and this task was one too many.",
        ("Lower the number of a running role's instances.",),
        ("Nothing is to be done.",),
    ),
    -300: Text(
        "The task was reported as failed, but none of its containers were.",
        ("No sure way is known.",),
        (_EVENTS, "Submit the job again.", _ASK),
    ),
    -310: Text(
        "The task could not be created, and the answer was not one that is known.",
        ("No sure way is known.",),
        (_EVENTS, "Submit the job again.", _ASK),
    ),
    -1000: Text(
        "The machine ran short of memory or disk and put the task out to save itself.",
        ("Fill the disk of the machine that the task runs on.",),
        (_WAIT, "Write less to the container's own file system; use a mounted storage."),
    ),
    -1001: Text(
        "The machine was restarted, or what watched over the task there was killed, so how it ended is not known.",
        ("Restart the machine while the task runs.",),
        (_WAIT, "Save checkpoints, so that the next try need not begin anew."),
    ),
    -1002: Text(
        "The task was sent to a machine that by then had no room left for it.",
        ("Start something large on the machine by hand while a job is being placed.",),
        (_WAIT, _ASK),
    ),
    -1003: Text(
        "The machine needed the room for one of its own vital services.",
        ("Start a vital service on a full machine.",),
        (_WAIT,),
    ),
    -1004: Text(
        "The job ran longer than its time limit, so it was ended.",
        ("Submit `sleep 100` with a time limit of ten seconds.",),
        ("Ask for a longer time limit.", "Save checkpoints and submit it again from the last one."),
    ),
    -1005: Text(
        "The machine does not allow what the task asks for, such as a folder that may not be mounted there.",
        ("Mount a folder that does not exist on the machine.",),
        ("Mend what the message names, or ask an admin to allow it.", _MENDED),
    ),
    -1006: Text(
        "The machine failed while it got the task's surroundings ready.",
        ("Break the sandbox program on the machine, then submit a job.",),
        (_WAIT, "Ask an admin to run `holdfast doctor` on the machine."),
    ),
    -1100: Text(
        "The job as a whole cannot be taken: it asks for more than any machine or quota has.",
        ("Ask for more cores than the largest machine has.",),
        ("Ask for less per task, or for more and smaller tasks.",),
    ),
    -1200: Text(
        "The task used more memory than it asked for and was ended by the kernel.",
        ("Fill a list without end in a task that asked for 1 GB.",),
        ("Ask for more memory.", "Use smaller batches, or fewer loader processes."),
    ),
    -1201: Text(
        "The container could not be made.",
        ("Give the container an option that its runtime does not know.",),
        (_EVENTS, "Try with a plain image to see whether the image is to blame.", _ASK),
    ),
    -1202: Text(
        "The container's first command may not be executed.",
        ("Take the execute permission from the image's shell.",),
        ("Use an image whose shell can be run by the task's user.",),
    ),
    -1203: Text(
        "The container's first command is not in the image: there is neither bash nor sh.",
        ("Use an image that holds a single program and no shell.",),
        ("Use an image that has bash.",),
    ),
    -1204: Text(
        "The container was made but did not start.",
        ("No sure way is known.",),
        (_EVENTS, "Submit the job again.", _ASK),
    ),
    -1205: Text(
        "A GPU that the task was given is not on the machine any more.",
        ("Take a GPU out of the driver's list while jobs are being placed.",),
        (_WAIT, "Ask an admin to look at the machine's GPUs with `nvidia-smi`."),
    ),
    -1300: Text(
        "Getting the task ready took more memory than was set aside for it.",
        ("Give the set-up step next to no memory.",),
        (_WAIT, _ASK),
    ),
    -8000: Text("It ended with a negative code that has no entry here.", ("No sure way is known.",), (_EVENTS, _ASK)),
    128: Text(
        "The GPU reports memory errors that it could not put right; they may be why the program failed.",
        ("Run on a GPU whose double bit error count is above zero.",),
        ("Submit the job again; another GPU may be given.", "Ask an admin to reset or replace the GPU."),
    ),
    130: Text(
        "The program was interrupted from outside (SIGINT).", ("Run `kill -INT $$` in the task.",), (_WAIT, _ASK)
    ),
    131: Text("The program was told to quit (SIGQUIT).", ("Run `kill -QUIT $$` in the task.",), (_WAIT, _ASK)),
    132: Text(
        "The program used an instruction that this processor does not have (SIGILL).",
        ("Run a program built for a newer processor.",),
        ("Use a build for this kind of processor.",),
    ),
    134: Text(
        "The program gave itself up (SIGABRT), as a failed assertion does.",
        ("Call `abort()` in a program.",),
        (_READ,),
    ),
    135: Text(
        "The program touched memory that cannot be there (SIGBUS). Shared memory that is too small is the usual cause.",
        ("Write more to /dev/shm than it can hold.",),
        (
            "Ask for more shared memory (`shm`; in OpenPAI's files `extraContainerOptions.shmMB`).",
            "Use fewer loader processes.",
        ),
    ),
    136: Text(
        "A calculation had no result, such as a division of a whole number by zero (SIGFPE).",
        ("Divide by zero in a C program.",),
        ("Find the calculation with a debugger and guard it.",),
    ),
    137: Text(
        "The program was killed from outside (SIGKILL), or ended with 137 by its own choice.",
        ("Run `kill -KILL $$` in the task.",),
        (_WAIT, "See whether the task's own scripts kill it; if they do, stop the job and change them."),
    ),
    139: Text(
        "The program touched memory that is not its own (SIGSEGV).",
        ("Follow a null pointer in a C program.",),
        (_READ, "See that compiled libraries fit each other's versions."),
    ),
    141: Text(
        "The program wrote to something that nobody reads any more (SIGPIPE).",
        ("Run `yes | head -1` with `set -o pipefail`.",),
        ("Let the reader read to the end, or allow the writer to fail: `(yes || true) | head -1`.",),
    ),
    143: Text(
        "The program was asked to end from outside (SIGTERM).", ("Run `kill -TERM $$` in the task.",), (_WAIT, _ASK)
    ),
    200: Text("The container said that its failure will pass.", ("End a container with 200.",), (_WAIT, _READ)),
    201: Text(
        "The container said that it got in the way of others.",
        ("End a container with 201.",),
        ("Wait: it is tried again after some minutes.", _READ),
    ),
    210: Text("The container said that its failure will not pass.", ("End a container with 210.",), (_READ,)),
    220: Text(
        "The shell did not find a program that the commands name.",
        ("Run `no-such-program`.",),
        ("Look for a typing error in the commands.", "Install the program first, or use an image that has it."),
    ),
    221: Text(
        "TensorFlow found no room on the GPU for a tensor.",
        ("Double the batch size until it fails.",),
        ("Use a smaller batch or model.", "Ask for a GPU with more memory, or for more of them."),
    ),
    222: Text(
        "A program under MPI touched memory that is not its own.",
        ("Follow a null pointer in one MPI rank.",),
        (_READ, "See that MPI and the libraries it loads fit each other's versions."),
    ),
    223: Text(
        "The GPU's memory gave wrong data that could not be put right.",
        ("Run on a GPU with failing memory.",),
        (_WAIT, "Ask an admin to take the GPU out of use."),
    ),
    224: Text(
        "The program was built for a newer CUDA than the machine's driver supports.",
        ("Run an image with the newest CUDA on an old driver.",),
        ("Use an image with an older CUDA.", "Ask an admin for a newer driver."),
    ),
    225: Text(
        "The cuDNN that was found is not the version that the program was built with.",
        ("Put another cuDNN first in LD_LIBRARY_PATH.",),
        ("Use an image in which CUDA, cuDNN and the framework fit each other.",),
    ),
    226: Text(
        "The GPU's memory was full.",
        ("Double the batch size until it fails.",),
        ("Use a smaller batch or model.", "Ask for a GPU with more memory, or for more of them."),
    ),
    228: Text(
        "A program was called with an option or argument that it does not know.",
        ("Run `ls --no-such-option`.",),
        ("Compare the commands with the program's own `--help`.",),
    ),
    229: Text(
        "The data or model could not be read: it is damaged, cut short, or in another encoding.",
        ("Read half of a file as if it were whole.",),
        ("Check that the files are complete, and in the format that the program expects.",),
    ),
    230: Text(
        "A checkpoint was to be restored from a path that holds none.",
        ("Restore a model from an empty folder.",),
        ("Check the path, and that the storage with the checkpoint is mounted.",),
    ),
    231: Text(
        "Python met code that it cannot run: a slip in the syntax, or a name that does not exist.",
        ("Run `python3 -c 'print('`.",),
        ("Mend the line that the traceback names.", "See that the Python version is the one the code was written for."),
    ),
    232: Text(
        "A Python module was found, but what was wanted of it could not be imported.",
        ("Run `python3 -c 'from os import nothing'`.",),
        ("See that the installed packages fit each other's versions.",),
    ),
    233: Text(
        "The code asked for an element beyond the end of a list or array.",
        ("Run `python3 -c '[][0]'`.",),
        ("Mend the line that the traceback names.", "Check that the data has as many entries as the code expects."),
    ),
    234: Text(
        "A program touched memory that is not its own, and the shell said so.",
        ("Let a script start a program that crashes.",),
        (_READ, "See that compiled libraries fit each other's versions."),
    ),
    235: Text(
        "A program crashed and left an image of its memory behind.",
        ("Let a script start a program that calls `abort()`.",),
        (_READ, "Open the core file with a debugger, if it was kept."),
    ),
    249: Text(
        "The tasks did not reach each other by ssh in time.",
        ("Let one task of the role fail before its ssh server starts.",),
        ("See whether one task failed early.", "Raise the timeout of the ssh plugin."),
    ),
    250: Text("Waiting for the other tasks failed for a moment.", ("No sure way is known.",), (_WAIT, _ASK)),
    251: Text(
        "Not all tasks of the job found room at the same time.",
        ("Submit two jobs at once that each need most of the cluster.",),
        ("Wait: it is tried again after some minutes.", "Ask for fewer or smaller tasks."),
    ),
    252: Text("Waiting for the other tasks failed for good.", ("No sure way is known.",), (_ASK,)),
    253: Text(
        "A port that was given to the task is in use on its machine by something else.",
        ("Listen on one of the job's ports before the task starts.",),
        (_WAIT, "See whether a program outside the platform listens within its port range."),
    ),
    254: Text(
        "The image is not there, or may not be read.",
        ("Submit a job with a made-up image name.",),
        ("Check the image's name and tag.", "Ask an admin to import it: `holdfast image import`."),
    ),
    255: Text(
        "The program failed with an exit code of its own, and its log holds none of the known signs.",
        ("Run `exit 1`.",),
        (_READ, "Run the commands by hand in the same image."),
    ),
    256: Text(
        "It failed before or beside the commands, or with a code that has no entry here.",
        ("Let the git plugin clone an address that does not exist.",),
        (_READ, _EVENTS),
    ),
    154: Text("How the container ended was not written down.", ("No sure way is known.",), (_READ,)),
    193: Text("The container could not be run.", ("Use an image that does not exist.",), ("Check the image's name.",)),
    196: Text("The container used more memory than it asked for.", ("Fill a list.",), ("Ask for more memory.",)),
    198: Text(
        "The machine's disk was full, and this container used much of it.",
        ("Write a file without end.",),
        ("Write to a mounted storage instead.",),
    ),
    -7103: Text("A port was in use on the machine.", ("Listen on one of the job's ports.",), (_WAIT,)),
    -7112: Text("A place was given and not taken in time.", ("No sure way is known.",), (_WAIT,)),
    -7113: Text("A place was given and not taken in time.", ("No sure way is known.",), (_WAIT,)),
    -7120: Text("It had to make room for another job.", ("Fill the queue of another group.",), (_WAIT,)),
    -7252: Text(
        "Not all tasks of the job found room at the same time.",
        ("Submit two large jobs at once.",),
        ("Ask for fewer or smaller tasks.",),
    ),
    -7351: Text("Somebody asked for the job to stop.", ("Stop a running job.",), ("Submit it again if needed.",)),
    -7400: Text(
        "Other tasks had already decided the job.",
        ("Let another task fail first.",),
        ("Look at the task that decided.",),
    ),
}

# What a log told, in the words that follow the exit code. By the plain word, as stores keep it.
CAUSE_WORDS: dict[str, str] = {
    Cause.DISK_WAS_FULL.value: "the server's disk was full",
    Cause.SSH_BARRIER.value: "the tasks did not reach each other by ssh",
    Cause.PLUGIN_FAILED.value: "a runtime plugin failed",
    Cause.COMMAND_NOT_FOUND.value: "a command was not found",
    Cause.TENSORFLOW_OOM.value: "the GPU ran out of memory",
    Cause.MPI_SEGFAULT.value: "a program under MPI touched memory that is not its own",
    Cause.GPU_MEMORY_ERROR.value: "the GPU's memory has errors",
    Cause.CUDA_MISMATCH.value: "the GPU's driver is too old for the program's CUDA",
    Cause.CUDNN_MISMATCH.value: "cuDNN does not fit the program",
    Cause.CUDA_OOM.value: "the GPU ran out of memory",
    Cause.BAD_ARGUMENT.value: "a program does not know an option it was given",
    Cause.BAD_DATA.value: "data could not be read",
    Cause.BAD_SAVE_PATH.value: "there is no checkpoint at the given path",
    Cause.SYNTAX_ERROR.value: "Python could not run the code",
    Cause.IMPORT_ERROR.value: "a Python import failed",
    Cause.INDEX_ERROR.value: "an index was out of range",
    Cause.SEGFAULT.value: "a program touched memory that is not its own",
    Cause.CORE_DUMPED.value: "a program crashed",
    Cause.UNSET_VARIABLE.value: "a variable is not set",
}
# Where the row of the code knows nothing of it.
CAUSE_HINTS: dict[str, str] = {
    Cause.SCRATCH_FULL.value: "Write large data to the group's shared volume, /project/GROUP, or ask an admin to raise "
    "primehub.scratch_bytes.",
    Cause.DISK_LIMIT.value: "Write large data to a mounted folder, keep fewer files, or ask an admin to raise "
    "disk.task_bytes or disk.task_files.",
    Cause.SERVER_DISK_FULL.value: "Write large data to a mounted folder on another disk, or submit it again once an "
    "admin has freed room with `holdfast prune`.",
    Cause.DISK_WAS_FULL.value: "The program could not write. Submit it again once there is room: `holdfast status` "
    "says whether the disk is full.",
    Cause.PLUGIN_FAILED.value: "Read the end of the task's log: it names the plugin and says why.",
    Cause.UNSET_VARIABLE.value: "A variable that the commands read is not set: write ${NAME:-}, or set it.",
}
