use super::*;

#[test]
fn a_mask_s_width_bounds_the_number_of_cpus() {
    let of = |text: &str, part: usize| {
        let mut width = MaskWidth::default();
        let _ = text.as_bytes().chunks(part).any(|part| width.ends_in(part));
        width.get()
    };
    for part in 1..40 {
        let width = |mask: &str| of(&format!("Name:\tx\n\nCpus_allowed:\t{mask}"), part);
        assert_eq!(width("3\nCpus_allowed_list:\t0-1\n"), Some(4));
        assert_eq!(width("ffff\n"), Some(16));
        assert_eq!(width("00ff,ffffffff\n"), Some(48));
        assert_eq!(width("ffff"), None, "it may go on");
        assert_eq!(width("\n"), None);
        assert_eq!(of("", part), None);
    }
}

#[test]
fn rows_are_never_fewer_than_cpus_that_the_kernel_names() {
    let mask = Mask { bits: 64, end: 2 };
    assert_eq!(choose(&mask, Some(4)), 4);
    assert_eq!(choose(&mask, Some(64)), 64, "CPUs that come later");
    assert_eq!(choose(&mask, Some(100_000)), 64, "more than masks have room for");
    assert_eq!(choose(&mask, None), 64);
    let far = Mask { bits: 256, end: 200 };
    assert_eq!(choose(&far, Some(4)), 256, "it may use the 200th");
    assert_eq!(choose(&far, Some(0)), 256);
}

#[test]
fn each_way_counts_all_cpus() {
    let (rows, most) = possible();
    let mask = Mask::of_this_thread();
    assert!(mask.end <= rows && rows <= most && most <= MOST);
    assert!(width_in_status().is_none_or(|width| width >= mask.end));
}
