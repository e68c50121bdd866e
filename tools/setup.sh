#!/bin/sh
# Make .venv with `torchcourse[EXTRA]` in it, at the versions of constraints.txt: tools/setup.sh lab|test
# Uses uv where that is installed, else pip. PYTHON=python3.12 chooses the Python. Quick when nothing has changed.
set -eu
cd -P "$(dirname "$0")/.."
extra=$1
say() { echo "set-up: $*"; }
stop() { echo "set-up stopped: $*" >&2; exit 1; }

fits='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))'
choose_python() {
    for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        "$name" -c "$fits" 2>/dev/null && echo "$name" && return
    done
    stop "Python 3.11 to 3.14 is needed and ${PYTHON:-python3} is not: install one, or add PYTHON=/path/to/python3."
}

missing() { # the system packages that grading and the tests need and that do not work here
    [ "$extra" = test ] && [ "$(uname)" = Linux ] || return 0
    bwrap --unshare-pid --unshare-net --ro-bind / / true 2>/dev/null || echo bubblewrap
    for browser in chromium chromium-browser google-chrome google-chrome-stable; do
        "$browser" --version >/dev/null 2>&1 && return # Ubuntu's may be a stub that asks for a snap
    done
    echo chromium
}

install_system_packages() { # where that is allowed
    [ $# -gt 0 ] && command -v apt-get >/dev/null || return 0
    sudo=
    [ "$(id -u)" = 0 ] || sudo="sudo -n"
    $sudo true 2>/dev/null || return 0
    say "installing $* with apt-get"
    $sudo apt-get update -qq >/dev/null 2>&1 || true # one dead source of many need not matter
    for package; do
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
            -o DPkg::Lock::Timeout=60 "$package" >/dev/null 2>&1 || true
    done
}

make_venv() {
    say "making .venv with $1"
    if command -v uv >/dev/null; then
        uv venv --quiet --seed --clear --python "$1" .venv
        return
    fi
    if ! "$1" -c 'import ensurepip, venv' 2>/dev/null; then # Debian has them in a package of its own
        package=$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
        install_system_packages "$package"
        "$1" -c 'import ensurepip, venv' 2>/dev/null || stop "Python's venv module is missing: install $package."
    fi
    "$1" -m venv --clear .venv
}

settings=jupyter/jupyter_server_config.d

install() {
    if command -v uv >/dev/null; then
        uv pip install --python .venv/bin/python --compile-bytecode -c constraints.txt -b constraints.txt -e ".[$extra]"
    else
        mkdir -p .venv/tmp # /tmp is often small, or in memory
        TMPDIR=$PWD/.venv/tmp PIP_CONSTRAINT=$PWD/constraints.txt PIP_USER=0 PIP_NO_INPUT=1 \
            .venv/bin/python -m pip install --disable-pip-version-check -e ".[$extra]"
    fi
}

exec 9<constraints.txt # one set-up of this folder at a time
if command -v flock >/dev/null && ! flock -n 9; then
    say "waiting for another set-up of this folder"
    flock 9
fi
unset PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
wanted=$(cat pyproject.toml constraints.txt tools/setup.sh | cksum)
usable=
if grep -qsF "$PWD/.venv" .venv/bin/activate && .venv/bin/python -c "$fits" 2>/dev/null; then usable=1; fi
if [ "$usable" ] && [ "$(cat ".venv/.ready-$extra" 2>/dev/null)" = "$wanted" ]; then
    say ".venv is up to date"
else
    install_system_packages $(missing)
    if [ ! "$usable" ]; then
        python=$(choose_python)
        make_venv "$python"
    fi
    say "installing: up to 3.2 GB to download and 6.5 GB on disk (macOS: 0.5 and 2 GB)"
    install || stop "see above. If .venv itself is damaged, 'rm -rf .venv' and the same command begin anew."
    mkdir -p ".venv/etc/$settings" # an editable installation leaves data files out
    cp "src/torchcourse/$settings/torchcourse.json" ".venv/etc/$settings"
    rm -rf .venv/tmp
    [ "$extra" = lab ] || echo "$wanted" >.venv/.ready-lab # what tests need holds what learners need
    echo "$wanted" >".venv/.ready-$extra"
    say ".venv is ready"
fi
for package in $(missing); do
    say "$package is missing or does not work here, and some tests are skipped: sudo apt-get install $package"
done
