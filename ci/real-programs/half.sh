# Frees every second string, so that many slabs have free objects at once, and makes others.
for ((i = 0; i < 6000; i++)); do first[i]=string$i; done
for ((i = 0; i < 6000; i += 2)); do unset "first[i]"; done
for ((i = 0; i < 6000; i++)); do second[i]=other$i; done
