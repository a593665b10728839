#!/usr/bin/env bash
# mpirun.sh RANKS PROGRAM [ARGUMENT...]: runs a program on several ranks of this machine, one thread each. Debian's mpirun
# refuses root, and more ranks than cores, unless it is told to; and it waits a second before it kills a rank that saves.
# MPIRUN_FLAGS are added.
set -euo pipefail
ranks=$1
shift
flags=(-n "$ranks" --mca btl vader,self --mca orte_base_help_aggregate 0)
((ranks > $(nproc))) && flags+=(--oversubscribe)
[ "$(id -u)" = 0 ] && flags+=(--allow-run-as-root)
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
# shellcheck disable=SC2086
exec mpirun "${flags[@]}" ${MPIRUN_FLAGS:-} "$@"
