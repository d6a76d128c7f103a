//! Decodes the bytes of a `kmem` event into an [`Event`].
//!
//! [`super::layout`] supplies the fields' offsets; [`super::reader`] calls the decoder. Failed
//! allocations, frees of a null pointer and failed page allocations yield no events, because they
//! changed nothing.

use super::error::Error;
use super::layout::{Field, Format};
use super::probes::Probes;
use super::tracefs::TraceInstance;
use crate::event::{ANY_NODE, Event, EventKind};
use crate::trace::{NO_NAME, unnamed};
use slabyard_observe::kernel::Symbols;
use std::collections::HashMap;

/// The events that are recorded. Kernels before 6.1 have two for allocations, later ones have
/// not those [for a node](is_optional).
pub const EVENTS: [(&str, EventKind); 8] = [
    ("kmem_cache_alloc", EventKind::CacheAlloc),
    ("kmem_cache_alloc_node", EventKind::CacheAlloc),
    ("kmem_cache_free", EventKind::CacheFree),
    ("kmalloc", EventKind::Kmalloc),
    ("kmalloc_node", EventKind::Kmalloc),
    ("kfree", EventKind::Kfree),
    ("mm_page_alloc", EventKind::PageAlloc),
    ("mm_page_free", EventKind::PageFree),
];
/// `__GFP_MOVABLE`: no slab is in such pages (`include/linux/gfp_types.h`).
pub const MOVABLE: u32 = 0x8;
/// `__GFP_ACCOUNT`: where `kmalloc` does not tell by itself.
const ACCOUNT: u32 = 0x40_0000;
/// Addresses of objects: as a trace holds them.
const ADDRESS: u64 = (1 << 48) - 1;
/// No object is below: `kfree(NULL)` and `kfree(ZERO_SIZE_PTR)` are traced as well.
const LOWEST_ADDRESS: u64 = 4096;
/// Slots of the tables of names met lately.
const NAME_CACHE_SLOTS: usize = 1 << 10;

/// The layouts of the events, by the numbers that they begin with.
#[derive(Clone, Debug)]
pub struct Layouts {
    /// In the order of [`EVENTS`].
    layouts: Vec<(u16, Layout)>,
}

#[derive(Clone, Copy, Debug)]
struct Layout {
    kind: EventKind,
    pid: Field,
    /// Of an object, or of a page.
    address: Field,
    /// Of the cache, or the call site.
    name: Field,
    /// In an allocation that names its cache.
    site: Option<Field>,
    /// An allocation event of a kernel that has the call site only.
    unnamed: bool,
    requested: Option<Field>,
    allocated: Option<Field>,
    gfp: Option<Field>,
    node: Option<Field>,
    accounted: Option<Field>,
    order: Option<Field>,
}

impl Layouts {
    /// As the kernel that runs describes them.
    ///
    /// # Errors
    /// An event that is not there, or does not tell enough.
    pub fn of(instance: &TraceInstance, probes: &Probes) -> Result<Layouts, Error> {
        let mut texts = HashMap::new();
        for (event, _) in EVENTS {
            let file = format!("events/kmem/{event}/format");
            if instance.join(&file).exists() || !is_optional(event) {
                texts.insert(event, instance.read(&file)?);
            }
        }
        let mut layouts = Layouts::of_texts(|event| texts.get(event).cloned())?;
        for (file, event, kind) in &probes.events {
            layouts.add(event, *kind, &instance.read(&format!("{file}/format"))?)?;
        }
        Ok(layouts)
    }

    /// For the events whose `format` file exists.
    ///
    /// # Errors
    /// One that does not tell enough.
    pub fn of_texts(text: impl Fn(&str) -> Option<String>) -> Result<Layouts, Error> {
        let mut layouts = Layouts { layouts: Vec::new() };
        for (event, kind) in EVENTS {
            if let Some(text) = text(event) {
                layouts.add(event, kind, &text)?;
            }
        }
        Ok(layouts)
    }

