#!/bin/bash
# Grades samples.jsonl in 64 tasks of an array, one part and one core each. Submit it
# with sbatch docs/scale/slurm.sh. docs/scale.md explains the options.
#SBATCH --array=1-64
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
#SBATCH --time=02:00:00
#SBATCH --requeue
cd ~/pallas-katas
part=$SLURM_ARRAY_TASK_ID
.venv/bin/kata grade samples.jsonl --seed 7 --shard "$part/64" --workers 1 --out "parts/$part.jsonl"
