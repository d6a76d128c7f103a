#!/bin/sh
# Installs Slabyard from an unpacked release, and removes it again. Nothing needs to be installed: in
# the unpacked folder `bin/slabyard` works, too.
#   ./install [--prefix DIR] [--destdir DIR]   into DIR: /usr/local if it is not said
#   ./install --uninstall [--prefix DIR] [--destdir DIR]
# A file is put in place as a whole, so that programs that run on the old library keep it.
set -eu
prefix=/usr/local destdir='' uninstall=''
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) prefix=${2:?--prefix takes a folder} && shift 2 ;;
        --destdir) destdir=${2:?--destdir takes a folder} && shift 2 ;;
        --uninstall) uninstall=1 && shift ;;
        *) echo "usage: ./install [--uninstall] [--prefix DIR] [--destdir DIR]" >&2 && exit 2 ;;
    esac
done
case $prefix in
    /*) ;;
    *) prefix=$PWD/$prefix ;;
esac
case $prefix in
    *[[:space:]:,]*)
        echo "$prefix: the loader cannot preload from a folder with a space, colon or comma in its name" >&2
        exit 2
        ;;
esac
to=$destdir$prefix
list=share/slabyard/installed.txt

if [ -n "$uninstall" ]; then
    [ -f "$to/$list" ] || { echo "$to/$list is not there: nothing to remove" >&2; exit 3; }
    # Files first, then the folders that the installation made, the deepest first.
    folders=$(sed -n 's,/$,,p' "$to/$list" | LC_ALL=C sort -r)
    grep -v '/$' "$to/$list" | while IFS= read -r file; do rm -f "$to/$file"; done
    rm -f "$to/$list"
    for folder in $folders; do rmdir "$to/$folder" 2>/dev/null || :; done
    echo "removed Slabyard from $to"
    exit
fi

# made FOLDER: makes it, and prints each folder below the prefix that was not there.
made() {
    [ ! -d "$to/$1" ] || return 0
    case $1 in
        */*) made "${1%/*}" ;;
    esac
    mkdir "$to/$1"
    echo "$1/"
}

cd "$(dirname "$0")"
mkdir -p "$to"
fresh=$(mktemp)
trap 'rm -f "$fresh" "$fresh.folders"' EXIT
# shellcheck disable=SC2046 # Names.
find $(ls -d bin include lib share 2>/dev/null) \( -type f -o -type l \) | LC_ALL=C sort >"$fresh"
{
    [ ! -f "$to/$list" ] || grep '/$' "$to/$list" || :
    made share/slabyard
    sed 's,/[^/]*$,,' "$fresh" | sort -u | while IFS= read -r folder; do made "$folder"; done
} >"$fresh.folders"
# Files of the version before that this one has not.
if [ -f "$to/$list" ]; then
    grep -v '/$' "$to/$list" | while IFS= read -r file; do
        grep -qxF -- "$file" "$fresh" || rm -f "$to/$file"
    done
fi
while IFS= read -r file; do
    rm -f "$to/$file.new"
    case $file in
        *.pc) sed "s,^prefix=.*,prefix=$prefix," "$file" >"$to/$file.new" ;;
        *) cp -P "$file" "$to/$file.new" ;;
    esac
    mv -f "$to/$file.new" "$to/$file"
done <"$fresh"
cat "$fresh" "$fresh.folders" >"$to/$list.new"
mv -f "$to/$list.new" "$to/$list"
[ -n "$destdir" ] || [ "$(id -u)" != 0 ] || ldconfig 2>/dev/null || :
echo "installed Slabyard in $to"