    fn add(&mut self, event: &'static str, kind: EventKind, text: &str) -> Result<(), Error> {
        let wrong = |what| Error::Event { event, what };
        let format = Format::parse(text).ok_or(wrong("has a format that is not known"))?;
        self.layouts.push((format.id, layout(&format, kind).map_err(wrong)?));
        Ok(())
    }

    /// False if allocations tell the call site in place of the cache ([`unnamed`]).
    pub fn name_caches(&self) -> bool {
        !self.layouts.iter().any(|(_, layout)| layout.unnamed)
    }
}

/// Of kernels before 6.1, beside the others.
pub fn is_optional(event: &str) -> bool {
    event.ends_with("_node")
}

fn layout(format: &Format, kind: EventKind) -> Result<Layout, &'static str> {
    let is_page = matches!(kind, EventKind::PageAlloc | EventKind::PageFree);
    let is_count = !kind.has_address();
    let named = kind.names_cache();
    let field = |name| format.field(name);
    let unnamed = kind == EventKind::CacheAlloc && field("name").is_none();
    let name = if named && !unnamed { "name" } else { "call_site" };
    let pid = field("common_pid").ok_or("does not tell the process")?;
    Ok(Layout {
        kind,
        pid,
        address: match is_count {
            true => pid,
            false => {
                field(if is_page { "pfn" } else { "ptr" }).ok_or("does not tell the address")?
            }
        },
        name: match is_page || kind == EventKind::KfreeRcu {
            true => pid,
            false => field(name).ok_or("does not name the cache")?,
        },
        site: field("call_site").filter(|_| kind == EventKind::CacheAlloc && !unnamed),
        unnamed,
        requested: field("bytes_req"),
        allocated: field("bytes_alloc"),
        gfp: field("gfp_flags"),
        node: field("node").or(field("migratetype")),
        accounted: field("accounted"),
        order: field("order"),
    })
}

/// Makes events of the bytes of one CPU, and gives each name a number of its own.
pub struct Decoder<'a> {
    layouts: &'a Layouts,
    symbols: &'a Symbols,
    cpu: u16,
    by_site: HashMap<u64, u32>,
    by_unnamed: HashMap<u64, u32>,
    by_name: HashMap<Box<[u8]>, u32>,
    lately_site: Box<[(u64, u32)]>,
    lately_name: Box<[u32]>,
    /// In the order of their numbers, counted from 1.
    names: Vec<Box<str>>,
    /// Of these the merger knows.
    taken: usize,
}

