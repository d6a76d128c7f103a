# What small kernels told of their memory, a line for each moment, of the logs of `ci/small-kernels`:
#   awk -f ci/small/told.awk DIR/slob-16.log DIR/slab-16.log ...
# Columns: the log's name, the moment; pages: managed, free, of slabs, of reclaimable slabs; free
# blocks of order 0 to 10.
FNR == 1 { name = FILENAME; sub(/.*\//, "", name); sub(/\.log$/, "", name); moment = "" }
/^=== (end|END)/ {
    if (moment != "") print name, moment, managed, free, slab, reclaimable buddy
    moment = ""
}
/^=== / && $NF != "end" && $2 != "END" {
    moment = tolower($NF)
    sub(/^load-/, "", moment)
    sub(/^boot$/, "booted", moment)
    buddy = ""
}
/^MemTotal:/ { managed = $2 / 4 }
/^MemFree:/ { free = $2 / 4 }
/^Slab:/ { slab = $2 / 4 }
/^SReclaimable:/ { reclaimable = $2 / 4 }
/^Node 0, zone +DMA32 / && NF == 15 && buddy == "" { for (n = 5; n <= 15; n++) buddy = buddy " " $n }
