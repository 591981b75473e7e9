"""The katas as an environment of verifiers: https://github.com/PrimeIntellect-ai/verifiers

    vf-eval pallas-katas-env -n 20 --env.agent.runtime.type subprocess --env.taskset.workers 4

taskset    the tasks, and the rewards of an answer
harness    how a model is asked: once, in plain text, without tools
"""

from pallas_katas_env.harness import AskOnce
from pallas_katas_env.taskset import KatasTaskset, load_environment

__all__ = ["AskOnce", "KatasTaskset", "load_environment"]
