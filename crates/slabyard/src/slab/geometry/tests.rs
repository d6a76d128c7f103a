use super::*;
use crate::cache::classes;

#[test]
fn every_word_lies_in_a_descriptor_or_in_front_of_the_objects() {
    let all = (0..=16).flat_map(|object| {
        let firsts = [0, 1, 64, 200, 1792, 1793, 4000, 20000, 32768];
        firsts.into_iter().flat_map(move |first| (0..=4).map(move |o| (object, first, o)))
    });
    for (object, first, least_order) in all {
        let g = Geometry::fitting(object, 1, first, least_order).expect("objects for slabs");
        let case = format!("{object} bytes from {first} on: {g:?}");
        assert!(g.size == object.max(1).next_multiple_of(8) && g.order >= least_order, "{case}");
        let words = g.words().count() as u32;
        assert_eq!(words, g.objects.div_ceil(64), "{case}");
        let in_slab = words.saturating_sub(4 * g.granules());
        // They are all numbered as the free set expects, and are followed by what was asked.
        assert!(in_slab == 0 || 4 * g.granules() >= Word::FIRST_IN_SLAB.0, "{case}");
        assert!(8 * in_slab + first <= g.first, "{case}");
        assert!(g.first - first < 8 * in_slab + 64 + 8, "{case}");
        assert!(in_slab == 0 || g.size == 8, "{case}");
        // There is no room for one more, but that no slab has more.
        let end = g.address_of(0, g.objects);
        assert!(end <= g.slab_bytes(), "{case}");
        let is_full = g.slab_bytes() - end < g.size as usize;
        assert!(is_full || g.objects == Geometry::MOST_OBJECTS, "{case}");
    }
    let g = Geometry::fitting(8, 8, 0, 0).expect("objects for slabs");
    assert_eq!((g.objects, g.first, g.slab_bytes()), (4064, 256, 32 << 10));
}

#[test]
fn words_span_all_objects_and_nothing_else() {
    let with_first = Geometry::fitting(40, 8, 24, 0).expect("objects for slabs");
    let classes = classes::ROWS.map(|(size, order)| Geometry::new(size, order));
    let small = Geometry::fitting(8, 8, 24, 0).expect("objects for slabs");
    for g in classes.into_iter().chain([with_first, small]) {
        let (size, first) = (g.size, g.first as usize);
        let mut end = first;
        for word in g.words() {
            let (begin, bytes) = g.span_of(word);
            assert_eq!(begin, end, "objects of {size} bytes");
            assert!(bytes <= 64 * size as usize, "{bytes} of 64 objects of {size} bytes");
            end = begin + bytes;
        }
        assert_eq!(end - first + g.padding(), g.slab_bytes(), "objects of {size} bytes");
    }
}
