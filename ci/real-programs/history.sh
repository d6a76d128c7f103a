# A repository with 60 commits: cloned, repacked, checked.
set -eu
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_PAGER=cat
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org
export GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org

git init -q -b main origin
cd origin
for ((n = 1; n <= 60; n++)); do
    mkdir -p "dir$((n % 7))"
    for ((k = 0; k < n; k++)); do echo "$n line $((k * n % 31))"; done >"dir$((n % 7))/file$((n % 23))"
    echo "$n" >>all
    git add -A
    GIT_AUTHOR_DATE="$((1600000000 + n)) +0000" GIT_COMMITTER_DATE="$((1600000000 + n)) +0000" \
        git commit -q -m "change $n"
done
git rev-parse HEAD
git branch side HEAD~15
git diff --stat HEAD~30 | tail -1
git log -p --stat | cksum
git blame all | cut -c 1-8 | sort -u | wc -l

cd ..
git clone -q --no-local origin copy
cd copy
git gc -q --aggressive --prune=now
git fsck --full --strict 2>&1
git count-objects -v | grep -E '^(count|in-pack|packs|garbage):'
git log --oneline --all | cksum
git grep -c 'line 7' HEAD~10 | cksum
