#!/bin/bash
#SBATCH --job-name=checkpoint
#SBATCH --time=02:00:00
#SBATCH --signal=B:USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append

checkpoint() {
    echo "caught USR1"
    kill -TERM "$child"
    wait "$child"
}
trap checkpoint USR1
./solver --restart latest &
child=$!
wait "$child"
