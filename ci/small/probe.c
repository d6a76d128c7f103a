// Tells what a kernel's slab allocator is asked from its first moment on, without taking memory.
//
// `ci/small-kernels` appends this file to mm/slub.c, mm/slab.c or mm/slob.c, and calls
// slabyard_begin behind kmem_cache_init. A line for each event goes out by qemu's debug port, so
// no buffer of a trace takes pages that the allocator is measured on. The first process names
// itself `@MOMENT` at each moment; then the state is told: free blocks in the order of their lists,
// lists of pages on CPUs, caches, slabs. What SLAB does by timers, and when its arrays get their
// whole size, is told where `ci/small-kernels` calls slabyard_reap and slabyard_arrays.
//
// The time of an event is its number, in microseconds: the same boot tells the same text.
#include <linux/io.h>
#include <linux/version.h>
#include <trace/events/task.h>

#define SLABYARD_PORT 0xe9
// Points that slabyard_begin registers at.
#define SLABYARD_POINTS 7

static unsigned long slabyard_nr;

static void slabyard_say(const char *format, ...)
{
	char line[256];
	va_list args;
	int length;

	va_start(args, format);
	length = vscnprintf(line, sizeof(line), format, args);
	va_end(args);
	outsb(SLABYARD_PORT, line, length);
}

#define slabyard_event(format, ...) do {						\
	unsigned long state;								\
	local_irq_save(state);								\
	slabyard_nr++;									\
	slabyard_say("[0] %lu.%06lu: " format "\n", slabyard_nr / 1000000,		\
		     slabyard_nr % 1000000, ##__VA_ARGS__);				\
	local_irq_restore(state);							\
} while (0)

static const char *slabyard_kind(gfp_t flags)
{
	return flags & __GFP_RECLAIMABLE ? "__GFP_RECLAIMABLE" : "none";
}

static void slabyard_kmalloc(void *data, unsigned long site, const void *at, size_t req,
			     size_t alloc, gfp_t flags, int node)
{
	if (at)
		slabyard_event("kmalloc: ptr=%lx bytes_req=%zu bytes_alloc=%zu gfp_flags=%s",
			       (unsigned long)at, req, alloc, slabyard_kind(flags));
}

static void slabyard_kfree(void *data, unsigned long site, const void *at)
{
	if (!ZERO_OR_NULL_PTR(at))
		slabyard_event("kfree: ptr=%lx", (unsigned long)at);
}

static void slabyard_alloc(void *data, unsigned long site, const void *at, struct kmem_cache *s,
			   gfp_t flags, int node)
{
	if (at)
		slabyard_event("kmem_cache_alloc: ptr=%lx bytes_req=%u bytes_alloc=%u name=%s gfp_flags=%s",
			       (unsigned long)at, s->object_size, s->size, s->name,
			       slabyard_kind(flags));
}

static void slabyard_free(void *data, unsigned long site, const void *at,
			  const struct kmem_cache *s)
{
	// SLOB waits for readers first, and tells then.
	if (!IS_ENABLED(CONFIG_SLOB) || !(s->flags & SLAB_TYPESAFE_BY_RCU))
		slabyard_event("kmem_cache_free: ptr=%lx name=%s", (unsigned long)at, s->name);
}

void slabyard_reap(const char *name, const char *part)
{
	slabyard_event("reap: part=%s name=%s", part, name);
}

void slabyard_arrays(void)
{
	slabyard_event("arrays: whole");
}

// Limits of the lists of pages on a CPU change while the kernel boots; they are told when they do.
static void slabyard_limits(void)
{
	static int least, most, batch;
	struct per_cpu_pages *pages;
	struct zone *zone;

	for_each_populated_zone(zone) {
		int high_min, high_max;

		pages = this_cpu_ptr(zone->per_cpu_pageset);
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
		high_min = high_max = pages->high;
#else
		high_min = pages->high_min;
		high_max = pages->high_max;
#endif
		if (high_min == least && high_max == most && pages->batch == batch)
			continue;
		least = high_min;
		most = high_max;
		batch = pages->batch;
		slabyard_event("cpu_pages: high=%d most=%d batch=%d", least, most, batch);
	}
}

static void slabyard_page(void *data, struct page *page, unsigned int order, gfp_t flags, int type)
{
	slabyard_limits();
	if (page)
		slabyard_event("mm_page_alloc: pfn=0x%lx order=%u migratetype=%d",
			       page_to_pfn(page), order, type);
}

static void slabyard_page_free(void *data, struct page *page, unsigned int order)
{
	slabyard_limits();
	slabyard_event("mm_page_free: pfn=0x%lx order=%u", page_to_pfn(page), order);
}

// Free objects of a slab that a CPU has for itself, so that they count as used.
static unsigned int slabyard_on_cpus(struct kmem_cache *s, struct slab *slab)
{
	unsigned int found = 0;
#if defined(CONFIG_SLUB) && !defined(CONFIG_SLUB_TINY)
	int cpu;

	for_each_online_cpu(cpu) {
		struct kmem_cache_cpu *c = per_cpu_ptr(s->cpu_slab, cpu);
		void *at = c->slab == slab ? c->freelist : NULL;

		for (; at; at = get_freepointer(s, at))
			found++;
	}
#elif defined(CONFIG_SLAB)
	int cpu;

	for_each_online_cpu(cpu) {
		struct array_cache *array = s->cpu_cache ? per_cpu_ptr(s->cpu_cache, cpu) : NULL;
		unsigned int n;

		for (n = 0; array && n < array->avail; n++)
			found += virt_to_slab(array->entry[n]) == slab;
	}
#endif
	return found;
}

