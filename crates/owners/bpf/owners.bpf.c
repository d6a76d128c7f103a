// SPDX-License-Identifier: MIT OR GPL-2.0
// Who allocates what in the kernel's slab caches, counted in the kernel.
//
// Programs on the raw tracepoints `kmem_cache_alloc`, `kmem_cache_free`, `kmalloc` and `kfree` follow
// one allocation in 2^bits, by a random number: not by addresses, because a program that allocates and
// frees one object all the time has one address. A followed object counts 2^bits times, with the bits
// of the moment of its allocation, when it is allocated and when it is freed. What it is and who
// allocated it is counted in `origins`; while it lives it is in `live`, by its address, and `filter`
// has how many of `live` have a hash, so that most frees look no further. `look` is attached to
// nothing: the reader runs it with an address, and it copies what a directory entry, an inode or a
// cgroup says of itself.
//
// `crates/owners/src/bpf` loads this file's object, `owners.bpf.o`, and has the same structures.
// Offsets of the kernel's structures are put in at the start by the kernel's type information.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;

#define SECTION(name) __attribute__((section(name), used))
#define MAP SECTION(".maps")
#define KERNELS __attribute__((preserve_access_index))
#define INLINE static __attribute__((always_inline)) inline
#define UINT(name, value) int(*name)[value]

// Numbers of `enum bpf_map_type` and of helpers, which the kernel keeps.
enum { HASH = 1, ARRAY = 2, PER_CPU_ARRAY = 6, STACK_TRACE = 7 };
static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*now_ns)(void) = (void *)5;
static u32 (*random)(void) = (void *)7;
static u64 (*pid_tgid)(void) = (void *)14;
static long (*comm_of_current)(void *buffer, u32 size) = (void *)16;
static long (*stack_id)(void *context, void *map, u64 flags) = (void *)27;
static u64 (*current_task)(void) = (void *)35;
static u64 (*current_cgroup)(void) = (void *)80;
static long (*probe_read)(void *to, u32 size, const void *from) = (void *)113;
static long (*probe_read_str)(void *to, u32 size, const void *from) = (void *)115;
enum { IF_NONE = 1 };

// The kernel's structures, as far as they are read.
struct kmem_cache {
	const char *name;
	unsigned int object_size;
	unsigned int size;
} KERNELS;
struct kernfs_node {
	const char *name;
	u64 id;
} KERNELS;
struct cgroup {
	struct kernfs_node *kn;
} KERNELS;
struct cgroup_subsys_state {
	struct cgroup *cgroup;
} KERNELS;
struct css_set {
	struct cgroup_subsys_state *subsys[1];
} KERNELS;
struct task_struct {
	struct css_set *cgroups;
} KERNELS;
struct file_system_type {
	const char *name;
} KERNELS;
struct super_block {
	u32 s_dev;
	struct file_system_type *s_type;
	char s_id[32];
} KERNELS;
struct inode {
	struct super_block *i_sb;
} KERNELS;
struct qstr {
	const u8 *name;
} KERNELS;
struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	struct super_block *d_sb;
} KERNELS;

#define READ(to, base, field) probe_read(&(to), sizeof(to), &(base)->field)

// What the reader sets before the programs are loaded.
// Index of the argument that is the cache, or NONE; of `kmem_cache_alloc` and `kmem_cache_free`.
#define NONE 255
volatile const u32 alloc_cache = 2;
volatile const u32 free_cache = 2;
// Index of the allocated bytes and flags of `kmalloc`.
volatile const u32 kmalloc_bytes = 3;
volatile const u32 kmalloc_flags = 4;
// The memory controller's number, or NONE.
volatile const u32 memory_controller = NONE;
// The reader itself is left out.
volatile const u32 own_tgid = 0;
// Rates alone need no stacks: without them an origin is a site, a process and a cgroup.
volatile const u32 keep_stacks = 1;

// What the reader changes meanwhile.
struct control {
	// Bits of a random number that must be zero; 32 and more follow nothing.
	u32 bits;
	u32 unused;
};

// What a cache is; its allocations and frees, estimated. Where nobody tells the cache of a free, frees
// are those of followed objects.
struct cache {
	char name[32];
	u32 object_size;
	u32 size;
	u64 allocations;
	u64 frees;
};

