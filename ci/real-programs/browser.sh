# Chromium without a screen: the page's tree after its script ran, and a
# picture of it. $1 is the directory with the page, the others are options.
# The browser logs on standard error what does not concern the page.
set -eu
page=$1/page.html
shift
shot() {
    chromium --headless --disable-gpu --hide-scrollbars --window-size=800,900 --no-first-run \
        --disable-extensions --disable-background-networking --disable-component-update --disable-sync \
        --disable-dev-shm-usage --user-data-dir="$PWD/profile" --virtual-time-budget=5000 "$@" "file://$page" 2>>log
}
export HOME=$PWD XDG_CONFIG_HOME=$PWD/config XDG_CACHE_HOME=$PWD/cache
shot "$@" --dump-dom >dom
grep -o 'sum [0-9]*, .* characters' dom
sed 's/file:[^"]*//' dom | cksum
shot "$@" --screenshot="$PWD/page.png"
cksum <page.png
