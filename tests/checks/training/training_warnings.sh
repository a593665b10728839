#!/usr/bin/env bash
# training_warnings.sh PROGRAM: each of these gives one warning: a step without any gradient, or of frozen
# parameters; a schedule that is stepped before the optimiser; processes that a launcher started together and that train
# separately.
set -euo pipefail
unset OMPI_COMM_WORLD_SIZE PMI_SIZE SLURM_STEP_NUM_TASKS
says() {  # TIMES TEXT: the last run said TEXT so many times
  [[ $(grep -cF -- "$2" <<<"$said" || true) == "$1" ]] || { echo "'$2' should stand $1 times in:"; echo "$said"; exit 1; }
}
said=$("$1" 2>&1)
says 1 "[SGD] step() changes nothing: no parameter has a gradient"
says 1 "[StepLR] step() was called before the optimiser's first step()"
says 0 "processes were started together"
said=$("$1" frozen 2>&1)
says 1 "[SGD] step() changes nothing: all its parameters are frozen"
for variable in OMPI_COMM_WORLD_SIZE PMI_SIZE SLURM_STEP_NUM_TASKS; do
  said=$(env $variable=4 "$1" 2>&1)
  says 1 "[dist] 4 processes were started together, but this one trains alone"
  said=$(env $variable=1 "$1" 2>&1)
  says 0 "processes were started together"
done
