#!/usr/bin/env bash
# The ConvNet of the examples under SLURM: a parameter server, a chief and two workers, one per node.
#
#   sbatch examples/cluster/slurm.sh --train_steps=2000      from the project's folder
#   MODE=all_reduce sbatch examples/cluster/slurm.sh         without parameter servers: a chief, three workers
#   MODE=far_machines sbatch examples/cluster/slurm.sh       the same, but they meet every 50 steps only
#   MODE=estimator sbatch examples/cluster/slurm.sh          workers that do not wait for each other
#
# Its arguments go to the program. The folder must be on a file system that all nodes share, and
# PYTHON must name an interpreter there that has what the project needs.
#SBATCH --job-name=convnet
#SBATCH --ntasks=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --signal=TERM@120  # two minutes before the end: the chief saves, and all leave with code 143
set -euo pipefail

export PYTHON=${PYTHON:-.venv/bin/python} PORT=${PORT:-2222} MODE=${MODE:-distributed_sync_replicas} HOSTS
HOSTS=$(scontrol show hostnames "$SLURM_JOB_NODELIST")

# What each task runs. Task k is on the k-th host, and the first hosts have roles of their own.
task='
mapfile -t hosts <<<"$HOSTS"
roles=(ps chief) ps="\"ps\": [\"${hosts[0]}:$PORT\"], " options=()
case "$MODE" in
all_reduce | far_machines) roles=(chief) ps="" ;;
distributed_sync_replicas) options=(--op_strategy=shared) ;;
esac
first=${#roles[@]}
workers=$(printf ", \"%s:$PORT\"" "${hosts[@]:first}")
cluster="{$ps\"chief\": [\"${hosts[first - 1]}:$PORT\"], \"worker\": [${workers:2}]}"
role=${roles[SLURM_PROCID]:-worker}
index=$((SLURM_PROCID < first ? 0 : SLURM_PROCID - first))
export TF_CONFIG="{\"cluster\": $cluster, \"task\": {\"type\": \"$role\", \"index\": $index}}"
exec "$PYTHON" -m examples.convnet --mode="$MODE" "${options[@]}" \
    --model_dir=runs/cluster --train_steps=1000 --save_every_steps=100 --progress=log "$@"
'

status=0
srun --label bash -c "$task" task "$@" || status=$?
if ((status >= 128)); then
    # It was stopped after saving, or lost another task: it goes on from its last checkpoint.
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
