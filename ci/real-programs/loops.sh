# Loops, arrays, long strings, functions, subshells and pipes of one shell.
# Every child is a fork of it, so its heap is copied and used again and again.
set -eu

declare -a numbers=()
for ((i = 0; i < 6000; i++)); do numbers[i]=$((i * i % 9973)); done
sum=0
for n in "${numbers[@]}"; do sum=$((sum + n)); done
echo "sum $sum of ${#numbers[@]}"

declare -A seen=()
for n in "${numbers[@]}"; do seen[key$n]=${seen[key$n]:-}x; done
longest=
for key in "${!seen[@]}"; do
    [ ${#seen[$key]} -le ${#longest} ] || longest=${seen[$key]}
done
echo "${#seen[@]} keys, the longest value has ${#longest}"

text=
for ((i = 0; i < 2000; i++)); do text+="line $i of a text that grows; "; done
echo "${#text} characters, ${text:45000:30}"
text=${text//grows/shrinks}
echo "${#text} after a replacement"

factorial() {
    if (($1 < 2)); then echo 1; else echo $(($1 * $(factorial $(($1 - 1))))); fi
}
echo "20! = $(factorial 20)"

for ((i = 0; i < 60; i++)); do (numbers=("${numbers[@]:i:10}") && echo "${numbers[*]}"); done | cksum
for ((i = 0; i < 20; i++)); do (exit $i) & done
wait
while read -r word; do printf '%s.' "$word"; done < <(printf '%s\n' {a..z}{0..9})
echo
unset numbers seen text
eval "words=($(printf '%q ' {1..500}'$"x y'))"
echo "${#words[@]} ${words[499]}"
