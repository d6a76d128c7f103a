//! Geometry: where objects begin in a slab, and which object an address is in.

use slabyard::cache::classes;
use slabyard::slab::Geometry;

#[test]
fn division_is_exact_for_every_offset() {
    let classes = classes::ROWS.map(|(size, _)| size);
    for size in (16..=2048).step_by(16).chain(classes) {
        for order in [2, 3, 4, 5, 6]
            .into_iter()
            .filter(|order| (1..=Geometry::MOST_OBJECTS).contains(&((4096 << order) / size)))
        {
            let g = Geometry::new(size, order);
            for offset in 0..g.slab_bytes() as u32 {
                let exact = (offset / size, offset % size == 0);
                assert_eq!(g.divide(offset), exact, "{offset} / {size}");
            }
        }
    }
}

#[test]
fn objects_begin_where_the_first_offset_says() {
    for (object, align, first) in [
        (1, 1, 0),
        (8, 8, 100),
        (8, 8, 5000),
        (16, 16, 32768),
        (24, 8, 0),
        (24, 8, 8),
        (56, 64, 1),
        (100, 4, 12),
        (1000, 256, 64),
        (4096, 4096, 4096),
        (20000, 8, 7),
        (32768, 16384, 0),
    ] {
        let g = Geometry::fitting(object, align, first, 0).expect("objects for slabs");
        assert!(g.object == object && g.size >= object && g.first >= first);
        assert!(g.objects >= 4 && g.padding() >= g.first as usize);
        let begins = |offset: u32| {
            let behind = offset.checked_sub(g.first)?;
            let index = behind / g.size;
            (behind % g.size == 0 && index < g.objects).then_some(index)
        };
        for offset in 0..g.slab_bytes() as u32 {
            assert_eq!(g.object_at(offset), begins(offset), "{offset} of {g:?}");
            if let Some(index) = g.object_at(offset) {
                assert_eq!(g.address_of(0, index), offset as usize);
                assert!(offset.is_multiple_of(align), "{offset} of {g:?}");
            }
        }
    }
    for (object, align) in [(Geometry::LARGEST + 1, 8), (8, 3), (8, 32 << 10), (8, 0)] {
        assert_eq!(Geometry::fitting(object, align, 0, 0), None);
    }
}