// A cache is known by its address, which has the highest bit. A kmalloc whose cache the kernel does not
// tell is known by its bytes and in the bits from 32 by its family.
struct origin {
	u64 cache;
	u64 site;
	u64 cgroup;
	u32 tgid;
	s32 stack;
};

struct counts {
	u64 allocations;
	u64 bytes;
	u64 frees;
	u64 freed_bytes;
	char comm[16];
};

struct object {
	struct origin origin;
	u64 born_ns;
	u32 bytes;
	u32 bits;
};

// What was not counted, and why.
struct lost {
	u64 followed;
	u64 live_full;
	u64 origins_full;
	u64 stacks_lost;
};

struct cgroup_name {
	char name[64];
};

// What `look` copies: a directory entry with the names of its parents.
#define DEEPEST 12
struct looked {
	u64 inode;
	u64 parent;
	u32 device;
	u32 depth;
	u32 is_root;
	u32 unused;
	char id[32];
	char file_system[16];
	char names[DEEPEST][48];
};

struct {
	UINT(type, ARRAY);
	UINT(max_entries, 1);
	u32 *key;
	struct control *value;
} controls MAP;
struct {
	UINT(type, HASH);
	UINT(max_entries, 2048);
	u64 *key;
	struct cache *value;
} caches MAP;
struct {
	UINT(type, HASH);
	UINT(max_entries, 32768);
	struct origin *key;
	struct counts *value;
} origins MAP;
struct {
	UINT(type, HASH);
	UINT(max_entries, 131072);
	u64 *key;
	struct object *value;
} live MAP;
#define FILTER 262144
struct filter {
	u32 objects[FILTER];
};
struct {
	UINT(type, ARRAY);
	UINT(max_entries, 1);
	u32 *key;
	struct filter *value;
} filters MAP;
struct {
	UINT(type, HASH);
	UINT(max_entries, 4096);
	u64 *key;
	struct cgroup_name *value;
} cgroups MAP;
#define FRAMES 24
struct {
	UINT(type, STACK_TRACE);
	UINT(max_entries, 16384);
	u32 *key;
	UINT(value_size, FRAMES * 8);
} stacks MAP;
struct {
	UINT(type, PER_CPU_ARRAY);
	UINT(max_entries, 1);
	u32 *key;
	struct lost *value;
} losses MAP;
struct {
	UINT(type, ARRAY);
	UINT(max_entries, 1);
	u32 *key;
	struct looked *value;
} looks MAP;

INLINE void add(u64 *to, u64 more)
{
	__sync_fetch_and_add(to, more);
}

INLINE struct control *control(void)
{
	u32 first = 0;
	return map_lookup(&controls, &first);
}

INLINE struct lost *lost(void)
{
	u32 first = 0;
	return map_lookup(&losses, &first);
}

INLINE int is_sampled(u32 bits)
{
	return bits < 32 && (random() & ((1u << bits) - 1)) == 0;
}

// How many objects of `live` have the hash of this address. 2^64 divided by the golden ratio is the
// factor, and the high bits are taken (Knuth, The Art of Computer Programming, volume 3, 6.4).
INLINE u32 *filtered(u64 address)
{
	u32 first = 0;
	struct filter *filter = map_lookup(&filters, &first);
	u64 hash = ((address >> 3) * 0x9e3779b97f4a7c15ull) >> 46;
	return filter ? &filter->objects[hash & (FILTER - 1)] : 0;
}

// The verifier accepts a context's words at constant offsets only, which compilers would fold.
#define ARGUMENT(value, index) \
	asm volatile("%0 = *(u64 *)(%1 + %2)" : "=r"(value) : "r"(arguments), "i"((index) * 8))

// An argument whose index is known before the program is verified.
INLINE u64 argument(const u64 *arguments, u32 index)
{
	u64 value = 0;
	if (index == 2)
		ARGUMENT(value, 2);
	else if (index == 3)
		ARGUMENT(value, 3);
	else if (index == 4)
		ARGUMENT(value, 4);
	else if (index == 5)
		ARGUMENT(value, 5);
	return value;
}

