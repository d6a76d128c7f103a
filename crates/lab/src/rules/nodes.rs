//! Nodes of a machine, and the kernel's lists of nodes and CPUs.
//!
//! Neighbour: [`super::Machine`] has the set of its nodes without memory.

use std::fmt;
use std::ops::RangeInclusive;

/// Nodes by their numbers, which are below 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSet(u64);

impl NodeSet {
    /// No node.
    pub const NONE: NodeSet = NodeSet(0);

    /// Reads a kernel's list: "1,3-7".
    #[must_use]
    pub fn parse(list: &str) -> Option<NodeSet> {
        let ranges = ranges(list)?;
        if ranges.iter().any(|range| *range.end() >= u64::BITS) {
            return None;
        }
        Some(NodeSet(ranges.into_iter().flatten().fold(0, |bits, node| bits | 1 << node)))
    }

    /// The nodes of a machine that are not among those with memory, by a kernel's lists `online` and
    /// `has_normal_memory`; none where the online ones are not numbered without a gap.
    #[must_use]
    pub fn without_memory(online: &str, with_memory: &str) -> NodeSet {
        let gapless = count_and_last(online).is_some_and(|(count, last)| count == last + 1);
        match (NodeSet::parse(online), NodeSet::parse(with_memory)) {
            (Some(all), Some(set)) if gapless => NodeSet(all.0 & !set.0),
            _ => NodeSet::NONE,
        }
    }

    /// Those of a machine's nodes that are not among others.
    #[must_use]
    pub fn all_but(nodes: u32, others: impl Iterator<Item = u32>) -> NodeSet {
        let bit = |node: u32| 1u64.checked_shl(node).unwrap_or(0);
        let all = (0..nodes).fold(0, |bits, node| bits | bit(node));
        NodeSet(others.fold(all, |bits, node| bits & !bit(node)))
    }

    /// True for a node that is in it.
    #[must_use]
    pub fn has(self, node: u32) -> bool {
        node < u64::BITS && self.0 >> node & 1 == 1
    }

    /// True without a node.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Of a machine with so many nodes, of which this set has no memory: the node whose memory each
    /// uses, itself or the one whose number is nearest; `None` if no node has memory.
    #[must_use]
    pub fn memory_of(self, nodes: u32) -> Option<Vec<u16>> {
        let nearest = |node: u32| {
            let with_memory = (0..nodes).filter(|other| !self.has(*other));
            with_memory.min_by_key(|other| node.abs_diff(*other)).map(|node| node as u16)
        };
        (0..nodes).map(nearest).collect()
    }
}

impl fmt::Display for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<String> =
            (0..u64::BITS).filter(|node| self.has(*node)).map(|node| node.to_string()).collect();
        f.write_str(&nodes.join(","))
    }
}

/// Of a kernel's list of CPUs or nodes, how many there are and the last one: "0-3,8" is 5 of them, the
/// last of which is number 8.
#[must_use]
pub fn count_and_last(list: &str) -> Option<(u32, u32)> {
    ranges(list)?.into_iter().try_fold((0u32, 0), |(count, last), range| {
        Some((count.checked_add(range.end() - range.start() + 1)?, last.max(*range.end())))
    })
}

/// The ranges of a kernel's list of CPUs or nodes, whose numbers are below 2^20.
#[must_use]
pub fn ranges(list: &str) -> Option<Vec<RangeInclusive<u32>>> {
    let range = |range: &str| {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        (low <= high && high < 1 << 20).then_some(low..=high)
    };
    list.split(',').map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_without_memory_use_the_nearest_one() {
        let set = NodeSet::parse("1,3-4").unwrap();
        assert_eq!(set.memory_of(5), Some(vec![0, 0, 2, 2, 2]));
        assert_eq!(set.to_string(), "1,3,4");
        assert_eq!(NodeSet::without_memory("0-4", "0,2"), set);
        assert_eq!(NodeSet::without_memory("0,2", "0"), NodeSet::NONE);
        assert_eq!(NodeSet::all_but(5, [0, 2, 70].into_iter()), set);
        assert_eq!(NodeSet::parse("0-1").unwrap().memory_of(2), None);
        for text in ["", "64", "2-1", "x"] {
            assert_eq!(NodeSet::parse(text), None, "{text}");
        }
    }
}
