# Compiles a C and a C++ program, three ways, and runs them.
# The object code is compared too: a compiler with a broken heap may still end.
# $1 is the directory with the sources; they are copied, so that no path that
# the compilers put into their output tells where this runs.
set -eu
cp "$1/queue.c" "$1/words.cc" .
${CC:-gcc} -O2 -Wall -c queue.c
${CC:-gcc} -O0 -g -pthread queue.c -o queue
cksum queue.o
./queue
command -v "${CXX:-g++}" >/dev/null || exit 0
${CXX:-g++} -std=c++17 -O0 -c words.cc
cksum words.o
${CXX:-g++} -pthread words.o -o words
./words
