# The stages of .ci/run and .ci/full: to be sourced. Each works in a clean clone of what is committed.

export CI=true  # pytest and its plugins say other things where this is set
export PIP_DISABLE_PIP_VERSION_CHECK=1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
workers=${WORKERS:-3}  # one more than cores: tests wait for processes and for time to pass; or "auto"
work=$(mktemp -d)
times=$work/times
failed=0
touch "$times"
trap 'kill $(jobs -p) 2>/dev/null || true; wait || true; report; rm -rf "$work"' EXIT
report() {
    printf '\n== seconds, and those of CPU time on all cores\n'
    cat "$times"
    printf '%6d %6d  all\n' "$SECONDS" "$(awk '{ sum += $2 } END { print sum }' "$times")"
}
# What the processes have taken that this shell has started, and waited for.
cpu_seconds() {
    times >"$work/cpu.$BASHPID"
    awk 'NR == 2 { gsub("[ms]", " "); print int(60 * $1 + $2 + 60 * $3 + $4) }' "$work/cpu.$BASHPID"
}

# ---- what is needed ----

# The oldest Python that we support shows the oldest jax; any other from 3.11 on will do.
supported() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info)' 2>/dev/null; }
pick() {
    local name python
    for name in "$@"; do
        for python in "$(command -v "$name" || true)" "$HOME"/.pyenv/versions/*/bin/"$name"; do
            if [ -x "$python" ] && supported "$python"; then echo "$python"; return; fi
        done
    done
}
old=$(pick python3.11 python3)
new=$(pick python3.13 python3.12)
[ -n "$old" ] || { echo "no Python 3.11 or newer here" >&2; exit 1; }
if [ -n "$new" ] && [ "$("$new" --version)" = "$("$old" --version)" ]; then new=; fi
mkdir "$work/bin" && ln -s "$old" "$work/bin/python3" && export PATH="$work/bin:$PATH"

git clone -q "$here" "$work/clone"
cd "$work/clone"

# Where there is no browser, the tests of `kata view`'s page are skipped; where there is, they may not be.
has_browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
browser() {
    if ! has_browser >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null || true
    fi
}

require_browser() {
    if has_browser >/dev/null; then export KATA_BROWSER=required
    else echo "no browser: kata view's page is not tested"; fi
}

# The README's commands as printed: a learner's, and a developer's.
printed() {
    local line
    line=$(grep -h '^python3 -m venv' README.md CONTRIBUTING.md | grep -e "$1" | head -n 1)
    [ -n "$line" ] || { echo "no command with $1 is printed" >&2; return 1; }
    echo "$line"
}

# ---- the stages ----

learner() {
    local command
    command=$(printed "'.\[tpu\]'")
    eval "$command"
}

install() {
    [ -x .venv/bin/python ] || python3 -m venv .venv
    .venv/bin/pip install -q -e '.[dev,tpu]'
}

# All tests, but those that an earlier run knows to pass: see tests/support/known_results.py.
known_results=${KNOWN_RESULTS:-${XDG_CACHE_HOME:-$HOME/.cache}/pallas-katas}
tests() {
    local command
    command=$(printed "'.\[dev,tpu\]'")
    require_browser
    export PYTEST_ADDOPTS="${PYTEST_ADDOPTS:-} --known-results=$known_results/oldest.json --durations=15"
    eval "${command/-n 2/-n $workers}"
}

lint() {
    .venv/bin/ruff check .
    .venv/bin/ruff format --check .
    .venv/bin/pyright --pythonpath .venv/bin/python
    .ci/javascript
    .venv/bin/kata sync --check
    # In a learner's clone an attempt is in step; what we ship holds none.
    .venv/bin/kata reset --all --yes
    git diff --exit-code --stat
    .venv/bin/python tools/generate.py --check
}

install_newest() {
    [ -n "$new" ] || return 0
    "$new" -m venv .venv-new
    .venv-new/bin/pip install -q -e '.[dev,tpu]'
}

# Whether other block sizes than those of [production] make solutions faster.
pars() {
    .venv/bin/python tools/benchmarks/par_sweep.py
}

# Whether the points of the site's roofline playground are as predicted today.
playground() {
    .venv/bin/python tools/playground_data.py --check
}

# Whether the site's links to other sites lead somewhere.
links() {
    .venv/bin/python -m sphinx -q -b linkcheck docs/site "$work/links"
}

# A jax that is newer than the bound in pyproject.toml allows: "release" or "prerelease". pip warns
# that the katas ask for another one, and installs it. JAX_INDEX is the address of the package index
# with JAX's nightly builds, from JAX's installation guide.
install_ahead() {
    install_newest
    case $1 in
    release) .venv-new/bin/pip install -q -U 'jax[tpu]' ;;
    prerelease)
        .venv-new/bin/pip install -q -U --pre jax jaxlib libtpu \
            ${JAX_INDEX:+--extra-index-url "$JAX_INDEX"}
        ;;
    esac
    .venv-new/bin/kata --version
}

newest() {
    if [ -z "$new" ]; then echo "no newer Python here than $("$old" --version)"; return; fi
    .venv-new/bin/pytest tests/course/test_verdicts.py tests/course/test_serialized_solutions.py \
        tests/checks/test_race_messages.py tests/sandbox/test_traced_for_chip.py \
        tests/pallascope/kernels tests/pallascope/test_readme.py \
        -n "$workers" --share=newest --known-results="$known_results/newest.json" --durations=10
}

# The fixture `pallas` without the course: the wheels of its two distributions, on the newest Python
# here, and the tests of the small repository, as its README says.
fixture() {
    local command example="$work/example" venv="$work/fixture"
    "${new:-$old}" -m venv "$venv"
    "$venv/bin/pip" wheel -q --no-deps -w "$work/wheels" ./pallascope ./integrations/pytest
    "$venv/bin/pip" install -q --find-links "$work/wheels" 'pytest-pallas[tpu,hypothesis]' pytest-xdist
    cp -r integrations/pytest/example "$example"
    cd "$example"
    command=$(grep '^pytest' README.md | head -n 1)
    [ -n "$command" ] || { echo "no command is printed" >&2; return 1; }
    ! "$venv/bin/python" -c 'import grader' 2>/dev/null || { echo "the course came along" >&2; return 1; }
    PATH="$venv/bin:$PATH" eval "$command"
}

# The wheel of the course, and a course that it writes and updates, outside of any clone.
package() {
    .ci/package "$work/dist"
}

# Everything on all seeds, every mistake on every hidden case, whatever earlier runs know.
whole() {
    [ -x "$1/bin/pytest" ] || { echo "no newer Python here than $("$old" --version)" >&2; return 1; }
    require_browser
    "$1/bin/pytest" tests -n "$workers" --seeds=1,20,300 --every-case --durations=30
}

# Kernels of packages on PyPI, in an environment of their own.
packages() {
    local venv="$work/packages" test=tests/pallascope/testing/test_pypi_kernels.py
    "$old" -m venv "$venv"
    "$venv/bin/pip" install -q -e '.[dev,tpu]' tokamax==0.0.12 recurrentgemma==1.0.1 ejkernel==0.0.80.3
    "$venv/bin/python" -c 'import tokamax, recurrentgemma, ejkernel'
    "$venv/bin/pytest" "$test" -n "$workers" -p no:cacheprovider
}

# How far solutions stay below the tolerance, over 200 seeds; fails where an error reaches half of it.
margins() {
    "$1/bin/python" tools/benchmarks/margins.py --solutions
}

# Phrases that make the English hard to read; the report fails for none.
prose() {
    .venv/bin/python tools/prose.py
}

# ---- running them, and what each took ----

# Run a stage; one that fails is noted, and ends nothing: the others have things to say too. Not to be
# called in a condition: there bash does not stop a stage at the first of its commands that fails.
timed() {
    local name=$1 start=$SECONDS code=0 cpu=$work/cpu.$1
    shift
    printf '\n== %s\n' "$name"
    set +e
    (trap "cpu_seconds >'$cpu'" EXIT; set -e; "$@")
    code=$?
    set -e
    [ $code = 0 ] || { failed=1; name="$name: failed"; }
    printf '%6d %6d  %s\n' $((SECONDS - start)) "$(cat "$cpu")" "$name" >>"$times"
}

# A stage beside others. What it says is shown when it is waited for.
begin() {
    { timed "$@"; exit "$failed"; } >"$work/log.$1" 2>&1 &
    eval "job_$1=$!"
}
finish() {
    local job=job_$1
    wait "${!job}" || failed=1
    cat "$work/log.$1"
}
