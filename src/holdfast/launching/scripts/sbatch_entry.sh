# Runs a batch script with the variables of Slurm.
@array@
if [ -z "${SLURM_JOB_ID-}" ]; then
@exports@
    IFS= read -r SLURMD_NODENAME </proc/sys/kernel/hostname || SLURMD_NODENAME=${HOSTNAME:-localhost}
    SLURM_JOB_NODELIST=$SLURMD_NODENAME
    SLURM_NODELIST=$SLURMD_NODENAME
    SLURM_SUBMIT_HOST=$SLURMD_NODENAME
    export SLURMD_NODENAME SLURM_JOB_NODELIST SLURM_NODELIST SLURM_SUBMIT_HOST
else
@missing@
    export SLURM_JOB_NAME=@name@
fi
export SLURM_SUBMIT_DIR="$PWD"
@timers@
@stdin@
exec @interpreter@ "$1"
