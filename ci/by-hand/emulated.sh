# Sourced by scripts by hand that run programs of another architecture on this machine's kernel: qemu emulates
# each process alone, in a namespace of users in which the kernel starts it for such programs. The rest of
# the machine knows nothing of it. Such a process has no restartable sequences, and none can trace it.

# Debian's name of an architecture, qemu's, and what the kernel knows its programs by.
emulated_architectures='
arm64   aarch64 \xb7
riscv64 riscv64 \xf3'

# emulator ARCHITECTURE FILE: qemu, linked statically, because it runs where nothing of this machine is.
emulator() {
    [ ! -x "$2" ] || return 0
    local name unpacked
    name=$(awk -v a="$1" '$1 == a { print $2 }' <<<"$emulated_architectures")
    unpacked=$(mktemp -d) && (cd "$unpacked" && apt-get download -qq qemu-user-static 2>/dev/null && dpkg-deb -x qemu-user-static_*.deb .) &&
        mv "$unpacked/usr/bin/qemu-$name-static" "$2" && rm -r "$unpacked"
}

# runs_by ARCHITECTURE QEMU: within the namespaces: from now on programs of it run by this qemu.
runs_by() {
    local machine
    machine=$(awk -v a="$1" '$1 == a { print $3 }' <<<"$emulated_architectures")
    mount -t binfmt_misc none /proc/sys/fs/binfmt_misc &&
        printf '%s' ":$1:M::\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00$machine\\x00:\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff:$2:F" \
            >/proc/sys/fs/binfmt_misc/register
}

# in_namespaces SCRIPT ARGUMENT...: of users, all of whom are mapped, mounts and processes. The script, of
# this bash, may call `runs_by`.
in_namespaces() {
    local go fifo unshared
    go=$(mktemp -u) && mkfifo "$go" || return 1
    # Nobody reads it where the namespaces are refused, and who opens it to write alone would wait.
    exec {fifo}<>"$go"
    # Only who has users anew by an exec may mount.
    unshare --user --mount --pid --fork --kill-child bash -c 'read -r <"$0"; exec bash -c "$@"' "$go" \
        "emulated_architectures='$emulated_architectures'
        $(declare -f runs_by)
        mount -t proc proc /proc || exit
        $1" "${@:2}" &
    unshared=$!
    until [ "$(readlink "/proc/$unshared/ns/user")" != "$(readlink /proc/self/ns/user)" ]; do sleep 0.1; done
    echo '0 0 4294967295' >"/proc/$unshared/uid_map" && echo '0 0 4294967295' >"/proc/$unshared/gid_map"
    echo go >&$fifo
    rm "$go"
    wait $unshared
    local code=$?
    exec {fifo}>&-
    return $code
}
