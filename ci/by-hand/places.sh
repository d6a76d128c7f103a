# Sourced by `ci/arm64-by-hand`, behind `checks.sh`, `guests.sh` and `emulated.sh`, in $DIR: the two places where programs
# of another architecture run, with the same system, sources, programs and libraries in both.
#
# * `in_guest`: a machine that qemu emulates, with Debian's kernel: restartable sequences are aborted as on
#   a real one, and processes are traced. It makes a tenth of the calls a second.
# * `in_root`: the system's directory as root, on this machine's kernel, by `emulated.sh`.
#
# What runs is the script on standard input. What it says is in log/NAME, and both end with its code.

# What the guest's system has, without their maintainers' scripts: what runs is bash and what it calls.
PACKAGES='busybox-static bash coreutils grep sed gawk findutils diffutils procps util-linux strace
    libc-bin python3 perl-base gcc g++ libc6-dev tar gzip tmux ncurses-base ncurses-bin sqlite3'

# guest_system: unpacks it, once.
guest_system() {
    [ ! -e root/usr/bin/gcc ] || return 0
    local package directory
    apt_lists || return 1
    # shellcheck disable=SC2086 # Packages are words.
    apt apt-get -y --no-install-recommends --download-only install $PACKAGES || return 1
    mkdir -p root/usr/{bin,sbin,lib} root/{proc,sys,dev,tmp,run,root,w,r}
    for directory in bin sbin lib; do ln -sfn usr/$directory root/$directory; done
    for package in apt/cache/archives/*.deb; do dpkg-deb -x "$package" root || return 1; done
    ln -sf bash root/usr/bin/sh && ln -sf gcc root/usr/bin/cc && ln -sf g++ root/usr/bin/c++ && ln -sf gawk root/usr/bin/awk
}

# guest_kernel: the kernel as `vmlinuz.NAME`, and `initrd.NAME` with what mounts the shares.
guest_kernel() {
    [ ! -s "initrd.$KERNEL" ] || return 0
    local image module nth=10
    apt_lists && image=$(apt apt-cache depends "$KERNEL" | awk '/Depends:/ { print $2; exit }')
    rm -rf image initrd && mkdir -p image initrd/{bin,proc,sys,dev,new,modules}
    apt apt-get download "$image" && dpkg-deb -x "$image"_*.deb image || return 1
    for module in fs/netfs/netfs net/9p/9pnet net/9p/9pnet_virtio fs/9p/9p \
        drivers/block/virtio_blk lib/crc16 crypto/crc32c_generic lib/libcrc32c fs/mbcache fs/jbd2/jbd2 fs/ext4/ext4; do
        nth=$((nth + 1))
        xz -dc image/usr/lib/modules/*/kernel/$module.ko.xz >initrd/modules/$nth.ko || return 1
    done
    cp root/usr/bin/busybox initrd/bin
    cat >initrd/init <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t devtmpfs dev /dev
for module in /modules/*.ko; do insmod $module; done
share() { mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,$3 $1 $2; }
share system /new cache=loose && share work /new/w cache=none && share sources /new/r cache=loose
for place in proc sys dev; do mount --move /$place /new/$place; done
mkdir -p /new/dev/pts /new/dev/shm && mount -t devpts devpts /new/dev/pts
for place in tmp run dev/shm; do mount -t tmpfs tmp /new/$place; done
exec switch_root /new /w/init
INIT
    chmod +x initrd/init
    (cd initrd && find . | cpio -o -H newc --quiet | gzip -1) >"initrd.$KERNEL"
    cp image/boot/vmlinuz-* "vmlinuz.$KERNEL" && rm -r image initrd "$image"_*.deb
}

# begin NAME: work/NAME.begin, which puts all where the tests expect it, and runs the script.
begin() {
    cat >"work/$1.run"
    rm -f "work/$1".{code,said} "log/$1"
    cat >"work/$1.begin" <<BEGIN
export PATH=/usr/bin:/usr/sbin HOME=/root TMPDIR=/tmp LC_ALL=C.UTF-8
ulimit -c 0
mkdir -p "$BUILD/tmp" "$BUILD/$TARGET/"{tmp,release,tested/{deps,examples}}
cp -r /w/programs "$BUILD/tmp" && cp -r /w/programs "$BUILD/$TARGET/tmp"
cp /w/libs/* "$BUILD/$TARGET/release" && ln -s ../release/libslabyard_{malloc,engines,recorder}.so "$BUILD/$TARGET/tested"
cp /w/bins/* "$BUILD/$TARGET/tested"
# They ask cargo for the libraries, which are built.
ln -sf /usr/bin/true "$CARGO"
cd "$BUILD/$TARGET/tested/deps"
bash /w/$1.run >/w/$1.said 2>&1 </dev/null
echo \$? >/w/$1.code
BEGIN
}

# ended NAME: moves what it said to its log; true if it ended with 0.
ended() {
    mv "work/$1.said" "log/$1" 2>/dev/null
    [ "$(cat "work/$1.code" 2>/dev/null)" = 0 ]
}

# in_guest NAME CPUS SECONDS <SCRIPT
in_guest() {
    begin "$1"
    cat >work/init <<INIT
#!/bin/bash
export PATH=/usr/bin:/usr/sbin
busybox ifconfig lo up
mkdir -p "$ROOT" "$BUILD" "${CARGO%/*}" && busybox mount --bind /r "$ROOT" &&
    busybox mount -t ext4 /dev/vda "$BUILD" && bash /w/$1.begin
sync
busybox poweroff -f
INIT
    chmod +x work/init
    # A disk, as a real one has: a tmpfs takes the guest's memory, and keeps no names of files that do not exist.
    rm -f build.ext4 && truncate -s 8G build.ext4 && mkfs.ext4 -q build.ext4 || return 1
    share() { echo "-fsdev local,id=$1,path=$2,security_model=none -device virtio-9p-pci,fsdev=$1,mount_tag=$1"; }
    # shellcheck disable=SC2046 # Arguments are words.
    timeout -k 5 "$3" nice qemu-system-aarch64 -M virt,gic-version=3 -accel tcg,thread=multi \
        -cpu $PROCESSOR -smp "$2" -m 3G -display none -no-reboot -kernel "vmlinuz.$KERNEL" \
        -initrd "initrd.$KERNEL" -append "console=ttyAMA0 quiet panic=-1" -serial "file:log/$1.console" \
        -drive if=virtio,format=raw,cache=unsafe,file=build.ext4 \
        $(share system "$DIR/root") $(share work "$DIR/work") $(share sources "$ROOT") </dev/null
    ended "$1"
}

# in_root NAME SECONDS <SCRIPT
in_root() {
    begin "$1"
    in_namespaces 'set -e
        runs_by "$0" "$PWD/qemu"
        for place in proc sys dev; do mount --rbind /$place root/$place; done
        for place in tmp run; do mount -t tmpfs tmp root/$place; done
        mkdir -p "root$1" "root$2" "root$3"
        mount --bind "$1" root/r && mount --bind "$1" "root$1" && mount --bind work root/w && mount -t tmpfs build "root$2"
        exec nice timeout -k 5 $4 env -i QEMU_CPU="$5" "$(command -v chroot)" root /usr/bin/bash "/w/$6.begin"' \
        "$ARCH" "$ROOT" "$BUILD" "${CARGO%/*}" "$2" "$PROCESSOR" "$1"
    ended "$1"
}

# in_place NAME CPUS SECONDS <SCRIPT: in the place of $PLACE.
in_place() { if [ "$PLACE" = root ]; then in_root "$1" "$3"; else in_guest "$@"; fi; }
