# Makes, finds, sorts, packs and unpacks files.
set -eu
mkdir tree
for ((d = 0; d < 20; d++)); do
    mkdir -p "tree/d$d/deep/er"
    for ((f = 0; f < 10; f++)); do echo "$d $f" >"tree/d$d/deep/er/f$f"; done
done
awk 'BEGIN { srand(1); for (n = 0; n < 60000; n++) { s = (s * 69069 + 1) % 2147483648; printf "%d %c %s\n", s % 99991, 97 + s % 26, s } }' >tree/numbers
find tree -type f -name 'f[0-4]' -printf '%p %s\n' | sort | cksum
find tree -type f -print0 | sort -z | xargs -0 -n 5 cksum | cksum
sort --parallel=4 -S 4M -k2,2 -k1,1nr tree/numbers | cksum
sort -n tree/numbers | uniq | cut -d ' ' -f 2 | sort | uniq -c
awk '{ n[$2] += $1; word[$1] = word[$1] $2 } END { for (k in n) s += n[k]; for (k in word) l += length(word[k]); print s, l }' tree/numbers
sed -E 's/([0-9])([0-9]+) ([a-m])/\3\2\1/' tree/numbers | tr a-z A-Z | tac | head -n 40000 | cksum
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf tree.tar tree
cksum <tree.tar
gzip -n -9 <tree.tar >tree.tar.gz
cksum <tree.tar.gz
mkdir out
tar -xzf tree.tar.gz -C out
diff -r tree out/tree && echo same
cp -r tree again && rm -r tree && ls -R again | cksum