// The cgroup whose memory a task's allocations are charged to; its name is kept.
INLINE u64 cgroup_of_current(void)
{
	struct task_struct *task = (void *)current_task();
	struct css_set *set = 0;
	struct cgroup_subsys_state *state = 0;
	struct cgroup *cgroup = 0;
	struct kernfs_node *node = 0;
	u64 id = 0;
	u32 controller = memory_controller;
	if (controller >= 64)
		return current_cgroup();
	READ(set, task, cgroups);
	const char *first = (const char *)__builtin_preserve_access_index(&set->subsys[0]);
	probe_read(&state, sizeof(state), first + controller * sizeof(state));
	READ(cgroup, state, cgroup);
	READ(node, cgroup, kn);
	READ(id, node, id);
	if (id && !map_lookup(&cgroups, &id)) {
		struct cgroup_name name = {};
		const char *from = 0;
		READ(from, node, name);
		probe_read_str(name.name, sizeof(name.name), from);
		map_update(&cgroups, &id, &name, IF_NONE);
	}
	return id;
}

INLINE struct cache *cache_entry(u64 number, struct kmem_cache *known)
{
	struct cache *entry = map_lookup(&caches, &number);
	if (entry)
		return entry;
	struct cache made = {};
	if (known) {
		const char *name = 0;
		READ(name, known, name);
		READ(made.object_size, known, object_size);
		READ(made.size, known, size);
		probe_read_str(made.name, sizeof(made.name), name);
	}
	map_update(&caches, &number, &made, IF_NONE);
	return map_lookup(&caches, &number);
}

// The cache of an object that was not allocated by the name of one: 0 if the kernel does not tell, or
// it is in none. The reader puts the number of the kernel's function `bpf_get_kmem_cache` (since 6.13)
// in the place of this one, or a 0 for the call: the loader knows no functions of the kernel.
#define CACHE_OF 0x7ffe0001
INLINE struct kmem_cache *cache_of(u64 address)
{
	struct kmem_cache *cache;
	asm volatile("r1 = %1\n\tcall %2\n\t%0 = r0"
		     : "=r"(cache)
		     : "r"(address), "i"(CACHE_OF)
		     : "r0", "r1", "r2", "r3", "r4", "r5", "memory");
	return cache;
}

INLINE int allocated(void *context, u64 site, u64 address, u64 number, struct kmem_cache *known, u32 bytes)
{
	struct control *set = control();
	struct lost *missed;
	if (!set || !address)
		return 0;
	u32 bits = set->bits;
	if (!is_sampled(bits))
		return 0;
	u64 scale = 1ull << (bits & 31);
	u32 tgid = pid_tgid() >> 32;
	if (tgid == own_tgid)
		return 0;
	missed = lost();
	if (!missed)
		return 0;
	missed->followed++;
	if (!known) {
		known = cache_of(address);
		if (known)
			number = (u64)known;
	}
	struct cache *cache = cache_entry(number, known);
	if (cache) {
		add(&cache->allocations, scale);
		if (!bytes)
			bytes = cache->size;
	}
	struct object object = {};
	object.origin.cache = number;
	object.origin.site = site;
	object.origin.tgid = tgid;
	object.origin.cgroup = cgroup_of_current();
	object.origin.stack = -1;
	if (keep_stacks) {
		s32 stack = stack_id(context, &stacks, 0);
		if (stack >= 0)
			object.origin.stack = stack;
		else
			missed->stacks_lost++;
	}
	object.born_ns = now_ns();
	object.bytes = bytes;
	object.bits = bits;
	struct counts *counts = map_lookup(&origins, &object.origin);
	if (!counts) {
		struct counts made = {};
		comm_of_current(made.comm, sizeof(made.comm));
		map_update(&origins, &object.origin, &made, IF_NONE);
		counts = map_lookup(&origins, &object.origin);
	}
	if (counts) {
		add(&counts->allocations, scale);
		add(&counts->bytes, bytes * scale);
	} else {
		missed->origins_full++;
	}
	// It is there already if its free was not seen.
	if (map_lookup(&live, &address)) {
		map_update(&live, &address, &object, 0);
		return 0;
	}
	u32 *filter = filtered(address);
	if (!filter)
		return 0;
	if (map_update(&live, &address, &object, IF_NONE))
		missed->live_full++;
	else
		__sync_fetch_and_add(filter, 1);
	return 0;
}

