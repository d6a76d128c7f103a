# Sourced by the scripts by hand that boot kernels in qemu without hardware help, behind `checks.sh`:
# what they need, Debian's kernel, the files that a guest begins with, and its boot.

SLABYARD=${SLABYARD:-$CARGO_TARGET_DIR/release/slabyard}

# guests_need PROGRAM...: ends with code 2 if one of them, or of what every guest takes, is missing.
guests_need() {
    local program
    for program in busybox hackbench qemu-system-x86_64 cpio "$@"; do
        has "$program" || { echo "$program is not installed" >&2; exit 2; }
    done
    [ -x "$SLABYARD" ] || { echo "build the command first, or name it in SLABYARD" >&2; exit 2; }
}

# debian_kernel: that of this machine's Debian, as `vmlinuz`.
debian_kernel() {
    [ ! -e vmlinuz ] || return 0
    local image
    image=$(apt-cache depends linux-image-amd64 | awk '/Depends:/ { print $2; exit }')
    apt-get download -qq "$image" && dpkg-deb -x "$image"_*.deb image &&
        cp image/boot/vmlinuz-* vmlinuz && rm -r image "$image"_*.deb
}

# apt PROGRAM ARGUMENT...: with lists of packages of their own, in $DIR: of the suites $SUITES, for the
# architecture $ARCH.
ARCH=$(dpkg --print-architecture 2>/dev/null)
SUITES='bookworm trixie trixie-backports sid'
apt() {
    local program=$1
    shift
    "$program" -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$DIR/apt/sources" \
        -o Dir::State::lists="$DIR/apt/lists" -o Dir::State::status="$DIR/apt/status" \
        -o Dir::Cache="$DIR/apt/cache" -o APT::Architecture="$ARCH" -o APT::Architectures="$ARCH" \
        -o APT::Sandbox::User=root "$@"
}

# apt_lists: fetches these lists, once.
apt_lists() {
    [ ! -d "$DIR/apt/lists" ] || return 0
    local site=${SITE:-$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' |
        grep -v security | head -n 1)}
    mkdir -p "$DIR"/apt/{sources,lists/partial,cache/archives/partial}
    touch "$DIR/apt/status"
    cat >"$DIR/apt/sources/debian.sources" <<LIST
Types: deb
URIs: $site
Suites: $SUITES
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
LIST
    apt apt-get update || { rm -r "$DIR/apt"; return 1; }
}

# Before a guest's own script: process 1 mounts what there is; `send` gives the host what it reads, and
# ends the guest.
GUEST_BEGINS='#!/bin/busybox sh
/bin/busybox --install -s /bin 2>/dev/null
export PATH=/bin HOME=/tmp
send() {
    stty -F /dev/ttyS1 raw -onlcr -opost
    cat >/dev/ttyS1
    sleep 1
    poweroff -f
}
if [ $$ = 1 ]; then
    mount -t proc proc /proc
    mount -t sysfs sys /sys
    mount -t devtmpfs dev /dev 2>/dev/null
    mkdir -p /dev/pts && mount -t devpts devpts /dev/pts
    mount -t tmpfs tmp /tmp
    mount -t tracefs tracefs /sys/kernel/tracing
    mount -t debugfs debugfs /sys/kernel/debug
fi'

# initramfs [PROGRAM...] <SCRIPT: `initrd.gz` with busybox, hackbench, the command, these programs, and
# the script as init.
initramfs() {
    local program
    rm -rf root
    mkdir -p root/{bin,proc,sys,dev,tmp}
    { echo "$GUEST_BEGINS" && cat; } >root/init
    chmod +x root/init
    cp "$SLABYARD" root/bin/slabyard
    cp "$(command -v hackbench)" "$@" root/bin
    for program in root/bin/*; do
        ldd "$program" | grep -oE '/[^ ]+' | while read -r library; do
            mkdir -p "root$(dirname "$library")"
            cp -L "$library" "root$library"
        done
    done
    cp "$(command -v busybox)" root/bin
    (cd root && find . | cpio -o -H newc --quiet | gzip -1) >initrd.gz
    rm -r root
}

# guest CPUS MEMORY KERNEL LOG OUT [PARAMETER...]: boots it; what it sends is in OUT. `devices` has more
# arguments of qemu.
devices=()
guest() {
    timeout "${LIMIT_S:-600}" nice qemu-system-x86_64 -accel tcg,thread=multi -cpu max -M q35 \
        -smp "$1" -m "$2" -display none -no-reboot "${devices[@]}" -kernel "$3" -initrd initrd.gz \
        -append "console=ttyS0 quiet panic=-1 ${*:6}" -serial "file:$4" -serial "file:$5" </dev/null
}
