//! What a recording saw allocated and not freed, by what became of it.

use super::{Total, Verdict, part};
use crate::recording::Recording;
use slabyard_lab::leaks::Verdict as Fate;

/// The parts, which add up to what is live at the end.
#[must_use]
pub fn verdict(recording: &Recording) -> Verdict {
    let of = |fate: Fate, help| {
        let sites = recording.leaks.sites.iter().filter(|site| site.verdict == fate);
        part(fate.word(), sites.map(|site| site.survivors.bytes).sum(), help)
    };
    let parts = vec![
        of(Fate::Leak, "old, of sites that allocated throughout the recording"),
        of(Fate::Reclaimable, "the same, of caches from which the kernel takes objects back"),
        of(Fate::Kept, "old, and allocated in a short time"),
        of(Fate::Replaced, "old, and older objects were freed for them"),
        of(Fate::Unseen, "perhaps freed many at once, which the recording lacks"),
        of(Fate::Young, "no older than objects of their sites become"),
    ];
    Verdict::new(Total::Recorded, recording.live(), parts, Vec::new())
}
