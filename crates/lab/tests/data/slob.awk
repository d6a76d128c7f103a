# Turns the text of a kernel's `kmem` trace (6.1, `no_hash_pointers`, x86-64) into the CSV that
# `slabyard_lab::trace::csv` reads. A cache's allocations carry their call site, because the kernel
# writes no name there; marks become comments on the standard error, with their time.
#   zcat slob-trace-64M.trace.gz | awk -v from=0.16 -f slob.awk | zstd -19 > slob_6.1.csv.zst
# Events before second `from` are left out: until then there is a gap of 6.6 ms
# without events, in which pages were filled.
function field(name,    at) {
    at = index($0, " " name "=")
    if (at == 0) return ""
    at = substr($0, at + length(name) + 2)
    sub(/ .*/, "", at)
    return at
}
BEGIN { print "t_us,cpu,pid,ev,cache_or_site,ptr,req,alloc,gfp,node,acct" }
!match($0, /[0-9]+\.[0-9]+: [a-z_]+: /) { next }
{
    split(substr($0, RSTART, RLENGTH), part, ": ")
    if (part[1] < from) next
    us = part[1] * 1000000
    if (begun == "") begun = us
    time = sprintf("%.1f,0,0", us - begun)
    what = part[2]
    ptr = substr(field("ptr"), 5)
    if (what == "tracing_mark_write") { print time, $NF > "/dev/stderr"; next }
    if ((what ~ /^k(malloc|free|mem_cache)/) && ptr ~ /^0*(10)?$/) next
    sizes = field("bytes_req") "," field("bytes_alloc") ",0,-1,0"
    if (what == "kmem_cache_alloc") print time ",A," field("call_site") "," ptr "," sizes
    if (what == "kmalloc") print time ",M," field("call_site") "," ptr "," sizes
    if (what == "kmem_cache_free") print time ",F," field("name") "," ptr ",,,,,"
    if (what == "kfree") print time ",K," field("call_site") "," ptr ",,,,,"
    page = "o" field("order") "," substr(field("pfn"), 3)
    if (what == "mm_page_alloc") print time ",P," page ",,,0,0,"
    if (what == "mm_page_free") print time ",Q," page ",,,,,"
}