impl<'a> Decoder<'a> {
    pub fn new(layouts: &'a Layouts, symbols: &'a Symbols, cpu: u16) -> Decoder<'a> {
        Decoder {
            layouts,
            symbols,
            cpu,
            by_site: HashMap::new(),
            by_unnamed: HashMap::new(),
            by_name: HashMap::new(),
            lately_site: vec![(0, NO_NAME); NAME_CACHE_SLOTS].into(),
            lately_name: vec![NO_NAME; NAME_CACHE_SLOTS].into(),
            names: Vec::new(),
            taken: 0,
        }
    }

    /// Names that are new since this was called last; the first has the number after the
    /// last one's.
    pub fn new_names(&mut self) -> Vec<Box<str>> {
        let new = self.names[self.taken..].to_vec();
        self.taken = self.names.len();
        new
    }

    /// The event, if it is one of ours and did something.
    #[inline]
    pub fn event(&mut self, time: u64, bytes: &[u8]) -> Option<Event> {
        let id = u16::from_ne_bytes(*bytes.first_chunk()?);
        let layout = self.layouts.layouts.iter().find(|(known, _)| *known == id)?.1;
        let get = |field: Option<Field>| field.map_or(0, |field| field.get(bytes));
        let has_address = layout.kind.has_address();
        let address = if has_address { layout.address.get(bytes) } else { 0 };
        let is_page = matches!(layout.kind, EventKind::PageAlloc | EventKind::PageFree);
        if address == u64::MAX || has_address && !is_page && address < LOWEST_ADDRESS {
            return None;
        }
        let gfp = get(layout.gfp) as u32;
        let name = match layout.kind {
            EventKind::CacheAlloc if layout.unnamed => self.unnamed(layout.name.get(bytes)),
            EventKind::Kmalloc | EventKind::Kfree => self.site(layout.name.get(bytes)),
            EventKind::PageAlloc | EventKind::PageFree | EventKind::KfreeRcu => NO_NAME,
            _ => self.cache(layout.name.words(bytes)),
        };
        let by_flag = layout.kind == EventKind::Kmalloc && gfp & ACCOUNT != 0;
        Some(Event {
            time,
            address: if is_page { address } else { address & ADDRESS },
            name,
            site: layout.site.map_or(NO_NAME, |site| self.site(site.get(bytes))),
            pid: layout.pid.get(bytes) as u32,
            requested: get(layout.requested) as u32,
            allocated: get(layout.allocated) as u32,
            gfp,
            cpu: self.cpu,
            // As the CSV has it: what has no node says any.
            node: layout.node.map_or(ANY_NODE, |field| field.get(bytes) as i16),
            order: get(layout.order) as u8,
            kind: layout.kind,
            accounted: layout.accounted.map_or(by_flag, |field| field.get(bytes) != 0),
        })
    }

    fn cache(&mut self, name: &[u8]) -> u32 {
        let hash = name.iter().fold(0u32, |h, b| (h ^ u32::from(*b)).wrapping_mul(0x0100_0193));
        let slot = (hash ^ hash >> 15) as usize % NAME_CACHE_SLOTS;
        let lately = self.lately_name[slot];
        if lately != NO_NAME && self.names[lately as usize - 1].as_bytes() == name {
            return lately;
        }
        let known = self.by_name.get(name).copied();
        let number = known.unwrap_or_else(|| {
            self.names.push(String::from_utf8_lossy(name).into());
            self.by_name.insert(name.into(), self.names.len() as u32);
            self.names.len() as u32
        });
        self.lately_name[slot] = number;
        number
    }

    fn unnamed(&mut self, site: u64) -> u32 {
        if let Some(number) = self.by_unnamed.get(&site) {
            return *number;
        }
        self.names.push(unnamed::marked(&self.symbols.name(site)).into());
        self.by_unnamed.insert(site, self.names.len() as u32);
        self.names.len() as u32
    }

    fn site(&mut self, address: u64) -> u32 {
        let slot = (address ^ address >> 10) as usize % NAME_CACHE_SLOTS;
        let lately = self.lately_site[slot];
        if lately.0 == address && lately.1 != NO_NAME {
            return lately.1;
        }
        let known = self.by_site.get(&address).copied();
        let number = known.unwrap_or_else(|| {
            self.names.push(self.symbols.name(address).into());
            self.by_site.insert(address, self.names.len() as u32);
            self.names.len() as u32
        });
        self.lately_site[slot] = (address, number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(id: u16, fields: &[(&str, &str)]) -> String {
        let mut text = format!("name: x\nID: {id}\nformat:\n");
        let common = [
            "unsigned short common_type;\toffset:0;\tsize:2",
            "int common_pid;\toffset:4;\tsize:4",
        ];
        common.iter().for_each(|field| text += &format!("\tfield:{field};\tsigned:0;\n"));
        for (nth, (of, name)) in fields.iter().enumerate() {
            let at = 8 + 8 * nth;
            text += &format!("\tfield:{of} {name};\toffset:{at};\tsize:8;\tsigned:0;\n");
        }
        text + "\nprint fmt: \"x\"\n"
    }

    fn bytes(id: u16, words: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        bytes[..2].copy_from_slice(&id.to_ne_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes
    }

    /// An allocation as kernels since 6.1 describe it.
    #[test]
    fn an_allocation_has_its_cache_and_its_call_site() {
        let fields = [("unsigned long", "call_site"), ("const void *", "ptr"), ("char", "name")];
        let layouts = Layouts::of_texts(|event| match event {
            "kmem_cache_alloc" => Some(format(7, &fields)),
            "kmem_cache_free" => Some(format(8, &fields)),
            _ => None,
        });
        let layouts = layouts.unwrap();
        assert!(layouts.name_caches());
        let symbols = Symbols::parse("ffffffff81000000 T getname_flags\n".into());
        let mut decoder = Decoder::new(&layouts, &symbols, 3);
        let words = [0xffff_ffff_8100_0010, 0xffff_8881_0000_1000, u64::from(b'f')];
        let event = decoder.event(9, &bytes(7, &words)).unwrap();
        assert_eq!(decoder.new_names().len(), 2);
        assert_eq!((event.name, event.site), (1, 2));
        // What is freed is known by its address.
        assert_eq!(decoder.event(9, &bytes(8, &words)).unwrap().site, NO_NAME);
    }

    #[test]
    fn a_probe_tells_an_object_or_a_cache_and_a_count() {
        let mut layouts = Layouts { layouts: Vec::new() };
        layouts.add("kfree_rcu", EventKind::KfreeRcu, &format(7, &[("u64", "ptr")])).unwrap();
        let fields = [("u64", "bytes_req"), ("char", "name")];
        layouts.add("free_bulk", EventKind::FreeBulk, &format(8, &fields)).unwrap();
        let symbols = Symbols::parse(String::new());
        let mut decoder = Decoder::new(&layouts, &symbols, 3);
        let event = decoder.event(9, &bytes(7, &[0xffff_8881_0000_1000])).unwrap();
        assert_eq!(
            (event.kind, event.name, event.address),
            (EventKind::KfreeRcu, NO_NAME, 0x8881_0000_1000)
        );
        assert!(decoder.event(9, &bytes(7, &[0])).is_none(), "nothing is freed");
        let event = decoder.event(9, &bytes(8, &[32, u64::from(b'f')])).unwrap();
        assert_eq!((event.kind, event.requested, event.address), (EventKind::FreeBulk, 32, 0));
        assert_eq!((event.name, decoder.new_names().len()), (1, 1));
        let error = layouts.add("free_bulk", EventKind::FreeBulk, &format(9, &[])).unwrap_err();
        assert!(error.to_string().contains("does not name the cache"), "{error}");
    }

    /// As kernels from 5.12 to 6.0 describe their events.
    #[test]
    fn allocations_without_a_cache_have_their_call_site() {
        let fields = [("unsigned long", "call_site"), ("const void *", "ptr")];
        let layouts = Layouts::of_texts(|event| {
            let id = EVENTS.iter().position(|(name, _)| *name == event).unwrap() as u16;
            event.starts_with("kmem_cache_alloc").then(|| format(id, &fields))
        });
        let layouts = layouts.unwrap();
        assert!(!layouts.name_caches());
        let symbols = Symbols::parse("ffffffff81000000 T getname_flags\n".into());
        let mut decoder = Decoder::new(&layouts, &symbols, 3);
        let site = 0xffff_ffff_8100_0010;
        for id in [0, 1, 0] {
            let event = decoder.event(9, &bytes(id, &[site, 0xffff_8881_0000_1000])).unwrap();
            assert_eq!((event.kind, event.name, event.cpu), (EventKind::CacheAlloc, 1, 3));
        }
        assert_eq!(decoder.new_names(), ["@getname_flags".into()]);
        let free = |event: &str| (event == "kmem_cache_free").then(|| format(2, &fields));
        let error = Layouts::of_texts(free).unwrap_err().to_string();
        assert!(error.contains("kmem_cache_free does not name the cache"), "{error}");
    }
}