INLINE int freed(u64 address, struct kmem_cache *known)
{
	struct control *set = control();
	struct lost *missed;
	if (!set || !address)
		return 0;
	u32 bits = set->bits;
	if (is_sampled(bits)) {
		missed = lost();
		if (missed)
			missed->followed++;
		if (!known)
			known = cache_of(address);
		struct cache *cache = known ? cache_entry((u64)known, known) : 0;
		if (cache)
			add(&cache->frees, 1ull << (bits & 31));
	}
	u32 *filter = filtered(address);
	if (!filter || !*filter)
		return 0;
	struct object *object = map_lookup(&live, &address);
	if (!object)
		return 0;
	u64 scale = 1ull << (object->bits & 31);
	u64 number = object->origin.cache;
	struct cache *cache = number >> 63 ? 0 : map_lookup(&caches, &number);
	if (cache)
		add(&cache->frees, scale);
	struct counts *counts = map_lookup(&origins, &object->origin);
	if (counts) {
		add(&counts->frees, scale);
		add(&counts->freed_bytes, object->bytes * scale);
	}
	if (!map_delete(&live, &address))
		__sync_fetch_and_add(filter, -1);
	return 0;
}

SECTION("raw_tracepoint/kmem_cache_alloc")
int on_cache_alloc(u64 *arguments)
{
	u64 cache = argument(arguments, alloc_cache);
	return allocated(arguments, arguments[0], arguments[1], cache, (struct kmem_cache *)cache, 0);
}

// Flags of families of caches: for DMA, reclaimable, charged to a cgroup.
#define FAMILIES 0x400011ull

SECTION("raw_tracepoint/kmalloc")
int on_kmalloc(u64 *arguments)
{
	u32 bytes = argument(arguments, kmalloc_bytes);
	u64 flags = argument(arguments, kmalloc_flags);
	return allocated(arguments, arguments[0], arguments[1], bytes | (flags & FAMILIES) << 32, 0, bytes);
}

SECTION("raw_tracepoint/kmem_cache_free")
int on_cache_free(u64 *arguments)
{
	return freed(arguments[1], (struct kmem_cache *)argument(arguments, free_cache));
}

SECTION("raw_tracepoint/kfree")
int on_kfree(u64 *arguments)
{
	return freed(arguments[1], 0);
}

INLINE void look_at_file_system(struct looked *out, struct super_block *file_system)
{
	struct file_system_type *type = 0;
	const char *name = 0;
	READ(out->device, file_system, s_dev);
	probe_read_str(out->id, sizeof(out->id), file_system->s_id);
	READ(type, file_system, s_type);
	READ(name, type, name);
	probe_read_str(out->file_system, sizeof(out->file_system), name);
}

// `look(kind, address)`: 0 a directory entry, 1 an inode.
SECTION("raw_tracepoint/look")
int look(u64 *arguments)
{
	u32 first = 0;
	struct looked *out = map_lookup(&looks, &first);
	struct super_block *file_system = 0;
	if (!out)
		return 0;
	out->inode = out->parent = 0;
	out->device = out->depth = out->is_root = 0;
	out->id[0] = out->file_system[0] = 0;
	if (arguments[0] == 1) {
		struct inode *inode = (struct inode *)arguments[1];
		READ(file_system, inode, i_sb);
		look_at_file_system(out, file_system);
		return 1;
	}
	struct dentry *entry = (struct dentry *)arguments[1];
	READ(file_system, entry, d_sb);
	READ(out->inode, entry, d_inode);
	READ(out->parent, entry, d_parent);
	look_at_file_system(out, file_system);
#pragma unroll
	for (u32 depth = 0; depth < DEEPEST; depth++) {
		struct dentry *parent = 0;
		const u8 *name = 0;
		READ(parent, entry, d_parent);
		if (!parent || parent == entry) {
			out->is_root = 1;
			break;
		}
		READ(name, entry, d_name.name);
		probe_read_str(out->names[depth], sizeof(out->names[depth]), name);
		out->depth = depth + 1;
		entry = parent;
	}
	return 1;
}

char licence[] SECTION("license") = "Dual MIT/GPL";
