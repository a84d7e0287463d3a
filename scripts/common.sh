# Shared by the scripts: what the project needs from Debian, how to ask for it, how to build. Sourced, never run.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

# The compiler cache knows a file again in another clone of the project.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

# package, or package:command where having the command is enough, however it got here.
# shellcheck disable=SC2034  # for those who source this
build_needs=(g++:g++ cmake:cmake ninja-build:ninja pkg-config:pkg-config libfmt-dev libspdlog-dev
  libcli11-dev nlohmann-json3-dev libpcre2-dev libutf8proc-dev libxxhash-dev libboost1.81-dev libssl-dev
  libedit-dev prometheus-cpp-dev libvulkan-dev glslc:glslc)
# What the tests of the Vulkan backend run on where there is no GPU.
# shellcheck disable=SC2034
vulkan_needs=(libvulkan1 mesa-vulkan-drivers vulkan-validationlayers spirv-cross:spirv-cross)

# say TEXT...: one line for the person, on stderr: stdout belongs to results.
say() { printf '%s\n' "$*" >&2; }

die() {
  say "error: $*"
  exit 1
}

# missing_packages NEED...: the packages among NEEDs that are not here, one a line.
missing_packages() {
  local need package wanted=()
  for need in "$@"; do
    package=${need%%:*}
    if [[ $need == *:* ]]; then
      command -v "${need#*:}" >/dev/null || printf '%s\n' "$package"
    else
      wanted+=("$package")
    fi
  done
  # Without dpkg nothing can be said about libraries; CMake names those it does not find.
  if ((${#wanted[@]})) && command -v dpkg-query >/dev/null; then
    local installed
    # shellcheck disable=SC2016  # the braces are dpkg's
    installed=$({ dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null || true; } |
      sed -n 's/^installed //p')
    printf '%s\n' "${wanted[@]}" | grep -vxF "$installed" || true
  fi
}

# ensure_packages NEED...: installs what is missing; says what to run if it may not.
ensure_packages() {
  local missing as_root=()
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null ||
    die "these Debian packages are missing: ${missing[*]}; install what they are called on this system"
  if ((EUID != 0)); then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
      as_root=(sudo)
    else
      die "these packages are missing, and installing them needs root; run:
  sudo apt-get update && sudo apt-get install -y ${missing[*]}"
    fi
  fi
  say "installing ${#missing[@]} packages: ${missing[*]}"
  # A stale or unreachable source need not matter: whether the packages can be had shows in the next line.
  quietly "apt-get update" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=120 update || true
  quietly "apt-get install" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=120 install -y --no-install-recommends "${missing[@]}" ||
    die "the packages above could not be installed"
}

# quietly WHAT COMMAND...: shows the command's output only if it fails, then its end.
quietly() {
  local what=$1 output status=0
  shift
  output=$(mktemp)
  "$@" >"$output" 2>&1 </dev/null || status=$?
  if ((status)); then
    say "$what failed (exit code $status):"
    tail -n 60 "$output" >&2
  fi
  rm -f "$output"
  return "$status"
}

# job_count: compilers to run at once: allowed cores, cut by the container's quota, a gigabyte of memory each.
job_count() {
  local count quota period kilobytes limit
  count=$(nproc)
  if read -r quota period 2>/dev/null </sys/fs/cgroup/cpu.max && [[ $quota != max ]]; then
    quota=$(((quota + period - 1) / period))
    ((quota < count)) && count=$quota
  fi
  kilobytes=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null || true)
  if read -r limit 2>/dev/null </sys/fs/cgroup/memory.max && [[ $limit != max ]]; then
    ((limit / 1024 < ${kilobytes:-0})) && kilobytes=$((limit / 1024))
  fi
  if [[ -n $kilobytes ]] && ((kilobytes / 1000000 < count)); then count=$((kilobytes / 1000000)); fi
  ((count < 1)) && count=1
  echo "$count"
}

# configure PRESET [OPTION...]: CMake, unless the build folder is ready. One that was made for another place is
# made anew.
configure() {
  local preset=$1 folder=$root/build/$1 fresh=()
  shift
  if [[ -f $folder/CMakeCache.txt ]] &&
    ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$folder/CMakeCache.txt"; then
    fresh=(--fresh)
  elif [[ -f $folder/build.ninja ]] && (($# == 0)); then
    return 0
  fi
  quietly "configuring build/$preset" cmake -S "$root" --preset "$preset" "${fresh[@]}" "$@"
}

# What programs that are built are started with: building runs test programs to list their cases.
launcher=()

# build PRESET [TARGET...]: builds, showing how far it is; the compiler's output only if it fails.
build() {
  local preset=$1 output targets=()
  shift
  (($# == 0)) || targets=(--target "$@")
  output=$(mktemp)
  if NINJA_STATUS='[%f/%t] ' "${launcher[@]}" cmake --build "$root/build/$preset" --parallel "$(job_count)" "${targets[@]}" \
    2>&1 </dev/null | tee "$output" | show_progress "building build/$preset"; then
    rm -f "$output"
    return 0
  fi
  say "building build/$preset failed:"
  grep -v '^\[[0-9]*/[0-9]*\]' "$output" | tail -n 80 >&2
  rm -f "$output"
  return 1
}

# show_progress WHAT: reads ninja's output; one line that is drawn over itself on a terminal, else every quarter.
show_progress() {
  local line finished total quarter=0 drawn=0
  while IFS= read -r line; do
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    finished=${BASH_REMATCH[1]} total=${BASH_REMATCH[2]}
    if [[ -t 2 ]]; then
      printf '\r\033[K%s: %d of %d' "$1" "$finished" "$total" >&2
      drawn=1
    elif ((finished * 4 / total > quarter)); then
      quarter=$((finished * 4 / total))
      say "$1: $finished of $total"
    fi
  done
  if ((drawn)); then printf '\r\033[K' >&2; fi
}
