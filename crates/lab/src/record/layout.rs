//! The offsets of an event's fields, from its `format` file, and of the parts of a ring-buffer
//! page, from `events/header_page`.

/// Bytes of an event, and of a page, at most.
const MOST: usize = 1 << 20;

/// Where a field of an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Bytes before it.
    pub offset: usize,
    /// Its bytes: 1, 2, 4 or 8.
    pub size: usize,
}

impl Field {
    /// Its value; 0 where the event ends before it.
    #[inline]
    pub fn get(self, event: &[u8]) -> u64 {
        let Some(bytes) = event.get(self.offset..self.offset + self.size) else { return 0 };
        let mut word = [0; 8];
        word[..self.size].copy_from_slice(bytes);
        u64::from_ne_bytes(word)
    }

    /// The bytes that a `__data_loc` field leads to, without the end mark.
    pub fn words(self, event: &[u8]) -> &[u8] {
        let place = self.get(event);
        let (at, length) = ((place & 0xffff) as usize, (place >> 16 & 0xffff) as usize);
        let bytes = event.get(at..at + length).unwrap_or_default();
        bytes.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

/// A `format` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The number that its events begin with.
    pub id: u16,
    fields: Vec<(String, Field)>,
}

impl Format {
    /// Reads one; None if it is none.
    pub fn parse(text: &str) -> Option<Format> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        Some(Format { id, fields: text.lines().filter_map(field).collect() })
    }

    /// The field of that name, if it is a number.
    pub fn field(&self, name: &str) -> Option<Field> {
        let field = self.fields.iter().find(|(known, _)| known == name).map(|(_, field)| *field);
        field.filter(|field| field.size <= 8)
    }
}

/// `field:unsigned long ptr; offset:16; size:8; signed:0;`, with tabs between.
fn field(line: &str) -> Option<(String, Field)> {
    let (what, places) = line.trim().strip_prefix("field:")?.split_once(';')?;
    let name = what.rsplit([' ', '*']).next()?.split('[').next()?.to_owned();
    let number = |key: &str| {
        let place = places.split(';').find_map(|part| part.trim().strip_prefix(key))?;
        place.parse::<usize>().ok()
    };
    let field = Field { offset: number("offset:")?, size: number("size:")? };
    // Of a file that is damaged.
    (field.offset.max(field.size) <= MOST).then_some((name, field))
}

/// A page of a ring buffer, as `events/header_page` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its time.
    pub timestamp: Field,
    /// Bytes in it, and whether some were lost before it.
    pub commit: Field,
    /// Where the events begin.
    pub data: usize,
    /// Where they end at the latest.
    pub size: usize,
}

impl Page {
    /// Reads the description; None if it is none.
    pub fn parse(text: &str) -> Option<Page> {
        let field = |name: &str| {
            text.lines().filter_map(field).find(|(known, _)| known == name).map(|(_, field)| field)
        };
        let (timestamp, commit, data) = (field("timestamp")?, field("commit")?, field("data")?);
        let fits = timestamp.size == 8 && matches!(commit.size, 4 | 8);
        fits.then_some(Page { timestamp, commit, data: data.offset, size: data.offset + data.size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: kmem_cache_free\nID: 656\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:const void * ptr;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:24;\tsize:4;\tsigned:0;\n\nprint fmt: \"x\"\n";

    #[test]
    fn a_page_is_as_the_kernel_describes_it() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        let page = Page::parse(text).unwrap();
        assert_eq!((page.timestamp.offset, page.commit.offset), (0, 8));
        assert_eq!((page.data, page.size), (16, 4096));
        assert_eq!(Page::parse("# compressed"), None);
    }

    #[test]
    fn fields_are_where_the_kernel_says() {
        let format = Format::parse(FORMAT).unwrap();
        assert_eq!(format.id, 656);
        assert_eq!(format.field("ptr"), Some(Field { offset: 16, size: 8 }));
        assert_eq!(format.field("common_pid"), Some(Field { offset: 4, size: 4 }));
        assert_eq!(format.field("gfp_flags"), None);
        // No number has nine bytes, and no event so many.
        for damaged in
            [FORMAT.replace("size:8", "size:9"), FORMAT.replace("offset:16", "offset:99999999")]
        {
            assert_eq!(Format::parse(&damaged).unwrap().field("ptr"), None);
        }
        let mut event = vec![0; 28];
        event[24..28].copy_from_slice(&(28u32 | 5 << 16).to_ne_bytes());
        event.extend(b"filp\0junk");
        assert_eq!(format.field("name").unwrap().words(&event), b"filp");
        assert_eq!(format.field("name").unwrap().words(&event[..28]), b"");
        assert_eq!(format.field("ptr").unwrap().get(&event[..20]), 0);
    }
}
