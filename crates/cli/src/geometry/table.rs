//! The geometry table: the slabs' layout, then the limits of the chosen allocator.
//!
//! Neighbours: [`super::sizes`] fills it for SLUB, [`super::slab`] for SLAB.

use slabyard_ask::geometry::Slabs;
use std::fmt::Write as _;

const HEADS: [(&str, &str); 6] = [
    ("size", ""),
    ("slab_size", ""),
    ("order", ""),
    ("slab", ""),
    ("objs_per_slab", "objects"),
    ("waste", "a slab"),
];

fn cells(slabs: &Slabs, page_size: u32) -> [String; 6] {
    let slab = u64::from(page_size) << slabs.order;
    let share = f64::from(slabs.waste) * 100.0 / slab as f64;
    [
        bytes(slabs.size.into()),
        bytes(slabs.slab_size.into()),
        slabs.order.to_string(),
        bytes(slab),
        slabs.objs_per_slab.to_string(),
        format!("{} ({share:.1}%)", bytes(slabs.waste.into())),
    ]
}

/// Lines of slabs and of limits below their heads, aligned at the right.
pub(super) fn grid<const N: usize>(
    page_size: u32,
    heads: [(&str, &str); N],
    rows: impl Iterator<Item = (Slabs, [String; N])>,
) -> String {
    let heads: Vec<_> = HEADS.into_iter().chain(heads).collect();
    let mut grid: Vec<Vec<String>> = vec![
        heads.iter().map(|h| h.0.into()).collect(),
        heads.iter().map(|h| h.1.into()).collect(),
    ];
    grid.extend(rows.map(|(slabs, limits)| [&cells(&slabs, page_size)[..], &limits].concat()));
    let mut text = String::new();
    for row in &grid {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = grid.iter().map(|row| row[column].len()).max().unwrap_or(0);
            let gap = if column == 0 { "" } else { "  " };
            let _ = write!(line, "{gap}{cell:>width$}");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Exact: `192 B`, `4 KiB`, `9856 B`.
pub(super) fn bytes(number: u64) -> String {
    match number {
        n if n >= 1 << 20 && n.is_multiple_of(1 << 20) => format!("{} MiB", n >> 20),
        n if n >= 1 << 10 && n.is_multiple_of(1 << 10) => format!("{} KiB", n >> 10),
        n => format!("{n} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_exact() {
        for (number, text) in [(0, "0 B"), (1000, "1000 B"), (4096, "4 KiB"), (3 << 20, "3 MiB")] {
            assert_eq!(bytes(number), text);
        }
    }
}
