use super::*;

#[test]
fn each_size_has_a_bank_and_all_share_the_spare_room() {
    let bank = |granules| bank_of(granules).map(|it| it.0);
    let banks: std::vec::Vec<_> = (0..200).map(bank).collect();
    let first = row::FIRST_BANK as u16;
    let ends = [9, 13, 17, 25, 33, 49, 65, 97, 129];
    for (nth, pair) in ends.windows(2).enumerate() {
        let slot = first + nth as u16;
        assert!(banks[pair[0]..pair[1]].iter().all(|bank| *bank == Some(slot)));
        assert_eq!(largest_of(Slot(slot)), pair[1] - 1);
        let room = |others| capacity_for(Slot(slot), others, usize::MAX);
        assert!((1..=room(0)).contains(&capacity_for(Slot(slot), 0, 0)));
        assert!((2..=row::MOST_BANKED).contains(&room(0)));
        assert_eq!((room(SPARE_BYTES), room(usize::MAX)), (1, 1));
    }
    assert!(banks[..9].iter().chain(&banks[129..]).all(Option::is_none));
}