static void slabyard_slabs(void)
{
	unsigned long pfn, next;

	for (pfn = 0; pfn < max_pfn; pfn = next) {
		struct folio *folio;
		struct slab *slab;

		next = pfn + 1;
		if (!pfn_valid(pfn) || PageReserved(pfn_to_page(pfn)))
			continue;
		folio = page_folio(pfn_to_page(pfn));
		if (!folio_test_slab(folio))
			continue;
		next = pfn + (1UL << folio_order(folio));
		slab = folio_slab(folio);
#if defined(CONFIG_SLOB)
		slabyard_say("slab: pfn=0x%lx free_units=%ld\n", pfn, slab->units);
#elif defined(CONFIG_SLAB)
		slabyard_say("slab: pfn=0x%lx order=%u name=%s objects=%u live=%u\n", pfn,
			     folio_order(folio), slab->slab_cache->name, slab->slab_cache->num,
			     slab->active - slabyard_on_cpus(slab->slab_cache, slab));
#else
		slabyard_say("slab: pfn=0x%lx order=%u name=%s objects=%u live=%u\n", pfn,
			     folio_order(folio), slab->slab_cache->name, slab->objects,
			     slab->inuse - slabyard_on_cpus(slab->slab_cache, slab));
#endif
	}
}

static void slabyard_zone(struct zone *zone)
{
	struct page *page;
	unsigned long pfn;
	int cpu, n, type;

	slabyard_say("zone: name=%s managed=%lu free=%lu grouped=%d start=0x%lx end=0x%lx\n", zone->name,
		     zone_managed_pages(zone), zone_page_state(zone, NR_FREE_PAGES),
		     !page_group_by_mobility_disabled, zone->zone_start_pfn, zone_end_pfn(zone));
	for (pfn = zone->zone_start_pfn; pfn < zone_end_pfn(zone);
	     pfn = ALIGN(pfn + 1, pageblock_nr_pages))
		if (pfn_valid(pfn))
			slabyard_say("pageblock: pfn=0x%lx order=%d type=%d\n", pfn, pageblock_order,
				     get_pageblock_migratetype(pfn_to_page(pfn)));
	for (n = 0; n < ARRAY_SIZE(zone->free_area); n++)
		for (type = 0; type < MIGRATE_TYPES; type++)
			list_for_each_entry(page, &zone->free_area[n].free_list[type], lru)
				slabyard_say("block: order=%d type=%d pfn=0x%lx\n", n, type,
					     page_to_pfn(page));
	for_each_online_cpu(cpu) {
		struct per_cpu_pages *pages = per_cpu_ptr(zone->per_cpu_pageset, cpu);

		slabyard_say("pcp: cpu=%d count=%d high=%d batch=%d\n", cpu, pages->count,
			     pages->high, pages->batch);
		for (n = 0; n < NR_PCP_LISTS; n++)
			list_for_each_entry(page, &pages->lists[n], lru)
				slabyard_say("kept: cpu=%d list=%d pfn=0x%lx\n", cpu, n,
					     page_to_pfn(page));
	}
}

static void slabyard_state(const char *moment)
{
	struct kmem_cache *s;
	struct zone *zone;
	unsigned long state;

	slabyard_event("tracing_mark_write: %s", moment);
	local_irq_save(state);
	slabyard_say("=== %s\n", moment);
	for_each_populated_zone(zone)
		slabyard_zone(zone);
	slabyard_say("pages: slab=%lu reclaimable=%lu\n",
		     global_node_page_state_pages(NR_SLAB_UNRECLAIMABLE_B) +
		     global_node_page_state_pages(NR_SLAB_RECLAIMABLE_B),
		     global_node_page_state_pages(NR_SLAB_RECLAIMABLE_B));
	list_for_each_entry(s, &slab_caches, list)
		slabyard_say("cache: name=%s object_size=%u size=%u align=%u kept=%d reclaimable=%d readers=%d\n",
			     s->name, s->object_size, s->size, s->align,
			     s->ctor || s->flags & SLAB_TYPESAFE_BY_RCU,
			     !!(s->flags & SLAB_RECLAIM_ACCOUNT),
			     !!(s->flags & SLAB_TYPESAFE_BY_RCU));
	slabyard_slabs();
	// SLOB counts no objects: at the begin those that registering took are all.
	if (IS_ENABLED(CONFIG_SLOB) && !strcmp(moment, "BEGIN"))
		slabyard_say("live: bytes=%zu count=%d\n",
			     sizeof(struct rcu_head) + 2 * sizeof(struct tracepoint_func),
			     SLABYARD_POINTS);
	slabyard_say("=== end\n");
	local_irq_restore(state);
}

static void slabyard_rename(void *data, struct task_struct *task, const char *name)
{
	if (name[0] == '@')
		slabyard_state(name + 1);
}

void __init slabyard_begin(void)
{
	if (register_trace_kmalloc(slabyard_kmalloc, NULL) ||
	    register_trace_kfree(slabyard_kfree, NULL) ||
	    register_trace_kmem_cache_alloc(slabyard_alloc, NULL) ||
	    register_trace_kmem_cache_free(slabyard_free, NULL) ||
	    register_trace_mm_page_alloc(slabyard_page, NULL) ||
	    register_trace_mm_page_free(slabyard_page_free, NULL) ||
	    register_trace_task_rename(slabyard_rename, NULL))
		panic("slabyard: no events");
	slabyard_state("BEGIN");
}
